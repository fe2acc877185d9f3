"""Why this chunk, or why not: through the engine, and for a past query."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import NotFoundError
from ragstone.filters import parse_condition
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import settings_in

QUESTION = "How large is the primary mirror?"


async def test_a_returned_chunk_is_followed_to_its_rank(sample_engine: Engine) -> None:
    hits = await sample_engine.search(QUESTION)
    found = await sample_engine.explain(QUESTION, hits[1].chunk.id)
    assert found.verdict == "Returned, rank 2."
    assert [step.stage for step in found.steps] == [
        "retrieve.semantic", "retrieve.keyword", "fuse", "refine.filter", "refine.deduplicate",
        "refine.select",
    ]  # fmt: skip
    assert {step.outcome for step in found.steps} <= {"found", "absent", "kept"}


async def test_a_chunk_beyond_the_last_place_is_told_where_it_was_cut(
    sample_engine: Engine,
) -> None:
    hits = await sample_engine.search(QUESTION, top_k=20)
    found = await sample_engine.explain(QUESTION, hits[12].chunk.id, top_k=10)
    assert found.verdict.startswith("Dropped at refine.select: Rank 13; 10 hits were chosen")


async def test_a_chunk_below_the_threshold_is_told_so(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "a.txt").write_text("The primary mirror is 2.4 metres large.")
    (tmp_path / "b.txt").write_text("Soup is sold on weekdays.")
    (tmp_path / "c.txt").write_text("The secondary mirror is 0.6 metres large.")
    settings = settings_in(tmp_path / "data", **{"refine.min_similarity": 0.3})
    engine = Engine(settings, embedder=embedder)
    await engine.ingest([tmp_path / name for name in ("a.txt", "b.txt", "c.txt")])
    soup = next(doc for doc in engine.documents() if doc.name == "b.txt")
    found = await engine.explain(QUESTION, f"{soup.id}:0")
    assert found.verdict == "Dropped at refine.filter: Its similarity is below 0.3."
    keyword = next(step for step in found.steps if step.stage == "retrieve.keyword")
    assert (keyword.outcome, keyword.reason) == ("absent", "It shares no term with the question.")
    limited = parse_condition("document_name=a.txt")
    outside = await engine.explain(QUESTION, f"{soup.id}:0", filters=limited)
    assert outside.verdict == "It does not match the filters of the query."
    engine.close()


async def test_a_past_query_is_explained_by_what_was_written_down(sample_engine: Engine) -> None:
    answer = await sample_engine.ask(QUESTION)
    used = answer.sources[0].hit.chunk.id
    found = sample_engine.explain_past(answer.query_id, used)
    assert found.steps[-1].stage == "ground.context"
    assert found.verdict == "Read for the answer, as source 1."


async def test_an_unknown_chunk_is_not_found(sample_engine: Engine) -> None:
    with pytest.raises(NotFoundError, match="Chunk 'nothing:3' not found"):
        await sample_engine.explain(QUESTION, "nothing:3")


async def test_filters_limit_a_search(sample_engine: Engine) -> None:
    hits = await sample_engine.search(QUESTION, filters=parse_condition("page>=2"))
    assert hits
    assert all((hit.chunk.page or 0) >= 2 for hit in hits)
