"""Take links and images to elsewhere out of an answer, also while it is streamed.

A document can order a model to show a picture from a foreign server, which then learns what was
asked. Only addresses that stand in a source stay. Code is left alone: nothing in it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ragstone.reading.units import CODE_EDGE, update_open_code

IMAGE_REMOVED, LINK_REMOVED = "(image removed)", "(link removed)"
_HOST = re.compile(r"[a-z][a-z0-9+.-]*:|//|www\.", re.IGNORECASE)
_LINK = re.compile(
    r"(?P<image>!\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\]))"
    r"|\[(?P<label>[^\]\n]*)\]\(\s*<?(?P<url>[^)\s>]*)>?[^)\n]*\)"
    r"|(?P<tag></?(?:img|a|iframe|script|link|video|audio|source|object|embed)\b[^>]*>)"
    r"|(?P<definition>(?m:^)[ \t]*\[[^\]\n]+\]:[ \t]*<?(?P<target>\S+?)>?(?:[ \t][^\n]*)?(?m:$))"
    r"|(?P<bare>(?:\b(?:https?|ftp)://|\bwww\.)[^\s<>()\[\]\"'`]*[^\s<>()\[\]\"'`.,;:!?])",
    re.IGNORECASE,
)
_EVENT = re.compile(rf"(?P<ticks>`+)|{_LINK.pattern}", re.IGNORECASE)
# The end of a text that may become a link with the next piece.
_OPEN = re.compile(
    r"!?\[[^\]\n]{0,200}(?:\](?:[(\[][^)\]\n]{0,2000})?)?$|!$|<[a-z/][^>\n]{0,2000}$|<$"
    r"|(?:\b(?:https?|ftp)://|\bwww\.)\S{0,2000}$"
    r"|\b(?:h|ht|htt|https?|https?:|https?:/|f|ft|ftp|ftp:|ftp:/|w|ww|www)$",
    re.IGNORECASE,
)


@dataclass(slots=True)
class LinkFilter:
    """Pass text on as it comes, but a link only when complete, and only if it is known."""

    is_known: Callable[[str], bool]
    removed: list[str] = field(default_factory=list)
    """The addresses that were taken out."""
    _buffer: str = ""
    _open_code: int = 0

    def feed(self, piece: str) -> str:
        self._buffer += piece
        return self._drain(last=False)

    def close(self) -> str:
        return self._drain(last=True)

    def _drain(self, *, last: bool) -> str:
        text, at = self._buffer, 0
        out: list[str] = []
        while match := (CODE_EDGE if self._open_code else _EVENT).search(text, at):
            out.append(text[at : match.start()])
            at = match.start()
            if match.end() == len(text) and not last and _may_grow(match):
                break
            out.append(self._replace(match))
            at = match.end()
        else:
            rest = text[at:]
            opening = None if last or self._open_code else _OPEN.search(rest)
            keep = opening.start() if opening else len(rest)
            out.append(rest[:keep])
            at += keep
        self._buffer = text[at:]
        return "".join(out)

    def _replace(self, match: re.Match[str]) -> str:
        if set(match[0]) <= {"`", "\n"}:
            self._open_code = update_open_code(self._open_code, match[0])
            return match[0]
        if match["image"] or match["tag"]:
            self.removed.append(match[0])
            return IMAGE_REMOVED if match["image"] or "<img" in match[0].casefold() else ""
        url = match["url"] or match["target"] or match["bare"] or ""
        if url and self.is_known(url):
            return match[0]
        label = match["label"]
        if label is not None and not _HOST.match(url):
            return f"[{label}]" if label.isdigit() else label
        self.removed.append(url)
        if label is None:
            return LINK_REMOVED
        return f"[{label}]" if label.isdigit() else f"{label} {LINK_REMOVED}"


def _may_grow(match: re.Match[str]) -> bool:
    """Return True for backticks and addresses at the end of a text: more may follow."""
    if match[0].startswith("`"):
        return True
    return match[0] != "\n" and bool(match["bare"] or match["definition"])


def remove_foreign_links(text: str, is_known: Callable[[str], bool]) -> str:
    """Return a finished text without links and images to elsewhere."""
    links = LinkFilter(is_known)
    return links.feed(text) + links.close()
