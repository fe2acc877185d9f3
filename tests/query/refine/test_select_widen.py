"""Small chunks are found, longer passages are read, and nothing is read twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.query.refine.select import drop_contained_hits
from ragstone.testing import HashEmbedder
from ragstone.types import Chunk, Hit

from ...conftest import settings_in

TEXT = """# Observatory

The dome was built in 1931. It opens at nine in the evening. Visitors pay six euros at the gate.
The telescope is a refractor. Its lens came from Jena. Nobody has cleaned it since.

# Café

The café sells cake. 🙂 It closes at ten.
"""


def hit(index: int, start: int, end: int, passage: tuple[int, int] | None) -> Hit:
    chunk = Chunk("d", index, "x" * (end - start), start, end, key=index, passage=passage)
    return Hit(chunk, 1 - index / 10, "hybrid")


def test_a_hit_inside_a_better_ones_passage_goes_and_another_document_stays() -> None:
    first, inside, beside = hit(1, 10, 20, (0, 40)), hit(2, 30, 40, (20, 60)), hit(3, 50, 60, None)
    assert drop_contained_hits((first, inside, beside)) == (first, beside)
    elsewhere = Hit(Chunk("e", 0, "x", 10, 20, key=9), 0.1, "hybrid")
    assert drop_contained_hits((first, elsewhere)) == (first, elsewhere)


def test_hits_without_passages_are_all_kept() -> None:
    hits = (hit(1, 0, 10, None), hit(2, 10, 20, None))
    assert drop_contained_hits(hits) == hits


@pytest.mark.parametrize("mode", ["sentence_window", "parent_child"])
async def test_a_passage_is_read_where_a_small_chunk_was_found(tmp_path: Path, mode: str) -> None:
    (tmp_path / "place.md").write_text(TEXT, "utf-8")
    settings = settings_in(
        tmp_path / "data",
        **{"ingest.chunking": mode, "ingest.window_sentences": 1, "ingest.chunk_tokens": 32},
    )
    async with Engine(settings, embedder=HashEmbedder()) as engine:
        await engine.ingest([tmp_path / "place.md"])
        hits = await engine.search("When does the dome open in the evening?", top_k=5)
        (document,) = engine.documents()
        text = engine.catalog.document(document.id).text
        best = hits[0].chunk
        assert "opens at nine" in best.text
        assert "1931" in best.text, "the sentence before it is read too"
        for found in hits:
            assert text[found.chunk.start : found.chunk.end] == found.chunk.text
        passages = [(found.chunk.start, found.chunk.end) for found in hits]
        assert len(set(passages)) == len(passages), "no passage twice"
        answer = await engine.ask("When does the dome open in the evening?")
        for citation in answer.citations:
            assert text[citation.start : citation.end] == citation.snippet


async def test_a_chunk_whose_passage_is_gone_stays_as_it_was_found(tmp_path: Path) -> None:
    from ragstone.query.refine.select import PassageWidener
    from ragstone.trace import QueryRun
    from ragstone.types import Query

    async with Engine(settings_in(tmp_path), embedder=HashEmbedder()) as engine:
        lost = hit(1, 10, 20, (0, 40))
        with QueryRun("t").span("refine.widen") as span:
            read = await PassageWidener(engine.catalog).refine(Query("q", "text"), (lost,), span)
        assert read == (lost,)
