"""A document's text to chunks: whole sentences under one heading and on one page, with overlap.

A chunk is sized in the embedder's own tokens, its heading path included, because that is what is
embedded. It ends at a page's end, so that the page of a chunk is the page of all its sentences.
What is searched may be smaller than what is read: a sentence with its neighbours, or a chunk as a
part of a longer passage, which then stands beside it as a second span of the same text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from ragstone.blocks import Block, Heading, Loaded
from ragstone.text import sentence_spans
from ragstone.types import Chunk


class TokenCounter(Protocol):
    """What a splitter must know of an embedder."""

    @property
    def max_tokens(self) -> int: ...
    def token_starts(self, text: str) -> Sequence[int]: ...


class FileTokenizer:
    """A tokenizer file with the limit of the model it belongs to."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self.max_tokens = max_tokens
        self._tokenizer = Tokenizer.from_str(path.read_text("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def token_starts(self, text: str) -> Sequence[int]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [start for start, _ in encoding.offsets]


@cache
def tokenizer(path: str, max_tokens: int) -> FileTokenizer:
    return FileTokenizer(Path(path), max_tokens)


# The embedder's start and end markers.
_SPECIAL_TOKENS = 2
# A heading path never takes more than this share of a chunk.
_HEADER_SHARE = 0.25
# About 40 tokens: what is left between a chunk's size and the embedder's limit.
_HEADER_CHARS = 150


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of text under one heading path and on one page."""

    start: int
    end: int
    heading_path: tuple[str, ...]
    page: int | None


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest piece a chunk is made of: a sentence, or a block that should stay whole."""

    start: int
    end: int
    content_type: str = "text"
    header: str = ""
    """The column names over a row whose table had to be cut before it."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """How long a chunk is, and what is read when it is found."""

    chunk_tokens: int
    overlap_tokens: int
    mode: Literal["structure", "sentence_window", "parent_child"] = "structure"
    window_sentences: int = 0
    parent_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Packed:
    """The units of one chunk, and the wider span that is read with it."""

    units: Sequence[Unit]
    passage: tuple[int, int] | None = None


class SentenceSplitter:
    """Packs sentences into chunks of at most `chunk_tokens`."""

    def __init__(self, counter: TokenCounter, chunking: Chunking) -> None:
        self._counter = counter
        self._chunking = chunking
        self._chunk_tokens = min(chunking.chunk_tokens, counter.max_tokens)
        self._overlap_tokens = min(chunking.overlap_tokens, self._chunk_tokens // 2)

    def split(self, loaded: Loaded, *, document_id: str, document_name: str) -> list[Chunk]:
        tokens = self._counter.token_starts(loaded.text)
        chunks: list[Chunk] = []
        for section in sections(loaded):
            path = section.heading_path
            header = len(self._counter.token_starts(" > ".join(path))) if path else 0
            header = min(header, int(self._chunk_tokens * _HEADER_SHARE))
            budget = self._chunk_tokens - _SPECIAL_TOKENS - header
            units = list(_units(loaded, section, tokens, budget))
            for packed in self._packed(units, tokens, budget):
                first, last = packed.units[0], packed.units[-1]
                start, end = first.start, last.end
                kinds = {unit.content_type for unit in packed.units}
                chunks.append(
                    Chunk(
                        document_id=document_id,
                        index=len(chunks),
                        text=loaded.text[start:end],
                        start=start,
                        end=end,
                        document_name=document_name,
                        page=section.page,
                        heading_path=(*path, first.header) if first.header else path,
                        content_type=kinds.pop() if len(kinds) == 1 else "text",
                        passage=packed.passage,
                    )
                )
        return chunks

    def _packed(
        self, units: Sequence[Unit], tokens: Sequence[int], budget: int
    ) -> Iterator[Packed]:
        chunking, overlap = self._chunking, self._overlap_tokens
        if chunking.mode == "sentence_window":
            around = chunking.window_sentences
            for at, unit in enumerate(units):
                window = units[max(0, at - around) : at + around + 1]
                yield Packed([unit], (window[0].start, window[-1].end))
        elif chunking.mode == "parent_child":
            longer = max(budget, chunking.parent_tokens)
            for parent in pack(units, tokens, budget=longer, overlap=0):
                passage = (parent[0].start, parent[-1].end)
                for run in pack(parent, tokens, budget=budget, overlap=overlap):
                    yield Packed(run, passage)
        else:
            for run in pack(units, tokens, budget=budget, overlap=overlap):
                yield Packed(run)


def sections(loaded: Loaded) -> Iterator[Section]:
    """Cut the text at every heading and every page.

    The heading's own line is left out, because it is in the path of what stands below; a heading
    with nothing below is a section of its own.
    """
    heading_starts = [heading.start for heading in loaded.headings]
    cuts = sorted({0, *heading_starts, *loaded.page_starts})
    # In code the line of a heading is the definition itself, which belongs to the chunk.
    own_lines = set(heading_starts) - {block.start for block in loaded.blocks}
    for start, end in zip(cuts, [*cuts[1:], len(loaded.text)], strict=True):
        before = loaded.headings[: bisect_right(heading_starts, start)]
        page = bisect_right(loaded.page_starts, start) or None
        body = _after_line(loaded.text, start, end) if start in own_lines else start
        if loaded.text[body:end].strip():
            yield Section(body, end, heading_path(before), page)
        elif body > start and _stands_alone(loaded.headings, len(before) - 1):
            yield Section(start, end, heading_path(before)[:-1], page)


def _stands_alone(headings: Sequence[Heading], at: int) -> bool:
    """Whether no deeper heading follows that would carry this one in its path."""
    return at + 1 == len(headings) or headings[at + 1].level <= headings[at].level


def heading_path(headings: Sequence[Heading]) -> tuple[str, ...]:
    """The titles that stand over the end of `headings`, outermost first."""
    path: list[Heading] = []
    for heading in headings:
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
    return tuple(heading.title for heading in path)


def pack(
    units: Sequence[Unit], tokens: Sequence[int], *, budget: int, overlap: int
) -> Iterator[list[Unit]]:
    """Group units in order into runs of at most `budget` tokens, each repeating the last few."""
    run: list[Unit] = []
    for unit in units:
        if run and count_tokens(tokens, run[0].start, unit.end) > budget:
            yield run
            run = _tail(run, unit, tokens, budget=budget, overlap=overlap)
        run.append(unit)
    if run:
        yield run


def _tail(
    run: list[Unit], following: Unit, tokens: Sequence[int], *, budget: int, overlap: int
) -> list[Unit]:
    """The last sentences of a run that fit both the overlap and, with `following`, the budget."""
    begin = len(run)
    while begin > 1:
        start = run[begin - 1].start
        too_long = count_tokens(tokens, start, run[-1].end) > overlap
        if too_long or count_tokens(tokens, start, following.end) > budget:
            break
        begin -= 1
    return run[begin:]


def count_tokens(tokens: Sequence[int], start: int, end: int) -> int:
    """How many tokens begin in a span, given the offsets of all."""
    return bisect_left(tokens, end) - bisect_left(tokens, start)


def _units(loaded: Loaded, section: Section, tokens: Sequence[int], budget: int) -> Iterator[Unit]:
    for unit in _whole_units(loaded, section):
        if count_tokens(tokens, unit.start, unit.end) <= budget:
            yield unit
        elif unit.content_type != "text":
            # A block that does not fit is cut at its lines.
            header = _column_names(loaded.text, unit)
            for line in _lines(loaded.text, unit):
                for piece in _cut(loaded.text, line, tokens, budget):
                    yield replace(piece, header=header if piece.start > unit.start else "")
        else:
            yield from _cut(loaded.text, unit, tokens, budget)


def _whole_units(loaded: Loaded, section: Section) -> Iterator[Unit]:
    position = section.start
    for block in _inside(loaded.blocks, section):
        yield from _sentences(loaded.text, position, block.start)
        text = loaded.text[block.start : block.end]
        yield Unit(block.start, block.start + len(text.rstrip()), block.content_type)
        position = block.end
    yield from _sentences(loaded.text, position, section.end)


def _inside(blocks: Sequence[Block], section: Section) -> Iterator[Block]:
    position = section.start
    for block in blocks:
        if block.start >= position and block.end <= section.end:
            yield block
            position = block.end


def _sentences(text: str, start: int, end: int) -> Iterator[Unit]:
    for begin, stop in sentence_spans(text[start:end]):
        yield Unit(start + begin, start + stop)


def _lines(text: str, unit: Unit) -> Iterator[Unit]:
    position = unit.start
    for line in text[unit.start : unit.end].splitlines(keepends=True):
        stripped = line.rstrip()
        if stripped:
            yield Unit(position, position + len(stripped), unit.content_type)
        position += len(line)


def _column_names(text: str, unit: Unit) -> str:
    """The first row of a table, short enough to stand over every piece of it."""
    if unit.content_type != "table":
        return ""
    row = text[unit.start : unit.end].partition("\n")[0].strip("| \t")
    return row[:_HEADER_CHARS]


def _cut(text: str, unit: Unit, tokens: Sequence[int], budget: int) -> Iterator[Unit]:
    """Pieces of at most `budget` tokens, between words where the text has any."""
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


def _after_line(text: str, start: int, end: int) -> int:
    newline = text.find("\n", start, end)
    return end if newline < 0 else newline + 1


@dataclass(frozen=True, slots=True)
class SplitContext:
    """Hold what a splitter may be built from."""

    counter: TokenCounter
    chunking: Chunking


def build(context: SplitContext) -> SentenceSplitter:
    return SentenceSplitter(context.counter, context.chunking)
