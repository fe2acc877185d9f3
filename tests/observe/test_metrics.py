"""Metrics: an answer leaves its marks, and no label holds a text or a name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

from prometheus_client import REGISTRY

from ragstone.calls import Usage
from ragstone.engine import Engine
from ragstone.errors import ProviderError
from ragstone.observe.metrics import MetricsWatcher, render_metrics
from ragstone.testing import HashEmbedder
from ragstone.trace import QueryRun
from ragstone.types import Prompt

from ..conftest import settings_in
from .test_spans import watched_by


class Failing:
    name, model = "failing", "none"

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        raise ProviderError("It is down.")
        yield ""


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_an_answer_is_counted_timed_and_judged(sample_engine: Engine) -> None:
    stage = {"stage": "retrieve.semantic"}
    before = value("ragstone_stage_seconds_count", **stage)
    grounded = value("ragstone_quality_count", signal="groundedness_score")
    cited = value("ragstone_quality_count", signal="citation_precision")
    with watched_by(MetricsWatcher()):
        asyncio.run(sample_engine.ask("When does the lease begin?"))
    assert value("ragstone_stage_seconds_count", **stage) == before + 1
    assert value("ragstone_quality_count", signal="groundedness_score") == grounded + 1
    assert value("ragstone_quality_count", signal="citation_precision") == cited + 1
    text = render_metrics("")[0].decode()
    assert "mirror" not in text
    assert "default" not in text


def test_a_failing_provider_is_an_error_of_its_stage_and_a_degradation(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    engine = Engine(settings_in(tmp_path / "data"), embedder=HashEmbedder(), provider=Failing())
    asyncio.run(engine.ingest([tmp_path / "gate.txt"]))
    before = value("ragstone_degraded_total", fallback="extractive_answer")
    with watched_by(MetricsWatcher()):
        answer = asyncio.run(engine.ask("What colour is the gate?"))
    engine.close()
    assert "extractive_answer" in answer.degraded
    assert value("ragstone_degraded_total", fallback="extractive_answer") == before + 1
    assert 'ragstone_errors_total{component="ground.generate"' in render_metrics("")[0].decode()


def test_models_that_clients_choose_are_a_bounded_number_of_labels() -> None:
    watcher, run = MetricsWatcher(), QueryRun("r")
    for number in range(100):
        with watched_by(watcher), run.span("ground.generate") as span:
            span.count_usage(Usage(1, 1, provider="bounded", model=f"model-{number}"))
    cost = re.findall(
        r'^ragstone_cost_usd_total\{.*provider="bounded"',
        render_metrics("")[0].decode(),
        re.MULTILINE,
    )
    assert len(cost) == 33
    others = {"provider": "bounded", "model": "other", "direction": "input"}
    assert value("ragstone_tokens_total", **others) == 68


def test_answers_from_memory_are_counted(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    engine = Engine(
        settings_in(tmp_path / "data", **{"data.answer_cache": 10}), embedder=HashEmbedder()
    )
    asyncio.run(engine.ingest([tmp_path / "gate.txt"]))
    hits = value("ragstone_answer_cache_total", outcome="hit")
    misses = value("ragstone_answer_cache_total", outcome="miss")
    with watched_by(MetricsWatcher()):
        for _ in range(3):
            engine.ask_sync("What colour is the gate?")
    engine.close()
    assert value("ragstone_answer_cache_total", outcome="hit") == hits + 2
    assert value("ragstone_answer_cache_total", outcome="miss") == misses + 1
