"""Curves and figures of a run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.evaluate.datasets import Question
from ragstone.evaluate.run import Outcome
from ragstone.evaluate.summary import (
    calibration_error,
    choose_main_measure,
    is_right,
    reliability_bins,
    risk_coverage_curve,
)

judged = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60)


def test_the_surest_answers_come_first() -> None:
    curve = risk_coverage_curve([(0.2, False), (0.9, True), (0.5, True)], total=6)
    assert curve == (
        (pytest.approx(1 / 6, abs=1e-4), 0.0),
        (pytest.approx(1 / 3, abs=1e-4), 0.0),
        (0.5, pytest.approx(1 / 3, abs=1e-4)),
    )


@settings(deadline=None)
@given(judged)
def test_the_last_risk_is_the_share_of_wrong_answers(pairs: list[tuple[float, bool]]) -> None:
    curve = risk_coverage_curve(pairs, total=len(pairs))
    if pairs:
        wrong = sum(not right for _, right in pairs) / len(pairs)
        assert curve[-1] == (1.0, pytest.approx(wrong, abs=1e-4))
    assert sum(count for _, _, count in reliability_bins(pairs)) == len(pairs)
    assert 0 <= calibration_error(reliability_bins(pairs)) <= 1


def test_calibration_is_the_gap_of_confidence_and_rightness() -> None:
    sure_and_wrong = [(0.95, False)] * 4
    assert calibration_error(reliability_bins(sure_and_wrong)) == pytest.approx(0.95)
    honest = [(0.75, True)] * 3 + [(0.75, False)]
    assert calibration_error(reliability_bins(honest)) == pytest.approx(0.0)
    assert calibration_error([]) == 0.0


def test_any_answer_to_an_unanswerable_question_is_wrong() -> None:
    outcome = Outcome("q", answer="It is green.", status="answered")
    assert is_right(Question("q", "?", answerable=False), outcome) is False
    assert is_right(Question("q", "?", answers=("green",)), outcome) is True
    assert is_right(Question("q", "?", answers=("a red door",)), outcome) is False
    assert is_right(Question("q", "?"), outcome) is None


def test_the_main_measure_is_of_the_ranking_where_there_is_one() -> None:
    assert choose_main_measure({"f1": {}, "containment": {}, "ndcg@10": {}}) == "ndcg@10"
    assert choose_main_measure({"f1": {}}) == "f1"
    assert choose_main_measure({}) == ""
