"""Asking the same again: the same answer without the work, until the collection changes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragstone.catalog.journal import build_entry
from ragstone.engine import Engine
from ragstone.events import Token
from ragstone.protocols import Vectors
from ragstone.query.cache import measure_bytes
from ragstone.testing import HashEmbedder, ScriptedProvider
from ragstone.testing.conformance import make_document
from ragstone.trace import QueryRun
from ragstone.types import NO_ANSWER, Answer, Message

from ..conftest import settings_in
from ..patience import LONG_S

QUESTION = "What colour is the gate?"


class Counting(HashEmbedder):
    """Notes how many texts each call embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        return super().embed(texts)


@pytest.fixture
async def filled(tmp_path: Path) -> Engine:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    engine = Engine(
        settings_in(tmp_path / "data", **{"data.answer_cache": 100}), embedder=Counting()
    )
    await engine.ingest([tmp_path / "gate.txt"])
    return engine


def stages(answer: Answer) -> list[str]:
    return [span["stage"] for span in answer.trace["spans"]]


async def test_the_second_answer_is_the_first_one_under_its_own_id(filled: Engine) -> None:
    first, second = await filled.ask(QUESTION), await filled.ask(QUESTION)
    assert stages(second) == ["repeat"]
    assert second.query_id != first.query_id
    assert (first.cached, second.cached) == (False, True)
    same = {"query_id": "", "trace": {}, "cached": False, "notes": (), **QueryRun("").measure()}
    assert second.notes[-1].startswith("The same was asked before")
    assert dataclasses.replace(second, **same) == dataclasses.replace(first, **same)
    assert second.trace["waterfall"] == first.trace["waterfall"]
    assert {entry["query_id"] for entry in filled.catalog.queries()} == {
        first.query_id, second.query_id,
    }  # fmt: skip
    filled.close()


async def test_nothing_of_whoever_asked_first_is_told_to_the_next(filled: Engine) -> None:
    first = await filled.ask(QUESTION, owner="ann", request_id="anns-request", session_id="anns")
    alone = await filled.ask(QUESTION, owner="bob")
    together = await asyncio.gather(
        *(filled.ask(f"{QUESTION} Really?", owner=who, request_id=f"of-{who}")
          for who in ("ann", "bob"))
    )  # fmt: skip
    assert stages(alone) == ["repeat"]
    for answer, other in ((alone, first), tuple(together), tuple(reversed(together))):
        told = json.dumps(filled.history.query(answer.query_id))
        assert other.query_id not in told
        assert other.trace["request_id"] not in told
        assert "anns" not in told
    filled.close()


async def test_any_change_of_the_collection_is_seen_at_once(filled: Engine, tmp_path: Path) -> None:
    await filled.ask(QUESTION)
    (tmp_path / "gate.txt").write_text("The gate is blue since last week.")
    await filled.ingest([tmp_path / "gate.txt"])
    assert "blue" in (await filled.ask(QUESTION)).text
    await filled.delete(filled.documents()[0].id)
    assert (await filled.ask(QUESTION)).status == "abstained"
    filled.close()


async def test_what_an_index_finds_before_it_has_caught_up_is_not_kept(
    filled: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.index.local._CATCH_UP_S", LONG_S)  # not by itself
    await filled.ask(QUESTION)
    blue = make_document("wall", ["The gate is blue since last week."], collection="default",
                        vectors=filled.embedder.embed(["The gate is blue."]))  # fmt: skip
    filled.catalog.add([blue], embedder=filled.embedder.name)  # by another process, just now
    early = await filled.ask(QUESTION)
    assert "repeat" not in stages(early)
    assert "blue" not in early.text
    filled.index.refresh("default")
    late = await filled.ask(QUESTION)
    assert "repeat" not in stages(late)
    assert len(late.sources) == 2
    filled.close()


@pytest.mark.parametrize(
    "other",
    [{"top_k": 1}, {"method": "keyword"}, {"filters": {"year": 2020}}, {"collection": "none"}],
)
async def test_another_limit_is_another_question(filled: Engine, other: dict[str, object]) -> None:
    await filled.ask(QUESTION)
    assert stages(await filled.ask(QUESTION, **other)) != ["repeat"]  # type: ignore[arg-type]
    filled.close()


async def test_a_model_is_asked_again_unless_its_temperature_is_zero(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    provider = ScriptedProvider(["It is green [Source 1]."] * 4)
    engine = Engine(
        settings_in(tmp_path / "data", **{"data.answer_cache": 100}),
        embedder=HashEmbedder(),
        provider=provider,
    )
    await engine.ingest([tmp_path / "gate.txt"])
    for temperature, repeated in ((0.5, False), (0.5, False), (0.0, False), (0.0, True)):
        answer = await engine.ask(QUESTION, temperature=temperature)
        assert (stages(answer) == ["repeat"]) is repeated
    engine.close()


async def test_what_a_model_samples_is_kept_on_request(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    provider = ScriptedProvider(["It is green [Source 1]."])
    engine = Engine(
        settings_in(
            tmp_path / "data", **{"data.answer_cache": 100, "data.cache_model_answers": True}
        ),
        embedder=HashEmbedder(),
        provider=provider,
    )
    await engine.ingest([tmp_path / "gate.txt"])
    asked: list[tuple[dict[str, Any], bool]] = [
        ({"temperature": 0.5}, False),
        ({"temperature": 0.5}, True),
        ({"temperature": 0.6}, False),
        ({"temperature": 0.5, "top_k": 1}, False),
        ({"temperature": 0.5, "history": [Message("user", "Hello")]}, False),
    ]
    for options, is_cached in asked:
        answer = await engine.ask(QUESTION, **options)
        assert answer.cached is is_cached, options
    (tmp_path / "gate.txt").write_text("The gate is blue.")
    await engine.ingest([tmp_path / "gate.txt"])
    assert not (await engine.ask(QUESTION, temperature=0.5)).cached
    engine.close()


async def test_a_model_that_found_no_answer_is_asked_again(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    provider = ScriptedProvider([NO_ANSWER])
    engine = Engine(
        settings_in(
            tmp_path / "data",
            **{"data.answer_cache": 100, "data.cache_model_answers": True,
               "check.max_iterations": 0},
        ),
        embedder=HashEmbedder(),
        provider=provider,
    )  # fmt: skip
    await engine.ingest([tmp_path / "gate.txt"])
    told = [await engine.ask(QUESTION, temperature=0.5)]
    provider.pieces = ("The gate is green [Source 1].",)
    told += [await engine.ask(QUESTION, temperature=0.5) for _ in range(2)]
    assert [one.status for one in told] == ["abstained", "answered", "answered"]
    assert [one.cached for one in told] == [False, False, True]
    engine.close()


async def test_questions_that_arrive_together_are_embedded_together(filled: Engine) -> None:
    embedder = filled.embedder
    assert isinstance(embedder, Counting)
    await filled.ask("Is the gate open at night?")
    embedder.calls.clear()
    questions = [f"Is the gate number {number} green?" for number in range(8)]
    await asyncio.gather(*(filled.ask(question) for question in questions))
    assert embedder.calls[0] == questions
    filled.close()


async def test_answers_that_end_together_are_written_with_few_commits(filled: Engine) -> None:
    answer = await filled.ask("Is the gate number 1 green?")
    entries = [
        build_entry(dataclasses.replace(answer, query_id=f"together-{number}"), query_log="full")
        for number in range(20)
    ]
    before = filled._journal.commits
    await asyncio.gather(*(filled._journal.write(entry) for entry in entries))
    assert await filled._journal.finish(LONG_S)
    written = {entry["query_id"] for entry in filled.catalog.queries(limit=100)}
    assert {f"together-{number}" for number in range(20)} <= written
    assert filled._journal.commits - before <= 2
    filled.close()


async def test_the_memory_of_answers_has_a_bound_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    flags = {"data.answer_cache": 1000, "data.answer_cache_mb": 0.03}
    engine = Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder())
    await engine.ingest([tmp_path / "gate.txt"])
    questions = [f"Is the gate number {number} green?" for number in range(20)]
    for question in questions:
        await engine.ask(question)
        assert 0 < engine.wrapped.cache.answers.size_bytes <= 30_000
    assert stages(await engine.ask(questions[-1])) == ["repeat"]
    assert stages(await engine.ask(questions[0])) != ["repeat"]
    engine.close()


def test_the_size_of_a_value_counts_each_object_once() -> None:
    text = "x" * 10_000
    once, twice = measure_bytes((text,)), measure_bytes((text, text))
    assert once >= 10_000
    assert twice - once < 100


async def test_the_words_of_a_repeated_answer_were_checked_before_they_go_out(
    filled: Engine,
) -> None:
    await filled.ask(QUESTION)
    again = [event async for event in filled.stream(QUESTION)]
    assert [event.verified for event in again if isinstance(event, Token)] == [True]
    filled.close()
