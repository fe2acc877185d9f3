"""What a question asks for, by its form."""

from __future__ import annotations

import pytest

from ragstone.reading.question import QuestionKind, parse_question


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is a heat exchanger?", "definition"),
        ("define heat exchanger", "definition"),
        ("What does TTL mean?", "definition"),
        ("What is the maximum size of a heat exchanger?", "fact"),
        ("Who signed the lease?", "fact"),
        ("how many steps are there", "fact"),
        ("How do I clean the filter?", "how_to"),
        ("My filter is dirty, how can I clean it?", "how_to"),
        ("List all contracts", "list"),
        ("What are the typical uses of a pump?", "list"),
        ("Is the filter washable?", "yes_no"),
        ("If the pump stops, is the tank emptied?", "yes_no"),
        ("Why was it closed?", "why"),
        ("pump versus compressor", "difference"),
        ("Tell the story", "other"),
    ],
)
def test_the_kind_of_a_question(question: str, kind: QuestionKind) -> None:
    assert parse_question(question).kind == kind


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("When did it open, and who paid?", ("When did it open?", "who paid?")),
        (
            "Who wrote the Almanac? When was it printed?",
            ("Who wrote the Almanac?", "When was it printed? (wrote Almanac)"),
        ),
        (
            "What is the difference between a pump and a compressor?",
            (
                "What is the difference between a pump and a compressor?",
                "What is pump?",
                "What is compressor?",
            ),
        ),
        ("What can I cook from pumpkin and rice?", ()),
        ("Who are Anna and Otto?", ()),
    ],
)
def test_a_question_with_several_parts_is_cut(question: str, parts: tuple[str, ...]) -> None:
    found = parse_question(question).parts
    assert found == parts


def test_two_names_joined_by_or_ask_for_a_difference() -> None:
    question = parse_question("Update policy: Wait or Force?")
    assert question.kind == "difference"
    assert question.parts[1:] == ("What is Wait?", "What is Force?")


def test_a_noun_that_two_things_share_belongs_to_both() -> None:
    parts = parse_question("What is the difference between the early and the late shift?").parts
    assert parts[1:] == ("What is early shift?", "What is late shift?")
    parts = parse_question("What is the difference between pods and replica sets?").parts
    assert parts[1:] == ("What is pods?", "What is replica sets?")
