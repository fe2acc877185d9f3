"""Rerankers: combined scores by hand, and never a chunk gained or lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.engine import Engine
from ragstone.errors import SettingsError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.refine.rerank import LLM_SCORE, combine_scores, parse_scores, reorder_hits
from ragstone.server.schemas import UsedChunk
from ragstone.testing import HashEmbedder
from ragstone.trace import Span
from ragstone.types import Chunk, Hit, Hits, Query

from ...conftest import settings_in
from ..scripted import ScriptedProvider, SilentProvider


def ranked(scores: list[float]) -> Hits:
    return tuple(
        Hit(Chunk("d", at, f"text {at}", 0, 6, key=at + 1), score, "hybrid")
        for at, score in enumerate(scores)
    )


def test_the_combined_score_is_three_tenths_original_and_seven_tenths_of_the_model() -> None:
    assert combine_scores(0.5, 0.9, weight=LLM_SCORE) == pytest.approx(0.3 * 0.5 + 0.7 * 0.9)
    assert combine_scores(0.5, None, weight=LLM_SCORE) == 0.5


def test_only_the_first_hits_are_ordered_anew() -> None:
    hits = reorder_hits(ranked([0.9, 0.8, 0.7]), {1: 0.0, 2: 1.0}, weight=0.5, depth=2)
    assert [hit.chunk.index for hit in hits] == [1, 0, 2]
    assert [hit.score for hit in hits] == pytest.approx([0.9, 0.45, 0.45])
    assert [hit.scores.rerank for hit in hits] == [1.0, 0.0, None]


@given(
    st.lists(st.floats(0, 1), max_size=12),
    st.dictionaries(st.integers(1, 12), st.none() | st.floats(0, 1)),
    st.floats(0, 1),
    st.integers(0, 12),
)
def test_a_reranker_never_adds_or_loses_a_chunk(
    scores: list[float], given_scores: dict[int, float | None], weight: float, depth: int
) -> None:
    hits = ranked(sorted(scores, reverse=True))
    after = reorder_hits(hits, given_scores, weight=weight, depth=depth)
    assert {hit.chunk.key for hit in after} == {hit.chunk.key for hit in hits}
    assert [hit.score for hit in after] == sorted((hit.score for hit in after), reverse=True)


def test_a_score_that_cannot_be_read_is_none() -> None:
    reply = {
        "scores": [
            {"passage": 1, "score": 8},
            {"passage": 2, "score": 99},
            {"passage": 7, "score": 5},
        ]
    }
    assert parse_scores(reply, ranked([0.5, 0.4, 0.3])) == {1: 0.8, 2: None, 3: None}
    mixed = {"scores": [{"passage": 1, "score": "n/a"}, {"passage": 2, "score": "7"}, 3, None]}
    assert parse_scores(mixed, ranked([0.5, 0.4])) == {1: None, 2: 0.7}
    assert parse_scores({"scores": "many"}, ranked([0.5])) == {1: None}


SCORES = '{"scores": [{"passage": 1, "score": 0}, {"passage": 2, "score": 10}]}'


async def engine_with(tmp_path: Path, embedder: OnnxEmbedder, provider: object) -> Engine:
    (tmp_path / "a.txt").write_text("The notice period of the lease is three months.")
    (tmp_path / "b.txt").write_text("Either side may end the lease with notice in writing.")
    flags = {"refine.reranker_enabled": True, "refine.reranker": "llm"}
    engine = Engine(
        settings_in(tmp_path / "data", **flags),
        embedder=embedder,
        provider=provider,  # type: ignore[arg-type]
    )
    await engine.ingest([tmp_path / "a.txt", tmp_path / "b.txt"])
    return engine


async def test_the_llm_reranker_asks_once_and_turns_the_order(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    provider = ScriptedProvider({"<passage 1>": SCORES})
    engine = await engine_with(tmp_path, embedder, provider)
    hits = await engine.search("How long is the notice period of the lease?")
    assert len(provider.asked) == 1
    assert "instruction" in provider.asked[0]
    assert [hit.chunk.document_name for hit in hits] == ["b.txt", "a.txt"]
    first = hits[0]
    assert first.scores.fused is not None
    assert first.score == pytest.approx(0.3 * first.scores.fused + 0.7 * 1.0)
    engine.close()


async def test_a_reranker_that_fails_keeps_the_order_of_the_search(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    engine = await engine_with(tmp_path, embedder, ScriptedProvider({}))
    answer = await engine.ask("How long is the notice period of the lease?")
    assert answer.degraded == ("without_rerank",)
    assert answer.sources[0].hit.chunk.document_name == "a.txt"
    assert engine.fallbacks.counts["without_rerank"] == 1
    engine.close()


def test_the_llm_reranker_needs_a_model(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    flags = {"refine.reranker_enabled": True, "refine.reranker": "llm"}
    with pytest.raises(SettingsError, match="needs a provider"):
        Engine(settings_in(tmp_path, **flags), embedder=embedder, provider=SilentProvider()).open()


def test_a_reranker_that_is_not_installed_is_an_error_that_lists_the_others(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    flags = {"refine.reranker_enabled": True, "refine.reranker": "colbert"}
    with pytest.raises(SettingsError, match="No reranker named 'colbert'"):
        Engine(settings_in(tmp_path, **flags), embedder=embedder, provider=SilentProvider()).open()


@dataclass(frozen=True)
class GivenReranker:
    """Turn the order, or fail."""

    fails: bool = False
    name: str = "turned"

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        if self.fails:
            raise OSError("no connection")
        return reorder_hits(hits, {1: 0.1, 2: 0.9}, weight=1.0, depth=2)


@pytest.mark.parametrize("fails", [False, True])
async def test_the_step_records_a_given_reranker_by_its_name(tmp_path: Path, fails: bool) -> None:
    (tmp_path / "a.txt").write_text("The gate is green.")
    (tmp_path / "b.txt").write_text("The gate is green and old.")
    settings = settings_in(tmp_path / "data")
    given = GivenReranker(fails)
    async with Engine(settings, embedder=HashEmbedder(), reranker=given) as engine:
        await engine.ingest([tmp_path / "a.txt", tmp_path / "b.txt"])
        answer = await engine.ask("Is the gate green?")
    (span,) = [one for one in answer.trace["spans"] if one["stage"] == "refine.rerank"]
    if fails:
        assert (answer.degraded, span["error"]) == (("without_rerank",), "OSError: no connection")
    else:
        assert span["counts"]["reranker_type"] == "turned"
        assert span["counts"]["rerank_scores"] == [0.9, 0.1]
        assert span["counts"]["chunks_after_rerank"] == 2


async def test_a_cross_encoder_that_is_not_installed_is_left_out(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "a.txt").write_text("The notice period of the lease is three months.")
    flags = {"refine.reranker_enabled": True, "refine.reranker": "cross_encoder"}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=embedder)
    await engine.ingest([tmp_path / "a.txt"])
    answer = await engine.ask("How long is the notice period of the lease?")
    assert answer.degraded == ("without_rerank",)
    assert answer.status == "answered"
    assert any("reranker" in note for note in answer.notes)
    engine.close()


async def test_one_bad_score_of_a_model_spoils_one_chunk_and_not_the_rest(tmp_path: Path) -> None:
    reply = '{"scores": [{"passage": 1, "score": "n/a"}, {"passage": 2, "score": 10}]}'
    provider = ScriptedProvider({"Score how well": reply}, answer="Yes [Source 1].")
    flags = {"refine.reranker_enabled": True, "refine.reranker": "llm"}
    settings = settings_in(tmp_path / "data", **flags)
    for name, text in {"gate": "The gate is green.", "sun": "The sun is green too."}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    async with Engine(settings, embedder=HashEmbedder(), provider=provider) as engine:
        await engine.ingest([tmp_path / "gate.txt", tmp_path / "sun.txt"])
        answer = await engine.ask("Is the gate green?")
    assert "without_rerank" not in answer.degraded
    scored = [source.hit.scores.rerank for source in answer.sources]
    assert set(scored) == {1.0, None}
    assert [UsedChunk.of(source).rerank_score for source in answer.sources] == scored
