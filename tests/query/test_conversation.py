"""A session's memory: bounded by turns and tokens, summarised with a model and without one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.engine import Engine
from ragstone.errors import NotFoundError
from ragstone.query.conversation import build_messages, digest_turns, split_turns
from ragstone.settings import MemorySettings
from ragstone.testing import HashEmbedder
from ragstone.types import Answer, Intent, Message, Turn

from ..conftest import settings_in
from .scripted import ScriptedProvider

words = st.text("ab .?é\n", max_size=200)


def tokens(text: str) -> int:
    return len(text.split())


def turn(position: int, question: str, answer: str, intent: Intent = "question") -> Turn:
    return Turn(position, str(position), question, answer, "answered", intent, float(position))


@given(
    st.lists(st.tuples(words, words), max_size=30),
    st.integers(1, 10),
    st.integers(50, 200),
)
def test_what_is_kept_is_the_end_and_fits_or_is_one_turn(
    said: list[tuple[str, str]], max_turns: int, max_tokens: int
) -> None:
    turns = [turn(n, question, answer) for n, (question, answer) in enumerate(said)]
    options = MemorySettings(max_turns=max_turns, max_tokens=max_tokens)
    old, recent = split_turns(turns, options, tokens)
    assert [*old, *recent] == turns
    assert bool(recent) == bool(turns)
    size = sum(tokens(one.question) + tokens(one.answer) for one in recent)
    assert len(recent) == 1 or (len(recent) <= max_turns and size <= max_tokens) or not turns
    if old and len(recent) > 1:
        assert len(recent) <= max(1, max_turns // 2), "room is made for the next turns"


@given(words, st.lists(st.tuples(words, words), min_size=1, max_size=20), st.integers(20, 60))
def test_a_digest_is_never_longer_than_allowed(
    summary: str, said: list[tuple[str, str]], limit: int
) -> None:
    turns = [turn(n, question, answer) for n, (question, answer) in enumerate(said)]
    assert tokens(digest_turns(summary, turns, limit, tokens)) <= limit + 1  # the ellipsis


def test_a_digest_has_each_question_with_the_first_sentence_of_its_answer() -> None:
    turns = [
        turn(0, "How long is the lease?", "30 years. [Source 2] It began in 2009. [Source 1]"),
        Turn(1, "1", "Who signed it?", "…", "abstained", "question", 1.0),
    ]
    assert digest_turns("", turns, 100, tokens).splitlines() == [
        "- How long is the lease? → 30 years.",
        "- Who signed it? → not in the documents",
    ]


def test_the_oldest_lines_of_a_digest_leave_first() -> None:
    turns = [turn(n, f"Question {n}?", f"Answer {n}.") for n in range(20)]
    lines = digest_turns("- Question first? → Answer.", turns, 20, tokens).splitlines()
    assert lines[-1] == "- Question 19? → Answer 19."
    assert len(lines) < 6


def test_messages_are_the_summary_and_the_turns_without_markers() -> None:
    made = build_messages(
        "They spoke of rent.", [turn(3, "How much?", "100. [Source 1]")], 50, tokens
    )
    assert made == (
        Message("system", "Earlier in this conversation:\nThey spoke of rent."),
        Message("user", "How much?", "How much?"),
        Message("assistant", "100."),
    )


def test_an_answer_longer_than_all_the_room_is_cut_at_a_sentence() -> None:
    long = " ".join(f"This is sentence number {n}." for n in range(50))
    (_, answer) = build_messages("", [turn(0, "Tell me everything.", long)], 12, tokens)
    assert answer.content == "This is sentence number 0. This is sentence number 1."


def engine_with(directory: Path, provider: ScriptedProvider | None, **memory: int) -> Engine:
    flags: dict[str, object] = {f"memory.{name}": value for name, value in memory.items()}
    # The collection is empty: by default the model would not be asked.
    flags |= {"check.max_iterations": 0, "retrieve.fallback": "chat"}
    return Engine(settings_in(directory, **flags), embedder=HashEmbedder(), provider=provider)


async def converse(engine: Engine, count: int) -> Answer:
    for number in range(count):
        answer = await engine.ask(f"What is the number {number} of the house?", session_id="s")
    return answer


async def test_a_long_session_is_summarised_by_the_model(tmp_path: Path) -> None:
    provider = ScriptedProvider({"Write one summary": "They asked for numbers."})
    engine = engine_with(tmp_path, provider, max_turns=4)
    await converse(engine, 6)
    session = engine.history.session("local", "s")
    assert session.summary == "They asked for numbers."
    assert 0 < session.summarised <= 4
    assert len(session.turns) == 6, "all turns can still be read"
    sent = provider.prompts[-1].messages
    assert sent[0] == Message("system", "Earlier in this conversation:\nThey asked for numbers.")
    assert sum(message.role == "user" for message in sent) <= 5
    engine.close()


async def test_a_model_that_fails_leaves_the_digest(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, ScriptedProvider({}), max_turns=4)
    answer = await converse(engine, 6)
    assert "- What is the number 0 of the house?" in engine.history.session("local", "s").summary
    assert "without_llm_steps" in answer.degraded
    engine.close()


async def test_without_a_model_there_is_a_digest_and_nothing_is_degraded(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, None, max_turns=4)
    answer = await converse(engine, 6)
    assert "- What is the number 0 of the house?" in engine.history.session("local", "s").summary
    assert answer.degraded == ()
    engine.close()


async def test_no_more_turns_are_kept_than_may_be(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, None, kept_turns=3)
    await converse(engine, 5)
    assert [one.position for one in engine.history.session("local", "s").turns] == [2, 3, 4]
    engine.close()


async def test_small_talk_is_kept_for_reading_and_never_recalled(tmp_path: Path) -> None:
    provider = ScriptedProvider({})
    engine = engine_with(tmp_path, provider)
    for said in ("What is the number of the house?", "thanks!", "Where is the number of the gate?"):
        await engine.ask(said, session_id="s")
    assert len(engine.history.session("local", "s").turns) == 3
    assert [m.content for m in provider.prompts[-1].messages if m.role == "user"] == [
        "What is the number of the house?", "Where is the number of the gate?",
    ]  # fmt: skip
    engine.close()


async def test_an_owner_is_forgotten_completely(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, None)
    for owner in ("alice", "bob"):
        await engine.ask("What is the number of the house?", session_id="s", owner=owner)
    engine.history.delete_owner("alice")
    with pytest.raises(NotFoundError):
        engine.history.session("alice", "s")
    assert [entry["owner"] for entry in engine.history.queries()] == ["bob"]
    engine.close()


def test_two_turns_at_once_are_both_kept(tmp_path: Path) -> None:
    engine = engine_with(tmp_path, None)

    async def both() -> None:
        await asyncio.gather(*(engine.ask(f"What is number {n}?", session_id="s") for n in "12345"))

    asyncio.run(both())
    assert [one.position for one in engine.history.session("local", "s").turns] == [0, 1, 2, 3, 4]
    engine.close()
