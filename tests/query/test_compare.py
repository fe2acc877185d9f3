"""Two answers from one retrieval, written side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import ProviderError
from ragstone.evidence import Draft
from ragstone.testing import HashEmbedder
from ragstone.trace import QueryRun
from ragstone.types import Prompt, Query, Source

from ..conftest import settings_in
from ..patience import LONG_S, until


class Meeting:
    """Writes only when two answers are being written at the same time."""

    name = model = "meeting"

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.both = asyncio.Event()

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        self.prompts.append(prompt)
        if len(self.prompts) == 2:
            self.both.set()
        await asyncio.wait_for(self.both.wait(), LONG_S)
        yield "The gate is green [Source 1]."


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    for name, text in {"gate": "The gate is green.", "rain": "Rain is wet.", "sun": "Sun."}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    flags = {"refine.min_similarity": 0.5, "refine.min_chunks": 1, "check.max_iterations": 0}
    async with Engine(
        settings_in(tmp_path / "data", **flags), embedder=HashEmbedder(), provider=Meeting()
    ) as engine:
        await engine.ingest([tmp_path / f"{name}.txt" for name in ("gate", "rain", "sun")])
        yield engine


async def test_one_retrieval_serves_both_answers_and_they_are_written_at_once(
    engine: Engine,
) -> None:
    found = await engine.compare("Is the gate green?")
    raw, refined = (len(answer.sources) for answer in (found.baseline, found.enhanced))
    assert raw > refined >= 1
    for answer in (found.baseline, found.enhanced):
        stages = [span["stage"] for span in answer.trace["spans"]]
        assert stages.count("retrieve.semantic") == stages.count("ground.generate") == 1
    assert found.baseline.query_id == found.enhanced.query_id
    assert engine.history.query(found.enhanced.query_id)["answer"] == found.enhanced.text


class FailingAnswerer:
    """Fails in one answer as soon as the other has begun."""

    def __init__(self) -> None:
        self.begun = self.stopped = 0
        self.second = asyncio.Event()

    async def write(
        self, query: Query, sources: tuple[Source, ...], run: QueryRun
    ) -> AsyncGenerator[str | Draft, None]:
        self.begun += 1
        if self.begun == 1:
            await self.second.wait()
            raise ProviderError("It broke.")
        self.second.set()
        try:
            await asyncio.sleep(2 * LONG_S)
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        yield ""


async def test_when_one_fails_the_other_is_stopped(tmp_path: Path) -> None:
    answerer = FailingAnswerer()
    settings = settings_in(tmp_path)
    async with Engine(settings, embedder=HashEmbedder(), answerer=answerer) as engine:
        with pytest.raises(ProviderError):
            await engine.compare("Is the gate green?")
        await until(lambda: answerer.stopped == 1)


async def test_small_talk_is_answered_once_and_for_both(engine: Engine) -> None:
    found = await engine.compare("Hello!")
    own = {"total_ms": 0.0, "trace": {}}  # each branch has its own clock
    assert replace(found.baseline, **own) == replace(found.enhanced, **own)
    assert engine.provider.prompts == []  # type: ignore[attr-defined]
