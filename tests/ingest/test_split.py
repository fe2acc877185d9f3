"""Chunks are spans of the text, within the token limit, and lose nothing but headings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.blocks import Block, Heading, LoadedDocument, LoadOptions
from ragstone.ingest.formats.text import MarkdownLoader
from ragstone.ingest.split import (
    ChunkingOptions,
    SentenceSplitter,
    find_sections,
    pack_units,
)
from ragstone.ingest.units import count_tokens
from ragstone.testing import HashEmbedder
from ragstone.types import Chunk

EMBEDDER = HashEmbedder()
PIECES = st.sampled_from(
    ["The dome opens at nine. ", "word ", "\n", "\n\n", "# One\n", "## Two\n", "- item\n",
     "| a | b |\n|---|---|\n| c | d |\n", "```\ncode = 1\n```\n", "🙂 ",
     "天文台は開いている。", "x" * 70,
     "Dr. Who asked? ", "a b c d e f g h i j k l m n o p q r s t u v w x y z "]
)  # fmt: skip


def split(
    loaded: LoadedDocument, *, chunk_tokens: int = 40, overlap_tokens: int = 8, **further: Any
) -> list[Chunk]:
    splitter = SentenceSplitter(EMBEDDER, ChunkingOptions(chunk_tokens, overlap_tokens, **further))
    return splitter.split(loaded, document_id="d", document_name="d.md")


def check(loaded: LoadedDocument, chunks: list[Chunk], chunk_tokens: int) -> None:
    covered = [False] * len(loaded.text)
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert loaded.text[chunk.start : chunk.end] == chunk.text
        assert chunk.text.strip()
        assert len(EMBEDDER.token_starts(chunk.text)) <= chunk_tokens
        covered[chunk.start : chunk.end] = [True] * len(chunk.text)
    # What is in no chunk is the line of a heading that stands in some chunk's path.
    in_paths = {title for chunk in chunks for title in chunk.heading_path}
    for heading in loaded.headings:
        end = heading.start + len(loaded.text[heading.start :].partition("\n")[0])
        if not all(covered[heading.start : end]):
            assert heading.title in in_paths
        covered[heading.start : end] = [True] * (end - heading.start)
    missed = [char for char, seen in zip(loaded.text, covered, strict=True) if not seen]
    assert not "".join(missed).strip()


@given(st.lists(PIECES, max_size=40).map("".join), st.integers(32, 80), st.integers(0, 40))
def test_chunks_of_markdown_are_exact_within_the_limit_and_complete(
    source: str, chunk_tokens: int, overlap_tokens: int
) -> None:
    loaded = MarkdownLoader().load(source.encode(), LoadOptions())
    chunks = split(loaded, chunk_tokens=chunk_tokens, overlap_tokens=overlap_tokens)
    check(loaded, chunks, chunk_tokens)


@given(st.text(max_size=400))
def test_chunks_of_any_text_are_exact_within_the_limit_and_complete(text: str) -> None:
    loaded = LoadedDocument(text, "text/plain")
    check(loaded, split(loaded), 40)


@given(
    st.lists(PIECES, max_size=40).map("".join),
    st.sampled_from(["sentence_window", "parent_child"]),
    st.integers(0, 4),
    st.integers(32, 200),
)
def test_a_passage_holds_its_chunk_and_stays_under_one_heading(
    source: str, mode: str, window_sentences: int, parent_tokens: int
) -> None:
    loaded = MarkdownLoader().load(source.encode(), LoadOptions())
    chunks = split(loaded, mode=mode, window_sentences=window_sentences,
                   parent_tokens=parent_tokens)  # fmt: skip
    check(loaded, chunks, 40)
    borders = [heading.start for heading in loaded.headings]
    for chunk in chunks:
        assert chunk.passage is not None
        start, end = chunk.passage
        assert start <= chunk.start
        assert chunk.end <= end
        assert not any(start < border < end for border in borders)
        if mode == "parent_child":
            most = max(parent_tokens, 40)
            assert len(EMBEDDER.token_starts(loaded.text[start:end])) <= most


def test_a_sentence_is_found_alone_and_read_with_its_neighbours() -> None:
    loaded = LoadedDocument("One is here. Two is here. Three is here. Four is here.", "text/plain")
    chunks = split(loaded, mode="sentence_window", window_sentences=1)
    assert [chunk.text for chunk in chunks] == [
        "One is here.", "Two is here.", "Three is here.", "Four is here."
    ]  # fmt: skip
    passages = [loaded.text[slice(*chunk.passage)] for chunk in chunks if chunk.passage]
    assert passages == [
        "One is here. Two is here.",
        "One is here. Two is here. Three is here.",
        "Two is here. Three is here. Four is here.",
        "Three is here. Four is here.",
    ]


def test_children_share_the_passage_of_their_parent() -> None:
    text = " ".join(f"Sentence number {at} stands here." for at in range(40))
    chunks = split(LoadedDocument(text, "text/plain"), mode="parent_child", parent_tokens=120)
    passages = list(dict.fromkeys(chunk.passage for chunk in chunks))
    assert 1 < len(passages) < len(chunks)
    spans = [passage for passage in passages if passage is not None]
    assert all(before[1] <= after[0] for before, after in pairwise(spans)), "parents do not overlap"


def test_a_chunk_knows_its_heading_path_and_page() -> None:
    text = "# Dome\nIntro.\n## Motor\nIt turns.\n# Gate\nIt opens."
    headings = tuple(
        Heading(level, title, text.index(line))
        for level, title, line in ((1, "Dome", "# Dome"), (2, "Motor", "## M"), (1, "Gate", "# G"))
    )
    loaded = LoadedDocument(
        text, "text/plain", page_starts=(0, text.index("# Gate")), headings=headings
    )
    assert [(c.text, c.heading_path, c.page) for c in split(loaded)] == [
        ("Intro.", ("Dome",), 1),
        ("It turns.", ("Dome", "Motor"), 1),
        ("It opens.", ("Gate",), 2),
    ]


def test_a_long_stretch_repeats_whole_sentences_at_its_seams() -> None:
    text = " ".join(f"Sentence number {i} stands here." for i in range(40))
    chunks = split(LoadedDocument(text, "text/plain"), chunk_tokens=40, overlap_tokens=10)
    assert len(chunks) > 3
    for before, after in pairwise(chunks):
        assert before.start < after.start < before.end < after.end
        assert after.text.startswith("Sentence number")


def test_no_overlap_means_no_repetition() -> None:
    text = " ".join(f"Sentence number {i} stands here." for i in range(40))
    chunks = split(LoadedDocument(text, "text/plain"), overlap_tokens=0)
    assert all(a.end <= b.start for a, b in pairwise(chunks))


def test_a_small_table_stays_whole_and_is_called_a_table() -> None:
    loaded = MarkdownLoader().load(b"| a | b |\n|---|---|\n| c | d |\n", LoadOptions())
    assert [chunk.content_type for chunk in split(loaded)] == ["table"]


def test_a_deeper_heading_is_closed_by_a_higher_one() -> None:
    loaded = LoadedDocument("A\nB\nOne.\nC\nTwo.", "text/plain", headings=(
        Heading(1, "A", 0), Heading(3, "B", 2), Heading(2, "C", 9),
    ))  # fmt: skip
    assert [section.heading_path for section in find_sections(loaded)] == [("A", "B"), ("A", "C")]


def test_a_heading_with_nothing_below_is_a_section_of_its_own() -> None:
    text = "# Plan\n## Rent\n## Power\nPaid monthly.\n# End"
    headings = (
        Heading(1, "Plan", 0), Heading(2, "Rent", 7), Heading(2, "Power", 15),
        Heading(1, "End", 38),
    )  # fmt: skip
    found = [
        (text[part.start : part.end].strip(), part.heading_path)
        for part in find_sections(LoadedDocument(text, "text/markdown", headings=headings))
    ]
    assert found == [
        ("## Rent", ("Plan",)),
        ("Paid monthly.", ("Plan", "Power")),
        ("# End", ()),
    ]


def test_a_text_without_words_has_no_sections() -> None:
    assert list(find_sections(LoadedDocument(" \n ", "text/plain"))) == []
    assert list(pack_units([], [], budget=10, overlap=2)) == []


def test_tokens_of_a_span_are_those_that_begin_in_it() -> None:
    assert count_tokens([0, 4, 9], 0, 9) == 2
    assert count_tokens([0, 4, 9], 4, 10) == 2


class NarrowTokenizer(HashEmbedder):
    """Refuses texts that would take a real tokenizer much memory."""

    def token_starts(self, text: str) -> Sequence[int]:
        assert len(text) <= 32_000
        return super().token_starts(text)


@pytest.mark.parametrize("gap", ["\n\n", "\n", " ", ""])
def test_a_long_text_is_split_in_pieces_wherever_it_can_be_cut(gap: str) -> None:
    text = gap.join(["The dome opens at nine."] * 12_000)
    splitter = SentenceSplitter(NarrowTokenizer(), ChunkingOptions(200, 32))
    loaded = LoadedDocument(text, "text/plain")
    chunks = splitter.split(loaded, document_id="d", document_name="d.txt")
    check(loaded, chunks, 200)


def test_a_long_listing_stays_whole_when_a_text_is_cut() -> None:
    before, listing = "The dome opens at nine.\n\n" * 3_900, "code = 1\n" * 3_000
    text = before + listing + before
    block = Block("code", len(before), len(before) + len(listing))
    chunks = split(LoadedDocument(text, "text/plain", blocks=(block,)))
    code = [chunk for chunk in chunks if "code" in chunk.text]
    # Only the last one may hold what follows the listing.
    assert {chunk.content_type for chunk in code[:-1]} == {"code"}
    assert sum(chunk.text.count("code") for chunk in code) >= 3_000
