"""Find the blocks of a text: paragraphs, items of lists, rows of tables, listings, headings.

`clean_for_reading` removes what only a machine reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from ragstone.text import LIST_MARK, find_breaks

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "row", "code"]
Span: TypeAlias = tuple[int, int]

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_ITEM = re.compile(rf"([ \t]*){LIST_MARK}[ \t]+(?=\S)")
# Numbers and letters, which may also stand at the start of a line in the middle of a sentence.
_MARKED = re.compile(r"[ \t]*(?:[(§]|\d{1,3}[.)]|[a-z]{1,5}\))")
_SENTENCE_END = re.compile(r"[.!?…]['\"”’»)\]*_]*\s*$")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_RULE_ROW = re.compile(r"[ \t]*\|?[\s|:+=-]*$")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph, an item of a list, a row of a table, a listing or a heading."""

    kind: BlockKind
    start: int
    end: int
    group: int
    """Items of one list, and rows of one table, share a group."""


def find_blocks(text: str) -> list[TextBlock]:
    """Return the blocks of a text in order, without blank lines and rules between rows."""
    return list(_find_blocks(text))


@lru_cache(maxsize=2_048)
def _find_blocks(text: str) -> tuple[TextBlock, ...]:
    found: list[TextBlock] = []
    lines = _split_lines(text)
    at = 0
    while at < len(lines):
        start, end = lines[at]
        line = text[start:end]
        if not line.strip():
            at += 1
            continue
        kind = _tell_kind(line)
        last = _find_last_line(text, lines, at, kind)
        if kind != "row" or not _RULE_ROW.match(line):
            found.append(_make_block(text, kind, start, lines[last][1], found))
        at = last + 1
    return tuple(found)


def _split_lines(text: str) -> list[Span]:
    lines: list[Span] = []
    start = 0
    for line in text.splitlines(keepends=True):
        lines.append((start, start + len(line.rstrip("\r\n"))))
        start += len(line)
    return lines


def _tell_kind(line: str) -> BlockKind:
    if _FENCE.match(line):
        return "code"
    if _HEADING.match(line):
        return "heading"
    if line.lstrip().startswith("|"):
        return "row"
    return "item" if _ITEM.match(line) else "paragraph"


def _find_last_line(text: str, lines: Sequence[Span], at: int, kind: BlockKind) -> int:
    """Return the last line of the block that begins at line `at`."""
    if kind in ("heading", "row"):
        return at
    if kind == "code":
        fence = _FENCE.match(text[slice(*lines[at])])
        mark = fence[1] if fence else "```"
        for later in range(at + 1, len(lines)):
            if text[slice(*lines[later])].strip().startswith(mark):
                return later
        return len(lines) - 1
    last = at
    breaks = find_breaks(text)
    for later in range(at + 1, len(lines)):
        line = text[slice(*lines[later])]
        if not line.strip():
            break
        if _MARKED.match(line):
            # A clause ("2.1 The …") begins here, or a sentence goes on ("as in / (a) above").
            begins = lines[later][0] in breaks
        else:
            begins = _tell_kind(line) != "paragraph" or (
                kind == "item"
                and _ends_item(text[slice(*lines[at])], text[slice(*lines[last])], line)
            )
        if begins:
            break
        last = later
    return last


def _ends_item(first: str, before: str, line: str) -> bool:
    """Return True for a line after an item: not indented, a new sentence after a finished one."""
    indent, own = (len(one) - len(one.lstrip()) for one in (first, line))
    return own <= indent and _SENTENCE_END.search(before) is not None and line[own].isupper()


def _make_block(
    text: str, kind: BlockKind, start: int, end: int, before: Sequence[TextBlock]
) -> TextBlock:
    """Make a block; it joins the list or table before it, over a listing inside an item."""
    group = len(before)
    if kind in ("item", "row"):
        earlier = [block for block in before[-2:] if kind == "row" or block.kind != "code"]
        previous = earlier[-1] if earlier and before[-1].kind in (kind, "code") else None
        if previous and previous.kind == kind and _is_same_mark(text, previous.start, start):
            group = previous.group
    return TextBlock(kind, start, end, group)


def _is_same_mark(text: str, one: int, other: int) -> bool:
    """Return True when two items are both numbered, or both bullets; rows always."""
    marks = [text[at:].lstrip()[:1] for at in (one, other)]
    return marks[0].isalnum() == marks[1].isalnum()


_NOISE = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|\{\{[<%][^}]*?\btext=\"(?P<word>[^\"]*)\"[^}]*[%>]\}\}"
    r"|\{\{[<%][^}]*?\bterm_id=\"(?P<term>[^\"]*)\"[^}]*[%>]\}\}"
    r"|\{\{[<%][^}]*?[%>]\}\}"
    r"|!\[(?P<image>[^\]\n]*)\]\([^)\n]*\)"
    r"|(?<!!)\[(?P<label>[^\]\n]+)\]\((?:[^()]|\([^()\n]*\)){0,300}\)"
    r"|\A---\n(?:(?:\w[\w-]*:|[ \t]|-)[^\n]*\n|\n)*?---\n"
    r"|\*\*(?P<bold>[^*\n]+)\*\*"
    r"|[ \t]*\{#[\w-]+\}"
    r"|</?(?:br|p|div|span|sup|sub|em|strong|b|i|a|code|small|table|t[rdh]|tbody|thead|caption)\b[^>\n]*>",
    re.DOTALL,
)


def clean_for_reading(text: str) -> str:
    """Remove comments, shortcodes, link targets, bold marks, HTML tags and front matter."""
    return _NOISE.sub(_find_kept_part, text)


def _find_kept_part(match: re.Match[str]) -> str:
    text = match.string
    if text.count("`", text.rfind("\n", 0, match.start()) + 1, match.start()) % 2:
        return match[0]  # inside inline code
    return next((match[name] for name in _SHOWN if match[name] is not None), "")


_SHOWN = ("word", "term", "label", "bold")
