"""Questions and topics made from documents."""

from __future__ import annotations

import pytest

from ragstone.reading.starters import list_starters, list_topics


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("2.1 The lease begins on 1 July 2009 and is concluded.", "When does the lease begin?"),
        ("The rent is EUR 18,400 per year.", "How much is the rent?"),
        ("The annual pass costs €48 and covers any visit.", "How much does the annual pass cost?"),
        ("Invoices are kept for 10 years by law.", "How long are invoices kept?"),
        ("The safety officer trains staff, and more.", "Who trains staff?"),
        ("Talon is a spectrograph on loan from Sarnen.", "What is Talon?"),
        ("The dome was built in 1936 by two brothers.", "When was the dome built?"),
        ("The next meeting takes place on 12 March.", "When does the next meeting take place?"),
        ("The observatory has three large telescopes.",
         "How many large telescopes does the observatory have?"),
    ],
)  # fmt: skip
def test_a_sentence_becomes_the_question_that_it_answers(sentence: str, question: str) -> None:
    assert [one.question for one in list_starters([((), sentence)])] == [question]


@pytest.mark.parametrize(
    "sentence",
    ["It begins on 1 July 2009, as was agreed.", "The board thanks the 38 volunteers.", "Yes.",
     "| The rent | is EUR 18,400 per year | today |", "This is a house with a red roof."],
)  # fmt: skip
def test_a_sentence_that_needs_others_makes_no_question(sentence: str) -> None:
    assert list_starters([((), sentence)]) == []


def test_a_heading_that_asks_is_the_question() -> None:
    found = list_starters([(("Help", "How do I reset my password?"), "Open the settings page.")])
    assert [one.question for one in found] == ["How do I reset my password?"]


def test_topics_are_titles_first_without_numbers_and_common_words() -> None:
    paths = [
        ("Safety Policy", "1. Weather"), ("Safety Policy", "2. Domes"), ("Introduction",),
        ("DATA RETENTION POLICY",), ("Guide", "Weather"), ("a | b",), ("HTTP",),
    ]  # fmt: skip
    topics = list_topics(paths)
    assert topics[0] == "Safety Policy"
    assert {"Weather", "Domes", "Data retention policy", "HTTP"} <= set(topics)
    assert "Introduction" not in topics
    assert not any("|" in topic for topic in topics)
