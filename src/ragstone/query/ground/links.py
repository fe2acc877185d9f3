"""Take links and images to elsewhere out of an answer, also while it is streamed.

A document can order a model to show a picture from a foreign server, which then learns what was
asked. Only addresses that stand in a source stay. Code is left alone: nothing in it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

# Without brackets, which could close what was left open before them.
IMAGE_REMOVED, LINK_REMOVED = "‹image removed›", "‹link removed›"
_HOST = re.compile(r"[a-z][a-z0-9+.-]*:|//|www\.", re.IGNORECASE)
# Text in brackets, which may hold brackets itself.
_INSIDE = r"(?:[^\[\]\n]|\[[^\[\]\n]*\])"
_LINK = (
    rf"(?P<image>!\[{_INSIDE}*\](?:\([^)\n]*\)|\[[^\]\n]*\]))"
    rf"|\[(?P<label>{_INSIDE}*)\]\(\s*<?(?P<url>[^)\s>]*)>?[^)\n]*\)"
    r"|(?P<tag></?(?:img|a|iframe|script|link|video|audio|source|object|embed)\b[^>]*>)"
    r"|(?P<definition>(?m:^)[ \t]*\[[^\[\]\n]+\]:[ \t]*"
    r"<?(?P<target>(?:[a-z][a-z0-9+.-]*:|//|www\.)\S+?)>?(?:[ \t][^\n]*)?(?m:$))"
    r"|(?P<bare>(?:\b(?:https?|ftp)://|\bwww\.)[^\s<>()\[\]\"'`]*[^\s<>()\[\]\"'`.,;:!?])"
)
_INLINE_CODE = r"(?P<code>(?<!`)(?P<ticks>`{1,2})(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`))"
_CODE = re.compile(_INLINE_CODE)
# A listing, code inside a line, or a link. A backtick that nothing closes is text.
_EVENT = re.compile(rf"(?P<fence>`{{3,}})|{_INLINE_CODE}|{_LINK}", re.IGNORECASE)
_FENCE_END = re.compile(r"`{3,}")
# The end of a text that may become a link or code with the next piece.
_OPEN = re.compile(
    rf"!?\[{_INSIDE}{{0,400}}(?:\[[^\[\]\n]{{0,200}})?(?:\](?:[(\[][^)\]\n]{{0,2000}})?)?$|!$"
    r"|(?m:^)[ \t]*\[[^\]\n]{1,200}\]:[^\n]{0,2000}$|`[^\n]{0,2000}$|<[a-z/][^>\n]{0,2000}$|<$"
    r"|(?:\b(?:https?|ftp)://|\bwww\.)[^\s<>()\[\]\"'`]{0,2000}$"
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
    _fence: int = 0
    """The length of the fence of an open listing."""
    _ends_with_bracket: bool = False

    def feed(self, piece: str) -> str:
        self._buffer += piece
        return self._drain(last=False)

    def close(self) -> str:
        return self._drain(last=True)

    def _drain(self, *, last: bool) -> str:
        text, at = self._buffer, 0
        out: list[str] = []
        while at < len(text):
            hold = len(text) if last else self._find_open(text, at)
            match = (_FENCE_END if self._fence else _EVENT).search(text, at)
            if match is None or match.start() > hold or (not last and _may_grow(match, hold)):
                hold = min(hold, match.start()) if match else hold
                out.append(self._part_brackets(text[at:hold]))
                at = hold
                break
            out.append(self._part_brackets(text[at : match.start()]))
            out.append(self._replace(match))
            self._ends_with_bracket = out[-1].endswith("]")
            at = match.end()
        self._buffer = text[at:]
        return "".join(out)

    def _part_brackets(self, text: str) -> str:
        """Separate brackets that would form a link, alone or with what was put out before."""
        if not text or self._fence:
            return text
        gap = " " if self._ends_with_bracket and text.startswith("(") else ""
        self._ends_with_bracket = text.endswith("]")
        return gap + text.replace("](", "] (")

    def _find_open(self, text: str, at: int) -> int:
        """Return the place from which a text may still change with the next piece."""
        opening = (_TICKS if self._fence else _OPEN).search(text, at)
        return opening.start() if opening else len(text)

    def _replace(self, match: re.Match[str]) -> str:
        if self._fence or match["fence"]:
            size = len(match[0])
            self._fence = size if not self._fence else 0 if size >= self._fence else self._fence
            return match[0]
        if match["image"] or match["tag"]:
            self.removed.append(match[0])
            return IMAGE_REMOVED if match["image"] or "<img" in match[0].casefold() else ""
        url = match["url"] or match["target"] or match["bare"] or ""
        if match["code"] or (url and self.is_known(url)):
            return match[0]
        if match["label"] is not None:
            return self._replace_labelled(match["label"], url)
        self.removed.append(url)
        return LINK_REMOVED

    def _replace_labelled(self, text: str, url: str) -> str:
        label = remove_foreign_links(text, self.is_known)
        if "`" in _CODE.sub("", label):
            label = label.replace("`", "'")  # it would open code that hides a link behind it
        shown = self._part_brackets(f"[{label}]" if label.isdigit() else label)
        if not _HOST.match(url):
            return shown
        self.removed.append(url)
        return shown if label.isdigit() else f"{shown} {LINK_REMOVED}"


def _may_grow(match: re.Match[str], hold: int) -> bool:
    """Return True for backticks and addresses at the end of a text: more may follow."""
    if match[0].endswith("`"):
        return match.end() == len(match.string)
    return match.start() == hold and bool(match["bare"] or match["definition"])


_TICKS = re.compile(r"`+$")


def remove_foreign_links(text: str, is_known: Callable[[str], bool]) -> str:
    """Return a finished text without links and images to elsewhere."""
    links = LinkFilter(is_known)
    return links.feed(text) + links.close()
