"""Overlap counts words and runs of three, as shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.text import measure_support, measure_word_overlap


@given(st.text(), st.text())
def test_shares_lie_between_nought_and_one(claim: str, evidence: str) -> None:
    assert 0 <= measure_support(claim, evidence) <= 1
    assert 0 <= measure_word_overlap(claim, evidence) <= 1
    assert measure_word_overlap(claim, evidence) == pytest.approx(
        measure_word_overlap(evidence, claim)
    )


def test_a_quotation_is_fully_supported() -> None:
    assert measure_support("The gate is green.", "Long ago: the GATE is green, they say.") == 1


def test_the_same_words_in_another_order_are_only_half_supported() -> None:
    assert measure_support("green is the gate", "the gate is green") == pytest.approx(0.5)


def test_nothing_in_common_is_no_support() -> None:
    assert measure_support("It rains.", "The gate, green") == 0
    assert measure_support("", "anything") == 0
    assert measure_word_overlap("", "") == 0


def test_two_words_are_compared_as_words() -> None:
    assert measure_support("green gate", "the gate") == 0.5
