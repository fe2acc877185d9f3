"""The documents decide what a follow-up means, and no answer is given twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.evidence import ANSWER_FROM, Evidence
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.contest import (
    choose_reading,
    find_last_answer,
    hide_said,
    list_causes,
    list_further_units,
    repeats_answer,
    score_reading,
)
from ragstone.query.understand.follow_up import STANDS_ALONE, UNLIKELY
from ragstone.trace import QueryRun
from ragstone.types import Message, Query, Reading, RetrievedHits

from ..conftest import settings_in
from .build import query, sources
from .scripted import ScriptedProvider

LEASE = (
    "The lease of the ridge was signed by Ada Brandt. The rent of the ridge is 900 euros a month. "
    "The ridge may be entered from six in the morning."
)
CAFE = "The café sells soup at noon. The rent of the café is 300 euros a month."


@pytest.fixture
async def engine(tmp_path: Path, embedder: OnnxEmbedder) -> AsyncIterator[Engine]:
    for name, text in (("lease.txt", LEASE), ("cafe.txt", CAFE)):
        (tmp_path / name).write_text(text)
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    await engine.ingest([tmp_path / "lease.txt", tmp_path / "cafe.txt"])
    yield engine
    engine.close()


async def test_a_second_question_is_not_the_first_answer_again(engine: Engine) -> None:
    first = await engine.ask("What is the rent of the ridge?", session_id="s")
    second = await engine.ask("And who signed the lease?", session_id="s")
    assert "900" in first.text
    assert "Ada Brandt" in second.text
    assert second.text != first.text


async def test_a_part_takes_the_place_of_its_like(engine: Engine) -> None:
    await engine.ask("What is the rent of the ridge?", session_id="s")
    answer = await engine.ask("And of the café?", session_id="s")
    assert "300" in answer.text
    assert answer.searched_as == "What is the rent of the café?"
    assert answer.question == "And of the café?"


async def test_undo_searches_what_was_typed(engine: Engine) -> None:
    await engine.ask("What is the rent of the ridge?", session_id="s")
    answer = await engine.ask("And of the café?", session_id="s", as_typed=True)
    assert answer.searched_as == ""
    assert answer.detected_intent == "question"


async def test_a_whole_question_stays_itself(engine: Engine) -> None:
    alone = await engine.ask("What does the café sell at noon?")
    await engine.ask("Who signed the lease of the ridge?", session_id="s")
    inside = await engine.ask("What does the café sell at noon?", session_id="s")
    assert inside.text == alone.text
    assert inside.searched_as == ""


async def test_more_shows_what_comes_next(engine: Engine) -> None:
    first = await engine.ask("Who signed the lease of the ridge?", session_id="s")
    more = await engine.ask("tell me more", session_id="s")
    assert more.status == "answered"
    assert not repeats_answer(more.text, first.text)
    assert "Ada Brandt" not in more.text
    assert more.citations


async def test_another_document_answers_the_same_question(engine: Engine) -> None:
    first = await engine.ask("How much is the rent a month?", session_id="s")
    other = await engine.ask("No, the other contract", session_id="s")
    amounts = {"900", "300"}
    said = {amount for amount in amounts if amount in first.text}
    assert said
    if len(said) == 1:
        assert (amounts - said).pop() in other.text


async def test_another_document_is_found_behind_many_passages_of_the_first(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    clauses = [f"The rent of the ridge is 900 euros a month, clause {n}." for n in range(1, 13)]
    (tmp_path / "lease.md").write_text(
        "\n\n".join(f"# Rent {n}\n\n{c}" for n, c in enumerate(clauses))
    )
    (tmp_path / "cafe.txt").write_text(CAFE)
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    await engine.ingest([tmp_path / "lease.md", tmp_path / "cafe.txt"])
    first = await engine.ask("How much is the rent a month?", session_id="s", top_k=3)
    other = await engine.ask("No, the other contract", session_id="s", top_k=3)
    assert "900" in first.text
    assert {one.hit.chunk.document_name for one in other.sources} == {"cafe.txt"}
    assert "300" in other.text
    engine.close()


WORKSHOP = (
    "The lathe is closed on Monday. It is closed because its belt is changed then. "
    "Visitors come at noon. The yard is locked at night because of the foxes. "
    "The saw is open on Friday."
)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("The lathe is closed on Monday.", "It is closed because its belt is changed then."),
        ("The yard is locked at night because of the foxes.", "because of the foxes"),
        ("Visitors come at noon.", None),
        ("The saw is open on Friday.", None),
    ],
)
def test_a_reason_belongs_to_what_was_said(said: str, reason: str | None) -> None:
    causes = [text for _, text in list_causes(sources(WORKSHOP), said)]
    assert causes == [] if reason is None else reason in causes[0]


def test_since_a_year_is_no_reason() -> None:
    text = "The lathe is closed on Monday. The lathe has been closed since 1998."
    assert not list_causes(sources(text), "The lathe is closed on Monday.")


async def test_why_is_not_answered_with_the_reason_of_something_else(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "workshop.txt").write_text(WORKSHOP)
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder)
    await engine.ingest([tmp_path / "workshop.txt"])
    asked = Message("user", "When do visitors come?")
    answer = await engine.ask(
        "Why?", history=[asked, Message("assistant", "Visitors come at noon.")]
    )
    assert answer.status == "abstained"
    engine.close()


async def test_another_question_word_does_not_get_the_same_answer(engine: Engine) -> None:
    first = await engine.ask("When may the ridge be entered?", session_id="s")
    assert "six in the morning" in first.text
    second = await engine.ask("by whom?", session_id="s")
    assert second.searched_as == "By whom may the ridge be entered?"
    assert second.text != first.text


async def test_a_reading_with_an_answer_beats_one_without() -> None:
    asked = replace(
        query("and the soup?"),
        readings=(Reading("a", prior=STANDS_ALONE), Reading("b", "exchange", UNLIKELY)),
    )

    async def search(one: Query, run: QueryRun) -> RetrievedHits:
        return RetrievedHits()

    async def grade(one: Query, found: RetrievedHits, run: QueryRun) -> Evidence:
        return Evidence(one, probability={"a": ANSWER_FROM - 0.01, "b": ANSWER_FROM}[one.text])

    chosen = await choose_reading(asked, QueryRun("r"), search, grade, None)
    assert chosen.query.text == "b"


async def test_a_bad_rewrite_does_not_lose_a_good_question(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "lease.txt").write_text(LEASE)
    provider = ScriptedProvider({"<conversation>": '{"question": "Do penguins like jazz?"}'})
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=provider)
    await engine.ingest([tmp_path / "lease.txt"])
    history = [Message("user", "What is the rent of the ridge?"), Message("assistant", "900.")]
    answer = await engine.ask("and who signed it?", history=history)
    assert "penguins" not in answer.searched_as
    assert len(provider.asked) == 1
    engine.close()


async def test_a_whole_question_asks_no_model(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    (tmp_path / "lease.txt").write_text(LEASE)
    provider = ScriptedProvider({})
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=provider)
    await engine.ingest([tmp_path / "lease.txt"])
    history = [Message("user", "What is the rent of the ridge?"), Message("assistant", "900.")]
    await engine.ask("Who signed the lease of the ridge?", history=history)
    assert not provider.asked
    engine.close()


async def test_comparing_understands_a_follow_up(engine: Engine) -> None:
    history = [Message("user", "What is the rent of the ridge?"), Message("assistant", "900.")]
    both = await engine.compare("And of the café?", history=history)
    assert both.enhanced.searched_as == "What is the rent of the café?"
    assert both.baseline.searched_as == both.enhanced.searched_as


def test_better_evidence_beats_a_better_form() -> None:
    asked = query("and who signed it?")
    good, poor = Evidence(asked, probability=0.95), Evidence(asked, probability=0.02)
    typed, completed = Reading("a", prior=0.0), Reading("b", "subject", 1.0)
    assert score_reading(asked, typed, good) > score_reading(asked, completed, poor)
    assert score_reading(asked, completed, good) > score_reading(asked, typed, good)


def test_said_sentences_are_blanked_and_offsets_stay() -> None:
    (source,) = sources(LEASE)
    (hidden,) = hide_said([source], "The lease of the ridge was signed by Ada Brandt.")
    assert len(hidden.text) == len(source.text)
    assert "Ada" not in hidden.text
    assert hidden.text.index("The rent") == source.text.index("The rent")


def test_further_units_follow_the_answer() -> None:
    units = list_further_units(sources(LEASE), "The rent of the ridge is 900 euros a month.")
    assert units[0][1].startswith("The ridge may be entered")
    assert list_further_units((), "x") == []


def test_the_last_answer_is_found_without_its_markers() -> None:
    history = [Message("user", "a"), Message("assistant", "So [Source 1]."), Message("user", "b")]
    assert find_last_answer(history) == "So."
    assert find_last_answer([]) == ""
