"""Summarise a run: outcomes in → each measure by question, means with intervals, the curves of
abstention, calibration and threshold, and the costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ragstone.evaluate.datasets import Question
from ragstone.evaluate.metrics import (
    ANSWER_MEASURES,
    JUDGE_MEASURES,
    RANKING_MEASURES,
    Interval,
    bootstrap_interval,
    containment,
    exact_match,
    measure_rankings,
    token_f1,
)
from ragstone.evaluate.run import Outcome, Run

ByQuestion: TypeAlias = dict[str, dict[str, float]]
"""measure → question → value."""

_COSTS = ("latency_ms", "cpu_ms", "input_tokens", "output_tokens", "cost_usd")
# An answer with this F1 to a reference counts as right.
_MIN_RIGHT_F1 = 0.5
_BINS = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of a run: its mean over `count` questions and the 95 % interval."""

    name: str
    mean: float
    interval: Interval
    count: int

    @property
    def has_interval(self) -> bool:
        """False for a figure of the run as a whole."""
        return self.name not in ("aurc", "ece")


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run."""

    figures: tuple[Figure, ...]
    risk_coverage: tuple[tuple[float, float], ...]
    reliability: tuple[tuple[float, float, int], ...]
    """Mean confidence, share right and number of answers, bin by bin."""
    stages: Mapping[str, tuple[float, float]]
    """Median and 95th percentile of each stage, in milliseconds."""
    errors: int

    def figure(self, name: str) -> Figure | None:
        return next((one for one in self.figures if one.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "metrics": {
                one.name: {
                    "mean": round(one.mean, 6),
                    "low": round(one.interval[0], 6),
                    "high": round(one.interval[1], 6),
                    "questions": one.count,
                }
                for one in self.figures
            },
            "risk_coverage": [list(point) for point in self.risk_coverage],
            "reliability": [list(row) for row in self.reliability],
            "stages_ms": {
                name: {"p50": low, "p95": high} for name, (low, high) in self.stages.items()
            },
            "errors": self.errors,
        }


def measure_run(run: Run) -> ByQuestion:
    """Compute every measure that applies, by question."""
    questions = {question.id: question for question in run.dataset.questions}
    found: ByQuestion = {}
    grades = {one.id: one.grades for one in questions.values() if one.grades}
    if grades:
        found.update(measure_rankings(grades, {one.id: one.ranking for one in run.outcomes}))
    for outcome in run.outcomes:
        question = questions[outcome.id]
        wanted = run.options.answers or question.given_answer is not None
        values = (
            _measure_failure(question)
            if outcome.error and wanted
            else _measure_answer(question, outcome)
        )
        if (
            question.given_answer is None and not outcome.error
        ):  # another system's costs are not known
            values |= {
                name: float(getattr(outcome, name))
                for name in _COSTS
                if getattr(outcome, name) is not None
            }
        for name, value in values.items():
            found.setdefault(name, {})[outcome.id] = value
    if not any(found.get("input_tokens", {}).values()):
        for name in ("input_tokens", "output_tokens"):
            found.pop(name, None)
    order = (*RANKING_MEASURES, *ANSWER_MEASURES, *JUDGE_MEASURES, *_COSTS)
    return {name: found[name] for name in order if name in found}


def _measure_failure(question: Question) -> dict[str, float]:
    """Count a failed question as wrong: left out, a broken system would look good."""
    values = {} if question.answerable is None else {"decided_right": 0.0}
    if question.answers and question.answerable is not False:
        values |= dict.fromkeys(("exact_match", "f1", "containment"), 0.0)
    return values


def _measure_answer(question: Question, outcome: Outcome) -> dict[str, float]:
    if outcome.answer is None:
        return {}
    values: dict[str, float] = dict(outcome.judge_scores)
    answered = outcome.status == "answered"
    if question.answerable is not None:
        values["decided_right"] = float(answered == question.answerable)
    if answered:
        values["groundedness"] = outcome.groundedness
        values["citation_precision"] = outcome.citation_precision
        values["citation_recall"] = outcome.citation_recall
        if question.targets and outcome.cited:
            labels = {target.label for target in question.targets}
            values["cited_relevant"] = len(labels.intersection(outcome.cited)) / len(outcome.cited)
    if question.answers and question.answerable is not False:
        text = outcome.answer if answered else ""
        # A short reference is compared with the highlighted words.
        short = (outcome.short or text) if answered else ""
        values["exact_match"] = exact_match(short, question.answers)
        values["f1"] = max(token_f1(short, question.answers), token_f1(text, question.answers))
        values["containment"] = containment(text, question.answers)
    return values


def is_right(question: Question, outcome: Outcome) -> bool | None:
    """Return whether an answer is right; None if the dataset does not know."""
    if question.answerable is False:
        return False
    if not question.answers or outcome.answer is None:
        return None
    texts = (outcome.answer, outcome.short)
    return bool(
        containment(outcome.answer, question.answers)
        or max(token_f1(one, question.answers) for one in texts) >= _MIN_RIGHT_F1
    )


def summarise_run(run: Run) -> Summary:
    found = measure_run(run)
    figures = [_compute_figure(name, list(values.values())) for name, values in found.items()]
    judged = _grade_answers(run)
    curve = risk_coverage_curve(judged, total=sum(one.answer is not None for one in run.outcomes))
    bins = reliability_bins(judged)
    if curve:
        area = float(np.mean([risk for _, risk in curve]))
        figures.append(Figure("aurc", area, (area, area), len(judged)))
    if bins:
        error = calibration_error(bins)
        figures.append(Figure("ece", error, (error, error), len(judged)))
    errors = sum(bool(one.error) for one in run.outcomes)
    return Summary(tuple(figures), curve, bins, _stage_percentiles(run.outcomes), errors)


def _compute_figure(name: str, values: Sequence[float]) -> Figure:
    numbers = np.array(values, dtype=np.float64)
    return Figure(name, float(numbers.mean()), bootstrap_interval(numbers), len(numbers))


def _grade_answers(run: Run) -> list[tuple[float, bool]]:
    """Return confidence and correctness of every answer that the dataset can judge."""
    questions = {question.id: question for question in run.dataset.questions}
    judged = []
    for outcome in run.outcomes:
        if outcome.status == "answered":
            right = is_right(questions[outcome.id], outcome)
            if right is not None:
                judged.append((outcome.confidence, right))
    return judged


def risk_coverage_curve(
    judged: Sequence[tuple[float, bool]], *, total: int
) -> tuple[tuple[float, float], ...]:
    """Return (share answered, share of those wrong) when only the most confident answers are
    given, from one to all (El-Yaniv and Wiener 2010)."""
    ordered = sorted(judged, key=lambda pair: -pair[0])
    wrong = 0
    curve = []
    for count, (_, right) in enumerate(ordered, start=1):
        wrong += not right
        curve.append((round(count / max(1, total), 4), round(wrong / count, 4)))
    return tuple(curve)


def reliability_bins(judged: Sequence[tuple[float, bool]]) -> tuple[tuple[float, float, int], ...]:
    """Return ten bins of equal width: mean confidence, share right, count."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for sure, right in judged:
        bins.setdefault(min(_BINS - 1, int(sure * _BINS)), []).append((sure, right))
    return tuple(
        (
            round(sum(sure for sure, _ in found) / len(found), 4),
            round(sum(right for _, right in found) / len(found), 4),
            len(found),
        )
        for _, found in sorted(bins.items())
    )


def calibration_error(bins: Sequence[tuple[float, float, int]]) -> float:
    """Return the expected calibration error: the mean gap of confidence and share right."""
    total = sum(count for _, _, count in bins)
    return sum(count * abs(sure - right) for sure, right, count in bins) / total if total else 0.0


def _stage_percentiles(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
    times: dict[str, list[float]] = {}
    for outcome in outcomes:
        for stage, milliseconds in outcome.stages.items():
            times.setdefault(stage, []).append(milliseconds)
    return {
        stage: (
            round(float(np.percentile(found, 50)), 2),
            round(float(np.percentile(found, 95)), 2),
        )
        for stage, found in times.items()
    }


def format_measure(name: str, value: float) -> str:
    return f"{value:.1f}" if name.endswith(("_ms", "_tokens")) else f"{value:.4f}"


def choose_main_measure(found: ByQuestion) -> str:
    """Return the measure that decides the verdict: the first that was measured."""
    for name in ("ndcg@10", "containment", "decided_right", "groundedness"):
        if name in found:
            return name
    return next(iter(found), "")


_THRESHOLDS = tuple(round(step * 0.025, 3) for step in range(33))
# A recommended threshold may lose this share of the relevant hits.
MAX_LOST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """The shares of hits that one threshold keeps."""

    threshold: float
    relevant_kept: float
    others_kept: float


def measure_thresholds(run: Run) -> list[ThresholdPoint]:
    """Return the curve of a run; empty if it has no judged hits with a similarity."""
    relevant: list[float] = []
    others: list[float] = []
    labels = {one.id: set(one.grades) for one in run.dataset.questions}
    for outcome in run.outcomes:
        for label, _, similar in outcome.hits[:10]:
            if similar is not None:
                (relevant if label in labels[outcome.id] else others).append(similar)
    return compute_threshold_curve(relevant, others)


def compute_threshold_curve(
    relevant: Sequence[float], others: Sequence[float]
) -> list[ThresholdPoint]:
    """Return the share of relevant and of other similarities that each threshold keeps."""
    if not relevant:
        return []
    good, bad = np.array(relevant), np.array(others)
    return [
        ThresholdPoint(
            step, float((good >= step).mean()), float((bad >= step).mean()) if others else 0.0
        )
        for step in _THRESHOLDS
    ]


def recommend_threshold(
    curve: Sequence[ThresholdPoint], *, max_lost_share: float = MAX_LOST_SHARE
) -> float:
    """Return the highest threshold that loses at most this share of the relevant hits."""
    fitting = [one.threshold for one in curve if one.relevant_kept >= 1 - max_lost_share]
    return max(fitting, default=0.0)
