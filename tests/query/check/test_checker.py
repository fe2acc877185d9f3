"""Confidence is a probability: bounded, and higher where evidence and support are better."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.engine import Engine
from ragstone.query.check.checker import calibrate_probability, compute_confidence

SHARE = st.floats(0, 1)


@given(SHARE, SHARE, SHARE)
def test_more_probable_evidence_and_better_support_are_never_less_confident(
    low: float, high: float, grounded: float
) -> None:
    low, high = sorted((low, high))
    assert 0 <= compute_confidence(low, grounded) <= compute_confidence(high, grounded) <= 1
    assert compute_confidence(high, low) <= compute_confidence(high, high)


def test_what_nothing_supports_has_no_confidence() -> None:
    assert compute_confidence(1.0, 0.0) == 0
    assert calibrate_probability(0.9) > calibrate_probability(0.5) > calibrate_probability(0.1)


async def test_an_answer_is_more_confident_than_a_refusal(sample_engine: Engine) -> None:
    known = await sample_engine.ask("What does an adult pay for an evening programme?")
    unknown = await sample_engine.ask("Who won the football World Cup in 1998?")
    assert known.confidence > 0.4
    assert (unknown.status, unknown.confidence) == ("abstained", 0)
