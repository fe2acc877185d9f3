"""What a message may mean in its conversation, by its form alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.messages import translate
from ragstone.query.understand.exchange import exchange_part
from ragstone.query.understand.follow_up import (
    STANDS_ALONE,
    Exchange,
    list_exchanges,
    list_readings,
)
from ragstone.query.understand.nouns import WHICH, find_subject, list_items
from ragstone.types import NO_ANSWER, Message

ACME = Exchange("What was the revenue of Acme in 2022?", "It was 5 million.")


FOLLOW_UPS = """
What was the revenue of Acme in 2022? | and in 2023? | What was the revenue of Acme in 2023?
What is a Turbine? | how heavy can it be? | How heavy can a Turbine be?
What is the price of the filter? | And who sells it? | Who sells the filter?
What is the price of the pump? | And what is the warranty? | What is the warranty of the pump?
When is the shop open in summer? | And in winter? | When is the shop open in winter?
How heavy is the Falcon drill? | No, the Heron one. | How heavy is the Heron drill?
When is the shop open in summer? | Not summer, winter | When is the shop open in winter?
What does an adult pay? | a child, not an adult | What does a child pay?
What is the torque? | I meant Heron | What is the torque of Heron?
What happens if the lamp is red? | if the lamp is green | What happens if the lamp is green?
How is the pump cleaned? | Back to the filter: how is it changed? | How is the filter changed?
What did Acme sell in 2022? | ok great, and in 2023? | What did Acme sell in 2023?
When is the shop open in summer? | Thanks, and in winter? | When is the shop open in winter?
When is the shop open in summer? | and in winter? Thank you! | When is the shop open in winter?
Was kostet eine Karte für Erwachsene? | danke, und für Kinder? | Was kostet eine Karte für Kinder?
What does an adult pay? | and for a child? | What does a child pay?
What does an adult day ticket cost? | for a child | What does a child day ticket cost?
When is the shop open in summer? | where? | Where is the shop open in summer?
Is the shop open in summer? | since when? | Since when is the shop open in summer?
What is the limit (noise)? | heat | What is the limit (heat)?
"""


@pytest.mark.parametrize("line", FOLLOW_UPS.strip().splitlines())
def test_a_follow_up_is_completed(line: str) -> None:
    before, text, meant = (part.strip() for part in line.split("|"))
    readings = list_readings(text, [Exchange(before, "Because.")])
    assert readings[0].kind == "typed" or readings[0].text == meant
    assert meant in [one.text for one in readings]


@pytest.mark.parametrize(
    "text",
    [
        "How long is the notice period of the lease?",
        "Where do the defibrillators hang?",
        "Which company built the dome, and when was it founded?",
        "Wie lang ist die Kündigungsfrist?",
        "Compare the lease with the catering contract",
    ],
)
def test_a_whole_question_stands_on_its_own(text: str) -> None:
    readings = list_readings(text, [ACME])
    assert [(one.text, one.kind, one.prior) for one in readings] == [(text, "typed", STANDS_ALONE)]


def test_nothing_is_a_follow_up_without_a_conversation() -> None:
    assert [one.kind for one in list_readings("tell me more", [])] == ["typed"]


@pytest.mark.parametrize(
    "text", ["tell me more", "More details, please", "Mehr dazu", "cuéntame más", "подробнее"]
)
def test_a_wish_for_more_keeps_the_question(text: str) -> None:
    (reading,) = list_readings(text, [ACME])
    assert (reading.kind, reading.text) == ("more", ACME.question)


def test_the_other_document_is_asked_for() -> None:
    (reading,) = list_readings("No, the other contract", [ACME])
    assert (reading.kind, reading.text) == ("other", ACME.question)


def test_the_second_one_is_taken_from_the_answer() -> None:
    before = Exchange("Which modes are there?", "The modes are Forward, Reverse and Hold.")
    readings = list_readings("What does the second one do?", [before])
    assert "What does Reverse do?" in [one.text for one in readings]


def test_the_second_one_of_two_rows_is_named_by_its_row() -> None:
    rows = "Heron drill: Weight 2 kg, Speed 900. Falcon drill: Weight 3 kg, Speed 800."
    readings = list_readings("the second one", [Exchange("What is the weight?", rows)])
    assert "What is the weight (Falcon drill)?" in [one.text for one in readings]


def test_letters_and_numbers_are_no_items() -> None:
    assert list_items("The fuse is of type R or 800.", "Which fuse?") == []
    assert list_items("The Halden dome turns at 3 degrees a second.", "How fast?") == []


def test_a_new_topic_in_one_word_may_stand_alone() -> None:
    before = Exchange("What is the rent of the ridge?", "It is 900 euros.")
    typed, *others = list_readings("parking", [before])
    assert typed.prior >= max(one.prior for one in others)
    typed, *others = list_readings("the café", [before])
    assert typed.prior < max(one.prior for one in others)


def test_a_name_after_a_question_about_a_name_is_that_question_again() -> None:
    typed, *others = list_readings("Heron", [Exchange("How heavy is Falcon?", "Nine kilos.")])
    assert max(others, key=lambda one: one.prior).text == "How heavy is Heron?"
    assert typed.prior < max(one.prior for one in others)


@pytest.mark.parametrize(
    "answer", ["Yearly EUR 21 is due.", "Yearly: Adult EUR 21, Child EUR 9", "Yearly | EUR 21"]
)
def test_no_pronoun_stands_for_an_amount_or_a_row(answer: str) -> None:
    readings = list_readings("Who pays it?", [Exchange("What does a ticket cost?", answer)])
    assert [one.text for one in readings] == ["Who pays it?", "Who pays a ticket?"]


def test_a_choice_is_joined_with_the_question_that_was_unclear() -> None:
    offered = f"**Noise (safety.md)**\n\n80 dB\n\n**Stays (guests.md)**\n\n9 days\n\n{WHICH}"
    before = Exchange("What is the limit?", offered)
    for text, meant in (
        ("noise", "What is the limit (Noise)?"),
        ("the safety policy", "What is the limit (Noise, the safety policy)?"),
        ("the second one", "What is the limit (Stays)?"),
        ("the cellar", "What is the limit (the cellar)?"),
    ):
        assert max(list_readings(text, [before]), key=lambda one: one.prior).text == meant


def test_items_of_a_list_are_named() -> None:
    answer = "There are:\n- **Red**: for stops\n- **Green**: for starts"
    assert len(list_items(answer, "Which lamps?")) == 2


def test_why_asks_for_the_reason_of_the_answer() -> None:
    before = Exchange("How long may a name be?", "A name may have 52 characters.")
    assert any("52 characters" in one.text for one in list_readings("Why?", [before]))


def test_a_question_in_another_language_is_not_a_part_of_the_last_one() -> None:
    before = Exchange("How large can a Turbine be?", "Nine metres.")
    texts = [one.text for one in list_readings("¿Y se guarda cifrado por defecto?", [before])]
    assert any(text.endswith("(a Turbine)?") for text in texts)


@pytest.mark.parametrize("text", ["und im Winter?", "le soir", "por favor", "die Kinder"])
def test_a_short_message_is_not_taken_for_another_language(text: str) -> None:
    before = Exchange("How large can a Turbine be in summer?", "Nine metres.")
    assert any(one.kind in ("exchange", "joined") for one in list_readings(text, [before]))


def test_a_reading_without_an_answer_is_not_carried_on() -> None:
    history = [
        Message("user", ACME.question, ACME.question),
        Message("assistant", ACME.answer),
        Message("user", "and the dragon?", "What was the dragon of Acme in 2022?"),
        Message("assistant", f"{NO_ANSWER} The documents come close."),
    ]
    (before,) = list_exchanges(history)
    assert before.question == ACME.question
    assert before.answer == ACME.answer
    history[-2] = Message("user", "dragons", "dragons")
    assert [one.question for one in list_exchanges(history)] == [ACME.question]
    assert "How old is the dragon?" in [
        one.text for one in list_readings("How old is it?", [before])
    ]


def test_a_whole_question_without_an_answer_can_be_completed() -> None:
    asked = "How many moons does Jupiter have?"
    for refusal in (NO_ANSWER, translate(NO_ANSWER, "de")):
        before = list_exchanges([Message("user", asked, asked), Message("assistant", refusal)])
        assert [one.question for one in before] == [asked]


def test_small_talk_and_why_change_no_question() -> None:
    history = [
        Message("user", ACME.question),
        Message("assistant", ACME.answer),
        Message("user", "thanks!"),
        Message("assistant", "You're welcome."),
        Message("user", "Why?", "Why: It was 5 million?"),
        Message("assistant", "Because of the pump."),
    ]
    assert [one.question for one in list_exchanges(history)] == [ACME.question] * 2
    assert list_exchanges(history)[0].answer == ACME.answer


def test_a_follow_up_to_a_follow_up_uses_the_completed_question() -> None:
    history = [
        Message("user", "What was the revenue of Acme in 2022?"),
        Message("assistant", "5 M [Source 1]"),
        Message("user", "and in 2023?"),
        Message("assistant", "6 M"),
    ]
    exchanges = list_exchanges(history)
    assert exchanges[0].answer == "5 M"
    assert exchanges[1].question == "What was the revenue of Acme in 2023?"


def test_a_stored_reading_is_used_again() -> None:
    history = [Message("user", "and in 2023?", "What was the revenue of Acme in 2023?")]
    assert list_exchanges(history)[0].question == "What was the revenue of Acme in 2023?"


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("What is the focal length of the Halden reflector?", "the Halden reflector"),
        ("How heavy is the door of the safe?", "the door of the safe"),
        ("Which wavelength range does Talon cover?", "Talon"),
        ("When is the shop open in July 2024?", "the shop"),
        ("?", ""),
    ],
)
def test_the_subject_of_a_question(question: str, subject: str) -> None:
    assert find_subject(question) == subject


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_has_a_reading(text: str, before: str) -> None:
    readings = list_readings(text, [Exchange(before, before)])
    assert readings


@pytest.mark.parametrize(
    ("question", "part", "expected"),
    [
        ("Is the sourdough vegan?", "the brioche", "Is the brioche vegan?"),
        ("Is the gate?", "the door", "Is the door?"),
        ("Who approves the budget?", "the holidays", "Who approves the holidays?"),
    ],
)
def test_what_is_asked_of_a_thing_is_kept_when_another_takes_its_place(
    question: str, part: str, expected: str
) -> None:
    assert exchange_part(question, part)[0] == expected
