"""Messages are told apart by what they want."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.classifier import (
    HEADS,
    asks_two_questions,
    classify,
    classify_route,
    compute_features,
    stands_alone,
)


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("What is the notice period?", "ask"),
        ("Who wrote the summary?", "ask"),
        ("Summarize the lease", "summarize"),
        ("Fasse den Bericht zusammen", "summarize"),
        ("What topics do these documents cover?", "overview"),
        ("List all contracts", "list"),
        ("Compare the lease with the catering contract", "compare"),
        ("В чём разница между договорами?", "compare"),
        ("Write an email to the landlord", "compose"),
    ],
)
def test_the_route_of_a_question(text: str, route: str) -> None:
    assert classify_route(text)[0] == route


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("and in winter?", False),
        ("How large can it be?", False),
        ("¿y quién es el propietario?", False),
        ("Who is the landlord in the lease of the ridge?", True),
        ("wifi password", True),
    ],
)
def test_a_message_stands_alone_or_not(text: str, alone: bool) -> None:
    assert stands_alone(text) is alone


def test_two_questions_are_told_from_one() -> None:
    assert asks_two_questions("What is the rent and who is the landlord?")
    assert not asks_two_questions("What are the rights and duties of the tenant?")


def test_features_do_not_depend_on_the_texts_beside() -> None:
    alone, beside = compute_features(["grüße 你好"]), compute_features(["a", "grüße 你好", ""])
    assert sorted(alone[0]) == sorted(beside[0][beside[1] == 1])


@given(st.text(max_size=200))
def test_every_text_has_a_label_of_each_head(text: str) -> None:
    for head, labels in HEADS.items():
        label, probability = classify(head, text)
        assert label in labels
        assert 1 / len(labels) <= probability + 1e-6 <= 1.01
