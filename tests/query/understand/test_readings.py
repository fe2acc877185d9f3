"""What a message may mean in its conversation, before anything is searched."""

from __future__ import annotations

import pytest

from ragstone.messages import translate
from ragstone.query.understand.readings import find_last_exchange, find_subject, list_readings
from ragstone.types import NO_ANSWER, Message

HISTORY = (
    Message("user", "Who built the telescope?"),
    Message("assistant", "Karl Meyer built the telescope in 1911 [Source 1]."),
)


def test_a_message_is_read_with_what_was_said_before() -> None:
    readings = list_readings("thanks, and when was he born?", HISTORY)
    assert [(reading.kind, reading.text) for reading in readings] == [
        ("joined", "and when was he born (built telescope)?"),
        ("subject", "and when was he born (Karl Meyer)?"),
        ("typed", "thanks, and when was he born?"),
    ]


def test_a_whole_question_is_read_as_typed_first() -> None:
    readings = list_readings("What is the notice period in the lease?", HISTORY)
    assert readings[0].kind == "typed"


@pytest.mark.parametrize("text", ["Who built the telescope?", "who built the telescope"])
def test_a_question_asked_again_has_one_reading(text: str) -> None:
    assert [reading.kind for reading in list_readings(text, HISTORY)] == ["typed"]


def test_a_first_message_has_one_reading() -> None:
    greeting = [Message("user", "hello"), Message("assistant", "Hello!")]
    assert [reading.kind for reading in list_readings("and in winter?", greeting)] == ["typed"]


@pytest.mark.parametrize("text", ["tell me more", "Mehr dazu bitte", "dis-m'en plus", "还有呢"])
def test_more_searches_the_last_question_again(text: str) -> None:
    (reading,) = list_readings(text, HISTORY)
    assert (reading.kind, reading.text) == ("more", "Who built the telescope?")


def test_the_last_exchange_skips_small_talk_and_refusals() -> None:
    thanks = (Message("user", "thanks!"), Message("assistant", "You're welcome."))
    question, answer = find_last_exchange((*HISTORY, *thanks))
    assert question == "Who built the telescope?"
    assert answer == "Karl Meyer built the telescope in 1911."
    refused = (
        Message("user", "and his wife?", "Who built the telescope? and his wife?"),
        Message("assistant", translate(NO_ANSWER, "de")),
    )
    assert find_last_exchange(refused) == ("Who built the telescope? and his wife?", "")


@pytest.mark.parametrize(
    ("question", "answer", "subject"),
    [
        ("Who signed the lease?", "The lease was signed by Karl Meyer.", "Karl Meyer"),
        ("What is the rent?", "", ""),
    ],
)
def test_the_subject_is_what_the_answer_adds(question: str, answer: str, subject: str) -> None:
    assert find_subject(question, answer) == subject
