"""Neighbouring hits become one passage that is still a span of its document."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.query.ground.context import merge_neighbours
from ragstone.testing import HashEmbedder
from ragstone.types import Chunk, Hit, Hits

from ...conftest import settings_in

TEXT = "\n\n".join(
    f"# Part {n}\n\nThis is part {n} of the story, and it is short." for n in range(9)
)


@pytest.fixture
async def engine(tmp_path: Path) -> Engine:
    (tmp_path / "story.md").write_text(TEXT)
    (tmp_path / "other.md").write_text("Another story.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder())
    await engine.ingest([tmp_path / "story.md", tmp_path / "other.md"])
    return engine


def story(engine: Engine) -> list[Chunk]:
    chunks = engine.catalog.chunks(range(100)).values()
    return sorted((c for c in chunks if "story" in c.document_name), key=lambda c: c.start)


def hits(*chunks: Chunk) -> Hits:
    return tuple(Hit(chunk, 1.0 / rank, "hybrid") for rank, chunk in enumerate(chunks, start=1))


async def test_hits_that_touch_become_one_at_the_best_ones_place(engine: Engine) -> None:
    chunks = story(engine)
    assert len(chunks) > 5
    found = merge_neighbours(hits(chunks[5], chunks[1], chunks[0]), engine.catalog, 0)
    assert [one.chunk.index for one in found] == [chunks[5].index, chunks[1].index]
    assert found[1].chunk.start == chunks[0].start
    assert found[1].chunk.end == chunks[1].end
    document = engine.catalog.document(chunks[0].document_id)
    for one in found:
        assert document.text[one.chunk.start : one.chunk.end] == one.chunk.text
    engine.close()


async def test_the_chunks_around_a_hit_are_read_with_it(engine: Engine) -> None:
    chunks = story(engine)
    (found,) = merge_neighbours(hits(chunks[3]), engine.catalog, 1)
    assert (found.chunk.start, found.chunk.end) == (chunks[2].start, chunks[4].end)
    assert found.chunk.id == chunks[3].id
    engine.close()


async def test_the_last_chunk_does_not_reach_into_another_document(engine: Engine) -> None:
    chunks = story(engine)
    (found,) = merge_neighbours(hits(chunks[-1]), engine.catalog, 3)
    assert found.chunk.end == chunks[-1].end
    assert found.chunk.document_id == chunks[-1].document_id
    engine.close()


async def test_citations_of_a_merged_source_resolve(tmp_path: Path, engine: Engine) -> None:
    settings = settings_in(tmp_path / "data", **{"ground.neighbours": 1})
    wide = Engine(settings, embedder=HashEmbedder(), catalog=engine.catalog, index=engine.index)
    answer = await wide.ask("Which part of the story is part 4?")
    assert any(len(s.hit.chunk.text) > 60 for s in answer.sources)
    for citation in answer.citations:
        text = wide.catalog.document(citation.document_id).text
        assert text[citation.start : citation.end] == citation.snippet
    engine.close()
