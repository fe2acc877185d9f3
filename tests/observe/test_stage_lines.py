"""Four lines for each search with right counts, whichever part is off, and one summary line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from ragstone.engine import Engine
from ragstone.observe.logs import LogWatcher
from ragstone.testing import HashEmbedder
from ragstone.trace import Trace

from ..conftest import settings_in

FOUR = ["initial retrieval", "after filter", "after rerank", "final context"]


@pytest.fixture(autouse=True)
def watching() -> Iterator[None]:
    structlog.reset_defaults()
    Trace.watchers = (LogWatcher(with_text=False),)
    yield
    Trace.watchers = ()


async def ask(tmp_path: Path, question: str = "Is the gate green?", **flags: Any) -> list[Any]:
    settings = settings_in(tmp_path / "data", **{"check.max_iterations": 0, **flags})
    for at in range(6):
        (tmp_path / f"{at}.txt").write_text(f"The gate number {at} is green. It is old.")
    async with Engine(settings, embedder=HashEmbedder()) as engine:
        await engine.ingest([tmp_path / f"{at}.txt" for at in range(6)])
        with capture_logs() as lines:
            await engine.ask(question, top_k=4)
    return lines


def pick(lines: list[Any], event: str) -> Any:
    (line,) = [one for one in lines if one["event"] == event]
    return line


@pytest.mark.parametrize(
    ("flags", "filtered", "reranker"),
    [
        ({}, 6, "none"),
        ({"refine.steps": ["select"]}, 6, "none"),
        ({"refine.reranker_enabled": True}, 6, "noop"),
        ({"refine.min_similarity": 0.99, "refine.min_chunks": 3}, 3, "none"),
        ({"refine.reranker_enabled": True, "refine.reranker": "reading"}, 6, "reading"),
    ],
)
async def test_each_line_has_its_count(
    tmp_path: Path, flags: dict[str, Any], filtered: int, reranker: str
) -> None:
    lines = await ask(tmp_path, **flags)
    assert sorted(one["event"] for one in lines if one["event"] in FOUR) == sorted(FOUR)
    first = pick(lines, "initial retrieval")
    assert first["chunks_retrieved"] == 6
    assert len(first["scores_range"]) == 2
    kept = pick(lines, "after filter")
    assert kept["chunks_after_filter"] == filtered
    assert kept["fallback_triggered"] is (filtered == 3)
    ranked = pick(lines, "after rerank")
    assert (ranked["chunks_after_rerank"], ranked["reranker_type"]) == (filtered, reranker)
    assert bool(ranked["rerank_scores"]) is (reranker == "reading")
    final = pick(lines, "final context")
    assert final["final_chunks_count"] == min(filtered, 4)
    assert final["context_size_chars"] > 0
    summary = pick(lines, "query")
    assert summary["rag_enabled"] is True
    assert (summary["top_k"], summary["filtered_k"]) == (4, filtered)
    assert summary["final_k"] == min(filtered, 4)
    assert summary["reranker"] == reranker
    assert summary["fallback"] is (filtered == 3)
    assert summary["threshold"] == kept["threshold_used"]
    assert len(kept["filtered_scores"]) == (0 if "refine.steps" in flags else filtered)
    assert summary["scores_range"] == first["scores_range"]
    assert summary["initial_k"] == first["initial_k"] > 0
    assert summary["context_size"] > 0
    assert summary["retrieval_time_ms"] > 0
    assert summary["chunks_retrieved"] == 6
    assert len({line["request_id"] for line in lines}) == 1
    assert {line["log_level"] for line in lines} == {"info"}


async def test_a_cut_context_and_an_empty_search_are_warnings(tmp_path: Path) -> None:
    lines = await ask(tmp_path, **{"ground.max_context_tokens": 40})
    cut = pick(lines, "context truncated")
    assert cut["log_level"] == "warning"
    assert cut["sources_left_out"] == 4 - cut["final_chunks_count"] > 0
    settings = settings_in(tmp_path / "empty")
    async with Engine(settings, embedder=HashEmbedder()) as engine:
        with capture_logs() as lines:
            await engine.ask("Is the gate green?")
    assert pick(lines, "no chunks found")["log_level"] == "warning"
    assert sorted(one["event"] for one in lines if one["event"] in FOUR) == sorted(FOUR)
    assert pick(lines, "query")["filtered_k"] == 0


async def test_whole_documents_have_the_four_lines_too(tmp_path: Path) -> None:
    lines = await ask(tmp_path, "Summarize 3.txt")
    assert [one["event"] for one in lines if one["event"] in FOUR] == FOUR
    assert pick(lines, "initial retrieval")["chunks_retrieved"] == 1
    assert pick(lines, "final context")["final_chunks_count"] == 1
