"""Routes and follow-ups, without any model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.understand.understander import (
    choose_route,
    complete_from_history,
    find_last_question,
    is_follow_up,
)
from ragstone.types import Message


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("How long is the notice period?", "simple"),
        ("Compare the lease with the catering contract", "complex"),
        ("What is the difference between A and B?", "complex"),
        ("Lease vs purchase", "complex"),
        ("Who signed it? And when?", "complex"),
        ("What is the rent and who pays it?", "complex"),
        ("Worin unterscheiden sich die beiden Verträge?", "complex"),
        ("В чём разница между договорами?", "complex"),
        ("Summarize the safety policy", "summarize"),
        ("Fasse den Bericht zusammen", "summarize"),
        ("Give me an overview of the manual", "summarize"),
        ("Is the indifferent observer mentioned?", "simple"),
    ],
)
def test_the_way_of_a_question(text: str, way: str) -> None:
    assert choose_route(text, "question") == way


HISTORY = [Message("user", "What was the revenue of Acme in 2022?"), Message("assistant", "5 M")]


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("and in 2023?", "What was the revenue of Acme in 2023?"),
        ("tell me more", "What was the revenue of Acme in 2022?"),
        ("and its profit?", "What was the revenue of Acme in 2022 (profit)?"),
        ("what about the Berlin costs?", "what about the Berlin costs? (revenue Acme 2022)"),
    ],
)  # fmt: skip
def test_what_a_follow_up_leaves_out_is_carried_over(text: str, resolved: str) -> None:
    assert is_follow_up(text, HISTORY)
    assert complete_from_history(text, HISTORY) == resolved


def test_nothing_is_a_follow_up_without_a_conversation() -> None:
    assert not is_follow_up("tell me more", [])
    assert complete_from_history("tell me more", []) == "tell me more"


def test_a_whole_question_is_no_follow_up() -> None:
    assert not is_follow_up("How long is the notice period of the lease?", HISTORY)


def test_a_follow_up_of_a_follow_up_leads_back_to_the_question() -> None:
    history = [*HISTORY, Message("user", "and in 2023?"), Message("assistant", "6 M")]
    assert find_last_question(history) == "What was the revenue of Acme in 2023?"


@given(st.text(max_size=80))
def test_a_standalone_question_never_loses_its_own_words_or_the_old_ones(text: str) -> None:
    resolved = complete_from_history(text, HISTORY)
    assert text.rstrip() in resolved or "Acme" in resolved
