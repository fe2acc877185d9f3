"""A model is asked anew each time; what was found for the same question is not searched again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import StoreError
from ragstone.reading.reader import UnitReader
from ragstone.testing import HashEmbedder, ScriptedProvider
from ragstone.types import Answer

from ..conftest import settings_in

QUESTION = "What colour is the gate?"


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider(["The gate is green [Source 1]."])


@pytest.fixture
async def engine(tmp_path: Path, provider: ScriptedProvider) -> AsyncIterator[Engine]:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    settings = settings_in(tmp_path / "data", **{"data.answer_cache": 100})
    engine = Engine(settings, embedder=HashEmbedder(), provider=provider)
    await engine.ingest([tmp_path / "gate.txt"])
    yield engine
    engine.close()


def stages(answer: Answer) -> set[str]:
    return {span["stage"] for span in answer.trace["spans"]}


async def test_the_second_time_only_the_model_works(
    engine: Engine, provider: ScriptedProvider
) -> None:
    first, second = await engine.ask(QUESTION), await engine.ask(QUESTION, temperature=0.9)
    assert "fuse" in stages(first)
    assert "repeat.evidence" in stages(second)
    assert not {"embed", "fuse", "ground.context"} & stages(second)
    assert len(provider.prompts) == 2
    assert provider.prompts[0].sources == provider.prompts[1].sources
    assert (second.sources, second.chunks_retrieved) == (first.sources, first.chunks_retrieved)
    assert second.trace["waterfall"] == first.trace["waterfall"] != {}
    assert engine.history.query(second.query_id)["trace"]["waterfall"] == first.trace["waterfall"]


async def test_another_limit_is_searched_for(engine: Engine) -> None:
    await engine.ask(QUESTION)
    for other in ({"top_k": 1}, {"method": "keyword"}, {"filters": {"year": 2020}}):
        assert "repeat.evidence" not in stages(await engine.ask(QUESTION, **other))  # type: ignore[arg-type]


async def test_a_changed_collection_is_searched_anew(engine: Engine, tmp_path: Path) -> None:
    await engine.ask(QUESTION)
    (tmp_path / "gate.txt").write_text("The gate is blue since last week.")
    await engine.ingest([tmp_path / "gate.txt"])
    answer = await engine.ask(QUESTION)
    assert "repeat.evidence" not in stages(answer)
    assert "blue" in answer.sources[0].text


async def test_a_reader_that_fails_is_an_error_and_nothing_is_kept(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise StoreError("The reading model is damaged.")

    with monkeypatch.context() as patched:
        patched.setattr(UnitReader, "read", broken)
        with pytest.raises(StoreError):
            await engine.ask(QUESTION, temperature=0.0)
    second = await engine.ask(QUESTION, temperature=0.0)
    assert not {"repeat", "repeat.evidence"} & stages(second)
    assert (second.status, second.degraded) == ("answered", ())
