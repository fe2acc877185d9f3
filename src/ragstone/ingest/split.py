"""Split a document into chunks: whole sentences under one heading and on one page, with overlap.

The size of a chunk is counted in the embedder's own tokens, its heading path included, because
that is what is embedded. A chunk ends at the end of a page, so that it has one page number. The
passage that is read may be longer than the chunk that is searched: a sentence with its neighbours,
or a longer passage around the chunk, stored as a second span of the same text.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from ragstone.blocks import Heading, LoadedDocument
from ragstone.ingest.units import Section, Unit, count_tokens, split_units
from ragstone.reading.units import find_units, store_units
from ragstone.text import remove_markup
from ragstone.types import Chunk

if TYPE_CHECKING:
    from ragstone.settings.schema import IngestSettings


class TokenCounter(Protocol):
    """Count tokens as an embedder does."""

    @property
    def max_tokens(self) -> int: ...
    def token_starts(self, text: str) -> Sequence[int]: ...


class FileTokenizer:
    """Count tokens with a tokenizer file, without loading its model."""

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
def load_tokenizer(path: str, max_tokens: int) -> FileTokenizer:
    return FileTokenizer(Path(path), max_tokens)


# The embedder's start and end markers.
_SPECIAL_TOKENS = 2
# A heading path never takes more than this share of a chunk.
_HEADER_SHARE = 0.25
# About 60 tokens: the title and the lines above a table that are indexed with its rows.
_CONTEXT_CHARS = 200
# A tokenizer takes 200 times the memory of its text, and the units of a section a dozen times:
# what is longer is read in pieces of this many characters.
_PIECE_CHARS = 32_000
_SECTION_CHARS = 100_000
# Titles that a program gave, not a person.
_FILE_TITLE = re.compile(r"Microsoft \w+ - |untitled|\S+\.\w{2,4}$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ChunkingOptions:
    """Set the length of a chunk, and the passage that is read when it is found."""

    chunk_tokens: int
    overlap_tokens: int
    mode: Literal["structure", "sentence_window", "parent_child"] = "structure"
    window_sentences: int = 0
    parent_tokens: int = 0

    @classmethod
    def from_settings(cls, settings: IngestSettings) -> ChunkingOptions:
        return cls(
            settings.chunk_tokens,
            settings.overlap_tokens,
            settings.chunking,
            settings.window_sentences,
            settings.parent_tokens,
        )


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """Hold the units of one chunk, and the wider span that is read with it."""

    units: Sequence[Unit]
    passage: tuple[int, int] | None = None


class SentenceSplitter:
    """Pack sentences into chunks of at most `chunk_tokens`."""

    def __init__(self, counter: TokenCounter, chunking: ChunkingOptions) -> None:
        self._counter = counter
        self._chunking = chunking
        self._chunk_tokens = min(chunking.chunk_tokens, counter.max_tokens)
        self._overlap_tokens = min(chunking.overlap_tokens, self._chunk_tokens // 2)

    def split(self, loaded: LoadedDocument, *, document_id: str, document_name: str) -> list[Chunk]:
        return list(self.iterate(loaded, document_id=document_id, document_name=document_name))

    def iterate(
        self, loaded: LoadedDocument, *, document_id: str, document_name: str
    ) -> Iterator[Chunk]:
        """Yield the chunks of a document; only a piece of a long section is held at a time."""
        index = 0
        for section in cut_long_sections(loaded, find_sections(loaded)):
            path = section.heading_path
            header = len(self._counter.token_starts(" > ".join(path))) if path else 0
            header = min(header, int(self._chunk_tokens * _HEADER_SHARE))
            budget = self._chunk_tokens - _SPECIAL_TOKENS - header
            tokens = find_token_starts(self._counter, loaded.text, section.start, section.end)
            units = list(split_units(loaded, section, tokens, budget))
            for group in self._group_units(units, tokens, budget):
                first, last = group.units[0], group.units[-1]
                text = loaded.text[first.start : last.end]
                if not remove_markup(text).strip():
                    continue  # shortcodes and comments alone
                kinds = {unit.content_type for unit in group.units}
                table = next((u.header for u in group.units if u.content_type == "table"), "")
                yield Chunk(
                    document_id=document_id,
                    index=index,
                    text=text,
                    start=first.start,
                    end=last.end,
                    document_name=document_name,
                    page=section.page,
                    heading_path=path,
                    content_type=kinds.pop() if len(kinds) == 1 else "text",
                    passage=group.passage,
                    table_header=table,
                    context=build_context(loaded, path, group.units),
                    units=store_units(find_units(text, table)),
                )
                index += 1

    def _group_units(
        self, units: Sequence[Unit], tokens: Sequence[int], budget: int
    ) -> Iterator[UnitGroup]:
        chunking, overlap = self._chunking, self._overlap_tokens
        if chunking.mode == "sentence_window":
            around = chunking.window_sentences
            for at, unit in enumerate(units):
                window = units[max(0, at - around) : at + around + 1]
                yield UnitGroup([unit], (window[0].start, window[-1].end))
        elif chunking.mode == "parent_child":
            longer = max(budget, chunking.parent_tokens)
            for parent in pack_units(units, tokens, budget=longer, overlap=0):
                passage = (parent[0].start, parent[-1].end)
                for run in pack_units(parent, tokens, budget=budget, overlap=overlap):
                    yield UnitGroup(run, passage)
        else:
            for run in pack_units(units, tokens, budget=budget, overlap=overlap):
                yield UnitGroup(run)


def find_token_starts(counter: TokenCounter, text: str, start: int, end: int) -> Sequence[int]:
    """Return the offsets of the tokens in a span of a text, which is tokenized in pieces."""
    starts = array("I")
    for begin, stop in cut_text(text, start, end, max_chars=_PIECE_CHARS):
        starts.extend(begin + at for at in counter.token_starts(text[begin:stop]))
    return starts


def cut_text(text: str, start: int, end: int, *, max_chars: int) -> Iterator[tuple[int, int]]:
    """Cut a span after a blank line, a line, a space, or anywhere, in this order of preference."""
    while end - start > max_chars:
        limit = start + max_chars
        ends = (text.rfind(mark, start, limit) + len(mark) for mark in ("\n\n", "\n", " "))
        stop = next((at for at in ends if at > start + max_chars // 2), limit)
        yield start, stop
        start = stop
    if start < end:
        yield start, end


def cut_long_sections(loaded: LoadedDocument, sections: Iterable[Section]) -> Iterator[Section]:
    """Cut what is longer than many pages, but not inside a table or a listing."""
    block_starts = [block.start for block in loaded.blocks]
    for section in sections:
        start = section.start
        for _, cut in cut_text(loaded.text, section.start, section.end, max_chars=_SECTION_CHARS):
            if cut <= start:
                continue  # a long block reached beyond it
            at = bisect_left(block_starts, cut) - 1
            end = loaded.blocks[at].end if at >= 0 else 0
            stop = max(cut, end) if end <= section.end else cut
            if loaded.text[start:stop].strip():
                yield replace(section, start=start, end=stop)
            start = stop


def find_sections(loaded: LoadedDocument) -> Iterator[Section]:
    """Cut the text at every heading and every page.

    The line of a heading is left out, because it is in the path of the text below it; a heading
    without text below is a section of its own.
    """
    heading_starts = [heading.start for heading in loaded.headings]
    cuts = sorted({0, *loaded.page_starts, *(start for start in heading_starts if start > 0)})
    # In code the line of a heading is the definition itself, which belongs to the chunk.
    own_lines = set(heading_starts) - {block.start for block in loaded.blocks}
    path: list[Heading] = []
    passed = 0
    for start, end in zip(cuts, [*cuts[1:], len(loaded.text)], strict=True):
        while passed < len(heading_starts) and heading_starts[passed] <= start:
            _enter(path, loaded.headings[passed])
            passed += 1
        titles = tuple(heading.title for heading in path)
        page = bisect_right(loaded.page_starts, start) or None
        body = _find_next_line(loaded.text, start, end) if start in own_lines else start
        if loaded.text[body:end].strip():
            yield Section(body, end, titles, page)
        elif body > start and _is_childless(loaded.headings, passed - 1):
            yield Section(start, end, titles[:-1], page)


def _is_childless(headings: Sequence[Heading], at: int) -> bool:
    """Tell whether no deeper heading follows, which would have this one in its path."""
    return at + 1 == len(headings) or headings[at + 1].level <= headings[at].level


def _enter(path: list[Heading], heading: Heading) -> None:
    """Close the headings of the same level or deeper, and open `heading`."""
    while path and path[-1].level >= heading.level:
        path.pop()
    path.append(heading)


def build_context(loaded: LoadedDocument, path: Sequence[str], units: Sequence[Unit]) -> str:
    """Return what names the tables among the units but stands outside: title, caption, units."""
    tables = [unit for unit in units if unit.content_type == "table"]
    if not tables:
        return ""
    start, end = units[0].start, units[-1].end
    outside = [
        " ".join(loaded.text[begin:stop].split())
        for unit in tables
        for begin, stop in unit.captions
        if begin < start or stop > end
    ]
    title = str(loaded.metadata.get("title") or "").strip()
    known = " ".join([*path, *outside, loaded.text[start:end]]).casefold()
    if title and title.casefold() not in known and not _FILE_TITLE.match(title):
        outside.insert(0, title)
    return " · ".join(dict.fromkeys(outside))[:_CONTEXT_CHARS]


def pack_units(
    units: Sequence[Unit], tokens: Sequence[int], *, budget: int, overlap: int
) -> Iterator[list[Unit]]:
    """Group units in order into runs of at most `budget` tokens, each repeating the last few."""
    run: list[Unit] = []
    for unit in units:
        # What belongs together is not parted if it fits into a chunk.
        end = max(unit.end, unit.group_end)
        if run and count_tokens(tokens, run[0].start, end) + run[0].header_tokens > budget:
            yield run
            following = replace(unit, end=end)
            run = _select_overlap(run, following, tokens, budget=budget, overlap=overlap)
        run.append(unit)
    if run:
        yield run


def _select_overlap(
    run: list[Unit], following: Unit, tokens: Sequence[int], *, budget: int, overlap: int
) -> list[Unit]:
    """Return the last units of a run that fit the overlap and, with `following`, the budget."""
    begin = len(run)
    while begin > 1:
        start = run[begin - 1].start
        too_long = count_tokens(tokens, start, run[-1].end) > overlap
        added = run[begin - 1].header_tokens
        if too_long or count_tokens(tokens, start, following.end) + added > budget:
            break
        begin -= 1
    return run[begin:]


def _find_next_line(text: str, start: int, end: int) -> int:
    newline = text.find("\n", start, end)
    return end if newline < 0 else newline + 1


@dataclass(frozen=True, slots=True)
class SplitContext:
    """Hold what a splitter is built from."""

    counter: TokenCounter
    chunking: ChunkingOptions


def build(context: SplitContext) -> SentenceSplitter:
    return SentenceSplitter(context.counter, context.chunking)
