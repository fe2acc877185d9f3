"""A claim that differs from its source in one word is not supported by it."""

from __future__ import annotations

import pytest

from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.check.review import check_against_facts
from ragstone.query.check.words import find_exchanged_words


def reasons(claim: str, evidence: str) -> list[str]:
    return [one.reason for one in find_exchanged_words(claim, evidence)]


def test_the_exchanged_word_is_named() -> None:
    assert reasons("The gate is red.", "The gate is green.") == [
        "The source says “green” where this says “red”."
    ]


def test_it_is_found_inside_a_longer_sentence() -> None:
    assert reasons("The gate is red.", "Since May the gate is green and high.")


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The gate is green.", "The gate is green."),
        ("The gates are green.", "The gate are green."),  # another form of the word
        ("The gate is green.", "A gate is green."),  # a function word
        ("Green gates.", "Red gates."),  # too short to be sure
        ("The gate is green.", "The roof is red."),
    ],
)
def test_what_is_no_exchange(claim: str, evidence: str) -> None:
    assert reasons(claim, evidence) == []


def test_such_a_claim_is_not_supported(embedder: OnnxEmbedder) -> None:
    found = check_against_facts("The gate is red.", ["The gate is green."], embedder)
    assert [claim.verdict for claim in found.claims] == ["contradicted"]
    assert found.claims[0].reasons
