"""Cut a section into the units of its chunks: sentences, tables, code, with what belongs to them.

section → units in order. A unit knows where its group ends: a lead-in goes with the list, code or
table it leads to, a question with its answer, a caption with its table. A table knows the lines
that name it, and rows that are cut from their header know the header.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ragstone.blocks import Block, LoadedDocument
from ragstone.text import LIST_MARK, find_sentence_spans

# Longer paragraphs are prose, not the caption of a table.
_CAPTION_CHARS = 150
# A caption, a line of units and a title at most.
_CAPTION_LINES = 3
# The header of a table takes at most this share of each of its pieces.
_HEADER_SHARE = 1 / 3
_HEADER_CHARS = 300
# Few enough for column names and figures.
_CHARS_PER_TOKEN = 3
_LEAD_IN = re.compile(
    r"(?::|：|\b(?:as follows|(?:steps?|commands?|examples?|list|table)(?: given)? below))"
    r"[\s*_.]*$",
    re.IGNORECASE,
)
_ITEM = re.compile(rf"[ \t]*{LIST_MARK}[ \t]+\S")
_QUESTION = re.compile(r"[^\n]{3,200}[?？][\s*_]*$")
_BLANK_LINE = "\n\n"
_RULE = re.compile(r"[|\s:+-]+$")
# "Table 3: Employees by region", written below the table by some.
_CAPTION_BELOW = re.compile(r"(?:tab(?:le|elle|leau|la|ela)?|fig(?:ure)?)\.?\s*\d", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Section:
    """Mark the text under one heading path and on one page."""

    start: int
    end: int
    heading_path: tuple[str, ...]
    page: int | None


@dataclass(frozen=True, slots=True)
class Unit:
    """Mark the smallest piece of a chunk: a sentence, or a block that should stay whole."""

    start: int
    end: int
    content_type: str = "text"
    header: str = ""
    """The row of column names, where it stands before this piece of a table."""
    header_tokens: int = 0
    captions: tuple[tuple[int, int], ...] = ()
    """The lines around a table that name it."""
    group_end: int = 0
    """The end of the last unit that belongs to this one; 0 if it stands alone."""


def count_tokens(tokens: Sequence[int], start: int, end: int) -> int:
    """Count the tokens that begin in a span, given the offsets of all tokens."""
    return bisect_left(tokens, end) - bisect_left(tokens, start)


def split_units(
    loaded: LoadedDocument, section: Section, tokens: Sequence[int], budget: int
) -> Iterator[Unit]:
    """Yield the units of a section, none of them longer than `budget` tokens."""
    units = list(_find_units(loaded, section))
    for at, unit in enumerate(units):
        if count_tokens(tokens, unit.start, unit.end) + unit.header_tokens <= budget:
            end = _find_group_end(loaded.text, units, at, tokens, budget)
            yield replace(unit, group_end=end)
        elif unit.content_type == "table":
            yield from _cut_table(loaded.text, unit, tokens, budget)
        else:
            # What does not fit is cut at its lines: code, and keys with their values.
            for line in _split_lines(loaded.text, unit):
                yield from _cut_unit(loaded.text, line, tokens, budget)


def _find_units(loaded: LoadedDocument, section: Section) -> Iterator[Unit]:
    position = section.start
    for block in _select_blocks(loaded.blocks, section):
        yield from _split_sentences(loaded.text, position, block.start)
        if block.content_type == "table":
            captions = _find_captions(
                loaded.text, (position, block.start), (block.end, section.end)
            )
            yield _make_unit(loaded.text, block, captions)
        elif block.content_type != "comment":
            yield _make_unit(loaded.text, block, ())
        position = block.end
    yield from _split_sentences(loaded.text, position, section.end)


def _make_unit(text: str, block: Block, captions: tuple[tuple[int, int], ...]) -> Unit:
    end = block.start + len(text[block.start : block.end].rstrip())
    header = block.header[:_HEADER_CHARS]
    return Unit(block.start, end, block.content_type, header, 0, captions)


def _get_start(block: Block) -> int:
    return block.start


def _select_blocks(blocks: Sequence[Block], section: Section) -> Iterator[Block]:
    position = section.start
    for at in range(bisect_left(blocks, position, key=_get_start), len(blocks)):
        block = blocks[at]
        if block.start >= section.end:
            break
        if block.start >= position and block.end <= section.end:
            yield block
            position = block.end


def _split_sentences(text: str, start: int, end: int) -> Iterator[Unit]:
    for begin, stop in find_sentence_spans(text[start:end]):
        yield Unit(start + begin, start + stop)


def _find_captions(
    text: str, before: tuple[int, int], after: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """Find the short paragraphs just above a table, and a numbered caption just below it."""
    found: list[tuple[int, int]] = []
    start, end = before
    while len(found) < _CAPTION_LINES:
        end = start + len(text[start:end].rstrip())
        begin = max(start, text.rfind(_BLANK_LINE, start, end))
        begin += len(text[begin:end]) - len(text[begin:end].lstrip())
        if begin >= end or end - begin > _CAPTION_CHARS:
            break
        found.insert(0, (begin, end))
        end = begin
    start, end = after
    start += len(text[start:end]) - len(text[start:end].lstrip())
    stop = text.find(_BLANK_LINE, start, end)
    stop = end if stop < 0 else stop
    if stop - start <= _CAPTION_CHARS and _CAPTION_BELOW.match(text, start, stop):
        found.append((start, start + len(text[start:stop].rstrip())))
    return tuple(found)


def _find_group_end(
    text: str, units: Sequence[Unit], at: int, tokens: Sequence[int], budget: int
) -> int:
    """Return the end of what belongs to a unit, as far as it fits into a chunk."""
    last = _find_last_of_group(text, units, at)
    for other in (last, at + 1):
        if at < other <= last and count_tokens(tokens, units[at].start, units[other].end) <= budget:
            return units[other].end
    return 0


def _find_last_of_group(text: str, units: Sequence[Unit], at: int) -> int:
    unit = units[at]
    if unit.content_type != "text" or at + 1 == len(units):
        return at
    following = units[at + 1]
    content = text[unit.start : unit.end]
    if following.content_type not in {"text", "table"}:
        return at + 1  # a listing goes with the sentence before it
    table = _find_captioned_table(units, at)
    if table is not None:
        return table
    last = at
    if _LEAD_IN.search(content):
        if following.content_type == "table":
            last = at + 1
        elif _ITEM.match(text, following.start):
            last = _find_last_item(text, units, at + 1)
    elif following.content_type == "text" and _is_line(text, unit) and _QUESTION.match(content):
        # The marks that close a question in bold may be a unit of their own.
        is_mark = not text[following.start : following.end].strip("*_ ")
        last = _find_last_of_paragraph(text, units, min(at + 1 + is_mark, len(units) - 1))
    return last


def _find_captioned_table(units: Sequence[Unit], at: int) -> int | None:
    """Return the table that this unit, a caption with more lines after it, names."""
    for other in range(at + 1, min(at + 1 + _CAPTION_LINES, len(units))):
        if units[other].content_type == "table":
            captions = units[other].captions
            return other if captions and captions[0][0] <= units[at].start else None
    return None


def _find_last_item(text: str, units: Sequence[Unit], first: int) -> int:
    last = first
    for at in range(first + 1, len(units)):
        gap = text[units[at - 1].end : units[at].start]
        if units[at].content_type != "text":
            break
        if gap.count("\n") > 1 and not _ITEM.match(text, units[at].start):
            break
        last = at
    return last


def _find_last_of_paragraph(text: str, units: Sequence[Unit], first: int) -> int:
    last = first
    for at in range(first + 1, len(units)):
        gap = text[units[at - 1].end : units[at].start]
        if units[at].content_type != "text" or gap.count("\n") > 1:
            break
        last = at
    return last


def _is_line(text: str, unit: Unit) -> bool:
    """Tell whether a unit has its lines for itself."""
    before = text[max(0, unit.start - 1) : unit.start]
    after = text[unit.end : unit.end + 4].partition("\n")[0]
    return before in {"", "\n"} and not after.strip("*_ ")


def _cut_table(text: str, unit: Unit, tokens: Sequence[int], budget: int) -> Iterator[Unit]:
    """Cut a table between rows; every piece after the first knows the header."""
    lines = list(_split_lines(text, unit))
    header = unit.header
    head = lines[:2] if len(lines) > 2 and _RULE.match(text[lines[1].start : lines[1].end]) else []
    if head:
        header = text[head[0].start : head[0].end][:_HEADER_CHARS]
        size = count_tokens(tokens, head[0].start, head[0].start + len(header))
        # The header and the first row stay together.
        end = lines[2].end if count_tokens(tokens, unit.start, lines[2].end) <= budget else 0
        for line in head:
            for piece in _cut_unit(text, line, tokens, budget):
                yield replace(piece, captions=unit.captions, group_end=end)
    else:
        size = len(header) // _CHARS_PER_TOKEN
    size = min(size, int(budget * _HEADER_SHARE))
    for line in lines[len(head) :]:
        for piece in _cut_unit(text, line, tokens, budget - size):
            yield replace(piece, header=header, header_tokens=size, captions=unit.captions)


def _split_lines(text: str, unit: Unit) -> Iterator[Unit]:
    position = unit.start
    for line in text[unit.start : unit.end].splitlines(keepends=True):
        stripped = line.rstrip()
        if stripped:
            yield Unit(position, position + len(stripped), unit.content_type)
        position += len(line)


def _cut_unit(text: str, unit: Unit, tokens: Sequence[int], budget: int) -> Iterator[Unit]:
    """Cut a unit into pieces of at most `budget` tokens, between words if there are any."""
    position = unit.start
    while count_tokens(tokens, position, unit.end) > budget:
        limit = tokens[bisect_left(tokens, position) + budget]
        end = limit
        while end > position and not text[end - 1].isspace():
            end -= 1
        end = end if end > position else limit
        yield Unit(position, end, unit.content_type)
        position = end
    if position < unit.end:
        yield Unit(position, unit.end, unit.content_type)
