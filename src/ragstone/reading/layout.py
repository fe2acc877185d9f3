"""Find the structure of a text, and widen a sentence to what a person can read on its own.

text → blocks (paragraphs, list items, table rows, code). A lead-in ("…with:") brings what it leads
to, an item its lead-in, code the sentence before it. `clean_for_reading` removes what only a
machine reads, and keeps for every character its place in the stored text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Literal, TypeAlias

from ragstone.text import LIST_MARK, TextMemo, find_breaks, find_sentence_spans

BlockKind: TypeAlias = Literal["heading", "paragraph", "item", "row", "code"]
Span: TypeAlias = tuple[int, int]

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_ITEM = re.compile(rf"([ \t]*){LIST_MARK}[ \t]+(?=\S)")
# Numbers and letters, which may also stand at the start of a line in the middle of a sentence.
_MARKED = re.compile(r"[ \t]*(?:[(§]|\d{1,3}[.)]|[a-z]{1,5}\))")
_SENTENCE_END = re.compile(r"[.!?…]['\"”’»)\]*_]*\s*$")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_RULE_ROW = re.compile(r"[ \t]*\|?[\s|:+=-]*$")
LEAD_IN = re.compile(
    r"(?::|：|\b(?:as follows|(?:steps?|commands?|examples?|list|table) (?:given )?below|"
    r"the following (?:\w+ ){0,3}\w+))[\s*_.]*$",
    re.IGNORECASE,
)
# Longer units are cut at the end of an item, a row or a line.
MAX_UNIT_CHARS = 1_200


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Mark a paragraph, an item of a list, a row of a table, a listing or a heading."""

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


def find_lead_in(text: str, place: int) -> str:
    """Return the sentence that leads to the list around a place; empty if there is none."""
    blocks = find_blocks(text)
    at = _find_block(blocks, place)
    if at is None or blocks[at].kind != "item":
        return ""
    return "".join(text[start:end] for start, end in _find_lead_in(text, blocks, at))


@dataclass(frozen=True, slots=True)
class Widened:
    """Hold the spans that make a sentence readable, in reading order."""

    spans: tuple[Span, ...]
    is_complete: bool = True
    """False when a lead-in stands at the end of the text: what it leads to is not here."""


def widen_sentence(text: str, sentence: Span, *, whole_list: bool = False) -> Widened:
    """Add to a sentence what it cannot be read without.

    `whole_list` takes all items around an item: for steps, and for "which …" questions.
    """
    blocks = find_blocks(text)
    at = _find_block(blocks, sentence[0])
    block = blocks[at] if at is not None else None
    if at is None or block is None:
        return Widened((sentence,))
    if block.kind in ("item", "code"):
        lead = _find_lead_in(text, blocks, at)
        return Widened((*lead, *_widen_block(text, blocks, at, whole_list)))
    leads = (
        LEAD_IN.search(text[sentence[0] : sentence[1]])
        or (whole_list and at + 1 < len(blocks) and blocks[at + 1].kind == "code")
        or (at + 1 < len(blocks) and _goes_on_in(text, sentence[1], blocks[at + 1]))
    )
    if not leads:
        return Widened((sentence,))
    if sentence[1] < block.end and text[sentence[1] : block.end].strip():
        # The colon stands inside a paragraph: its next sentence is what it leads to.
        end = _end_of_next_sentence(text, sentence[1], block.end)
        if not LEAD_IN.search(text[sentence[1] : end]) or text[end : block.end].strip():
            return Widened(((sentence[0], end),))
        sentence = (sentence[0], end)
    following = _take_following(blocks, at)
    if not following:
        return Widened((sentence,), is_complete=False)
    return Widened((sentence, *_cut_spans(following)))


def _widen_block(text: str, blocks: Sequence[TextBlock], at: int, whole_list: bool) -> list[Span]:
    """Return an item or a listing; on request all items of its list."""
    block = blocks[at]
    if block.kind == "item" and whole_list:
        return _cut_spans(_list_group(blocks, at))
    spans = [(block.start, block.end)]
    if block.kind == "item" and LEAD_IN.search(text[block.start : block.end]):
        spans += _take_following(blocks, at)
    return _cut_spans(spans)


def _find_block(blocks: Sequence[TextBlock], place: int) -> int | None:
    at = bisect_right([block.start for block in blocks], place) - 1
    return at if at >= 0 and place < blocks[at].end else None


def _find_lead_in(text: str, blocks: Sequence[TextBlock], at: int) -> tuple[Span, ...]:
    """Return the sentence that leads to a list or a listing, if there is one."""
    first = at
    while first and blocks[first - 1].group == blocks[at].group:
        first -= 1
    if not first or blocks[first - 1].kind not in ("paragraph", "item"):
        return ()
    before = blocks[first - 1]
    sentences = find_sentence_spans(text[before.start : before.end])
    if not sentences:
        return ()
    start, end = (before.start + place for place in sentences[-1])
    leads = (
        LEAD_IN.search(text[start:end])
        or blocks[at].kind == "code"
        or _goes_on_in(text, end, blocks[first])
    )
    return ((start, end),) if leads else ()


def _goes_on_in(text: str, end: int, block: TextBlock) -> bool:
    """Return True when a sentence goes on in the items of a list: "if the Client / a) is late"."""
    if block.kind != "item" or text[end : block.start].strip() or "\n\n" in text[end : block.start]:
        return False
    mark = _ITEM.match(text, block.start)
    begins_small = mark is not None and text[mark.end() : mark.end() + 1].islower()
    return begins_small and _SENTENCE_END.search(text[:end]) is None


def _take_following(blocks: Sequence[TextBlock], at: int) -> list[Span]:
    """Return the list, table or listing after a block; listings inside its items go with it."""
    if at + 1 >= len(blocks) or blocks[at + 1].kind == "heading":
        return []
    following = blocks[at + 1]
    if following.kind in ("item", "row"):
        return _list_group(blocks, at + 1)
    return [(following.start, following.end)]


def _list_group(blocks: Sequence[TextBlock], at: int) -> list[Span]:
    """Return all items or rows of a group, with the listings between them; a listing is its own."""
    same = [place for place, block in enumerate(blocks) if block.group == blocks[at].group]
    last = same[-1]
    # A listing after the last item is part of it when it is a step ("3. Start it with:").
    if blocks[at].kind == "item" and last + 1 < len(blocks) and blocks[last + 1].kind == "code":
        last += 1
    return [(block.start, block.end) for block in blocks[same[0] : last + 1]]


def _cut_spans(spans: Sequence[Span]) -> list[Span]:
    kept: list[Span] = []
    used = 0
    for start, end in spans:
        used += end - start
        if kept and used > MAX_UNIT_CHARS:
            break
        kept.append((start, end))
    return kept


def _end_of_next_sentence(text: str, start: int, end: int) -> int:
    sentences = find_sentence_spans(text[start:end])
    return start + sentences[0][1] if sentences else end


def needs_more_text(text: str) -> tuple[bool, bool]:
    """Tell whether a passage begins and ends inside a list, a table or a listing, or before one."""
    blocks = find_blocks(text)
    if not blocks:
        return False, False
    first, last = blocks[0], blocks[-1]
    is_open = text.count("```") % 2 == 1
    begins = is_open or first.kind in ("item", "row")
    leads = bool(LEAD_IN.search(text[last.start : last.end].rstrip()))
    return begins, is_open or leads or last.kind in ("item", "row")


def complete_span(text: str, start: int, end: int) -> Span:
    """Widen a span of a text so that it cuts no list, table or listing and ends with no lead-in.

    Other text around it is not added.
    """
    blocks = find_blocks(text)
    inside = [at for at, block in enumerate(blocks) if block.start < end and start < block.end]
    if not inside:
        return start, end
    first, last = inside[0], inside[-1]
    if blocks[first].kind in ("item", "row", "code"):
        begin = _list_group(blocks, first)[0][0]
        lead = _find_lead_in(text, blocks, first)
        start = min(start, lead[0][0] if lead else begin)
    closing = blocks[last]
    if closing.kind in ("item", "row", "code"):
        end = max(end, _list_group(blocks, last)[-1][1])
    elif LEAD_IN.search(text[closing.start : closing.end].rstrip()):
        end = max([end, *(span[1] for span in _take_following(blocks, last))])
    return start, end


@dataclass(frozen=True, slots=True)
class CleanText:
    """Hold a text for reading, and where its runs of characters stand in the stored text."""

    text: str
    runs: tuple[Span, ...]
    """For each run its place in `text` and its place in the stored text."""

    def locate(self, start: int, end: int) -> Span:
        """Return the span of the stored text behind a span of the clean one."""
        if start >= end or not self.runs:
            return 0, 0
        return self._locate_character(start), self._locate_character(end - 1) + 1

    def _locate_character(self, place: int) -> int:
        begin, stored = self.runs[bisect_right(self.runs, place, key=itemgetter(0)) - 1]
        return stored + place - begin

    @property
    def places(self) -> tuple[int, ...]:
        """Return the place of each character in the stored text."""
        return tuple(map(self._locate_character, range(len(self.text))))


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


def clean_for_reading(text: str) -> CleanText:
    """Remove comments, shortcodes, link targets, bold marks, HTML tags and front matter."""
    return clean_memo[text]


def _clean(text: str) -> CleanText:
    pieces: list[str] = []
    runs: list[Span] = []
    size = position = 0
    for match in _NOISE.finditer(text):
        if text.count("`", text.rfind("\n", 0, match.start()) + 1, match.start()) % 2:
            continue  # inside inline code
        for begin, stop in ((position, match.start()), _find_kept_part(match)):
            if begin < stop:
                pieces.append(text[begin:stop])
                runs.append((size, begin))
                size += stop - begin
        position = match.end()
    if position < len(text):
        pieces.append(text[position:])
        runs.append((size, position))
    return CleanText("".join(pieces), tuple(runs))


clean_memo = TextMemo(_clean, max_entries=4_096)


def _find_kept_part(match: re.Match[str]) -> Span:
    for name in ("word", "term", "label", "bold"):
        if match[name] is not None:
            return match.span(name)
    return match.start(), match.start()
