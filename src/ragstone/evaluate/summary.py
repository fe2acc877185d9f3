"""From the outcomes of a run to figures: each measure by question, its mean with an interval, the
curves of abstention and calibration, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ragstone.evaluate.datasets import Question
from ragstone.evaluate.metrics import (
    ANSWER,
    JUDGED,
    RANKING,
    Interval,
    containment,
    exact_match,
    interval,
    ranking_measures,
    token_f1,
)
from ragstone.evaluate.run import Outcome, Run

ByQuestion: TypeAlias = dict[str, dict[str, float]]
"""measure → question → value."""

_COSTS = ("latency_ms", "cpu_ms", "input_tokens", "output_tokens", "cost_usd")
# An answer this close to a reference counts as right.
_RIGHT_F1 = 0.5
_BINS = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of a run: its mean over `count` questions, and how sure that mean is."""

    name: str
    mean: float
    interval: Interval
    count: int

    @property
    def has_interval(self) -> bool:
        """A figure of the run as a whole has none."""
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
                one.name: {"mean": round(one.mean, 6), "low": round(one.interval[0], 6),
                           "high": round(one.interval[1], 6), "questions": one.count}
                for one in self.figures
            },
            "risk_coverage": [list(point) for point in self.risk_coverage],
            "reliability": [list(row) for row in self.reliability],
            "stages_ms": {name: {"p50": low, "p95": high}
                          for name, (low, high) in self.stages.items()},
            "errors": self.errors,
        }  # fmt: skip


def measures(run: Run) -> ByQuestion:
    """Every measure that applies, by question."""
    questions = {question.id: question for question in run.dataset.questions}
    found: ByQuestion = {}
    grades = {one.id: one.grades for one in questions.values() if one.grades}
    if grades:
        found.update(ranking_measures(grades, {one.id: one.ranking for one in run.outcomes}))
    for outcome in run.outcomes:
        question = questions[outcome.id]
        wanted = run.options.answers or question.given is not None
        values = (
            _failed_measures(question)
            if outcome.error and wanted
            else _answer_measures(question, outcome)
        )
        if question.given is None and not outcome.error:  # another system's costs are not known
            values |= {name: float(getattr(outcome, name)) for name in _COSTS
                       if getattr(outcome, name) is not None}  # fmt: skip
        for name, value in values.items():
            found.setdefault(name, {})[outcome.id] = value
    if not any(found.get("input_tokens", {}).values()):
        for name in ("input_tokens", "output_tokens"):
            found.pop(name, None)
    order = (*RANKING, *ANSWER, *JUDGED, *_COSTS)
    return {name: found[name] for name in order if name in found}


def _failed_measures(question: Question) -> dict[str, float]:
    """A question that failed has no right answer: left out, a broken system would look whole."""
    values = {} if question.answerable is None else {"decided_right": 0.0}
    if question.answers and question.answerable is not False:
        values |= dict.fromkeys(("exact_match", "f1", "containment"), 0.0)
    return values


def _answer_measures(question: Question, outcome: Outcome) -> dict[str, float]:
    if outcome.answer is None:
        return {}
    values: dict[str, float] = dict(outcome.judged)
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
        said = outcome.answer if answered else ""
        # The words marked as the answer proper are what a short reference is compared with.
        short = (outcome.short or said) if answered else ""
        values["exact_match"] = exact_match(short, question.answers)
        values["f1"] = max(token_f1(short, question.answers), token_f1(said, question.answers))
        values["containment"] = containment(said, question.answers)
    return values


def is_right(question: Question, outcome: Outcome) -> bool | None:
    """Whether an answer that was given is right; None when nobody can tell."""
    if question.answerable is False:
        return False
    if not question.answers or outcome.answer is None:
        return None
    said = (outcome.answer, outcome.short)
    return bool(
        containment(outcome.answer, question.answers)
        or max(token_f1(one, question.answers) for one in said) >= _RIGHT_F1
    )


def summarised(run: Run) -> Summary:
    found = measures(run)
    figures = [_figure(name, list(values.values())) for name, values in found.items()]
    judged = _answers_judged(run)
    curve = risk_coverage(judged, asked=sum(one.answer is not None for one in run.outcomes))
    bins = reliability(judged)
    if curve:
        area = float(np.mean([risk for _, risk in curve]))
        figures.append(Figure("aurc", area, (area, area), len(judged)))
    if bins:
        error = calibration_error(bins)
        figures.append(Figure("ece", error, (error, error), len(judged)))
    errors = sum(bool(one.error) for one in run.outcomes)
    return Summary(tuple(figures), curve, bins, _stages(run.outcomes), errors)


def _figure(name: str, values: Sequence[float]) -> Figure:
    numbers = np.array(values, dtype=np.float64)
    return Figure(name, float(numbers.mean()), interval(numbers), len(numbers))


def _answers_judged(run: Run) -> list[tuple[float, bool]]:
    """Confidence and rightness of every answer that was given and can be judged."""
    questions = {question.id: question for question in run.dataset.questions}
    judged = []
    for outcome in run.outcomes:
        if outcome.status == "answered":
            right = is_right(questions[outcome.id], outcome)
            if right is not None:
                judged.append((outcome.confidence, right))
    return judged


def risk_coverage(
    judged: Sequence[tuple[float, bool]], *, asked: int
) -> tuple[tuple[float, float], ...]:
    """The share of questions answered and the share of those answers that are wrong, when only
    the surest answers are given, from few to all (El-Yaniv and Wiener 2010)."""
    ordered = sorted(judged, key=lambda pair: -pair[0])
    wrong = 0
    curve = []
    for count, (_, right) in enumerate(ordered, start=1):
        wrong += not right
        curve.append((round(count / max(1, asked), 4), round(wrong / count, 4)))
    return tuple(curve)


def reliability(judged: Sequence[tuple[float, bool]]) -> tuple[tuple[float, float, int], ...]:
    """Ten bins of equal width: mean confidence, share right, count."""
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
    """Expected calibration error: the mean gap of confidence and share right."""
    total = sum(count for _, _, count in bins)
    return sum(count * abs(sure - right) for sure, right, count in bins) / total if total else 0.0


def _stages(outcomes: Sequence[Outcome]) -> dict[str, tuple[float, float]]:
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


def shown(name: str, value: float) -> str:
    return f"{value:.1f}" if name.endswith(("_ms", "_tokens")) else f"{value:.4f}"


def main_measure(found: ByQuestion) -> str:
    """The measure that a verdict is about: the first that there is."""
    for name in ("ndcg@10", "containment", "decided_right", "groundedness"):
        if name in found:
            return name
    return next(iter(found), "")
