"""What a question asks for, and where a sentence offers it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.kinds import Kind, detect_kind, find_offers


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who signed the lease?", "who"),
        ("Which company gets the order?", "who"),
        ("When does the lease end?", "when"),
        ("In which year was it built?", "when"),
        ("Where do we go when the alarm sounds?", "where"),
        ("What does a ticket cost?", "money"),
        ("Was kostet der Audioguide?", "money"),
        ("How long is the notice period?", "duration"),
        ("How often is it calibrated?", "duration"),
        ("What share of the sales is paid?", "percent"),
        ("How many visitors came?", "number"),
        ("Wie viele Sterne gibt es?", "number"),
        ("Why was it closed?", "why"),
        ("Warum ist das Café zu?", "why"),
        ("How do I open the shutter?", "how"),
        ("Is the observatory open in April?", "yes_no"),
        ("Which eyepiece should I take?", "what"),
    ],
)
def test_the_kind_of_a_question(question: str, kind: Kind) -> None:
    assert detect_kind(question) == kind


@pytest.mark.parametrize(
    ("question", "sentence", "offered"),
    [
        ("Who gave the refractor?", "It came from Eleanor Morrow in 1911.", "Eleanor Morrow"),
        ("When does it end?", "It ends on 30 June 2039 without notice.", "30 June 2039"),
        ("What does it cost?", "The pass costs €48 and covers a year.", "€48"),
        ("How long is the notice?", "Notice is eighteen months.", "eighteen months"),
        ("What share is paid?", "The commission is 12 % of turnover.", "12 %"),
        ("How heavy is the mirror?", "Mass 487 kg", "487 kg"),
    ],
)
def test_a_sentence_offers_what_is_asked(question: str, sentence: str, offered: str) -> None:
    spans = find_offers(detect_kind(question), question, sentence)
    assert offered in [sentence[start:end] for start, end in spans]


def test_what_the_question_already_says_is_no_offer() -> None:
    assert find_offers("when", "What happened in 1953?", "The library burned in 1953.") == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_spans_lie_inside_the_sentence_and_are_not_empty(question: str, sentence: str) -> None:
    for start, end in find_offers(detect_kind(question), question, sentence):
        assert 0 <= start < end <= len(sentence)
