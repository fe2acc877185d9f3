"""Compare two systems on the same questions, and check the conditions of a gate.

Two runs in → for every measure the difference with its interval and a verdict, and the questions
that changed most, with what the stages of both did with their targets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree as ET

import numpy as np

from ragstone.errors import SettingsError
from ragstone.evaluate.metrics import (
    ANSWER_MEASURES,
    COST_MEASURES,
    JUDGE_MEASURES,
    RANKING_MEASURES,
    Interval,
    paired_bootstrap,
)
from ragstone.evaluate.run import Run
from ragstone.evaluate.summary import Summary, choose_main_measure, measure_run
from ragstone.settings import PRESETS, Settings, load_settings

Verdict: TypeAlias = Literal["better", "worse", "no difference"]
# A smaller difference of two values counts as none.
_EQUAL = 1e-9
# With fewer changed questions, all in one direction happens by chance in more than 5 % of cases
# (sign test: 2 / 2^5 = 6 %), while their bootstrap interval can be arbitrarily narrow.
_MIN_CHANGED = 6
# The sections that a preset sets. A ragstone.toml in the folder must not change both sides alike.
_PRESET_SECTIONS = ("preset", "understand", "retrieve", "refine", "ground", "check")


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of two systems: means, mean difference, its interval, wins and losses."""

    measure: str
    before: float
    after: float
    mean: float
    interval: Interval
    wins: int
    losses: int
    ties: int
    lower_is_better: bool = False

    @property
    def verdict(self) -> Verdict:
        """A difference needs a 95 % interval without 0, and enough changed questions."""
        low, high = self.interval
        if low <= 0 <= high or self.wins + self.losses < _MIN_CHANGED:
            return "no difference"
        return "better" if (low > 0) != self.lower_is_better else "worse"

    def as_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "before": self.before,
            "after": self.after,
            "difference": self.mean,
            "low": self.interval[0],
            "high": self.interval[1],
            "wins": self.wins,
            "losses": self.losses,
            "ties": self.ties,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """A question on which the two differ, and what the stages of both did with its targets."""

    id: str
    text: str
    before: float
    after: float
    steps: tuple[tuple[str, str, str], ...]
    """Target, its steps in the first system, its steps in the second."""

    def as_dict(self) -> dict[str, Any]:
        ways = [{"target": target, "before": old, "after": new} for target, old, new in self.steps]
        return {
            "id": self.id,
            "question": self.text,
            "before": self.before,
            "after": self.after,
            "ways": ways,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two systems."""

    before: str
    after: str
    dataset: str
    questions: int
    measure: str
    """The measure of the verdict."""
    differences: tuple[Difference, ...]
    changed: tuple[ChangedQuestion, ...]

    def difference(self, measure: str) -> Difference | None:
        return next((one for one in self.differences if one.measure == measure), None)

    @property
    def sentence(self) -> str:
        main = self.difference(self.measure)
        if main is None:
            return "Nothing was measured on both sides."
        low, high = main.interval
        figures = f"{main.mean:+.4f} {self.measure}, 95 % {low:+.4f} to {high:+.4f}"
        if main.wins == main.losses == 0:
            return f"No difference: {self.measure} is equal on all {main.ties} questions."
        if main.verdict == "no difference":
            count = main.wins + main.losses + main.ties
            return f"No difference that {count} questions can show: {figures}."
        return f"{self.after} is {main.verdict} than {self.before}: {figures}."

    def as_dict(self) -> dict[str, Any]:
        main = self.difference(self.measure)
        return {
            "before": self.before,
            "after": self.after,
            "dataset": self.dataset,
            "questions": self.questions,
            "measure": self.measure,
            "verdict": main.verdict if main else "no difference",
            "sentence": self.sentence,
            "differences": [one.as_dict() for one in self.differences],
            "changed": [one.as_dict() for one in self.changed],
        }


def compare_runs(before: Run, after: Run, *, max_changed: int = 20) -> Comparison:
    """Compare every measure that both runs have."""
    old, new = measure_run(before), measure_run(after)
    differences = tuple(
        _compute_difference(name, old[name], new[name])
        for name in old
        if name in new and set(old[name]) & set(new[name])
    )
    measure = choose_main_measure({one.measure: {} for one in differences})
    changed = _find_changed_questions(before, after, old, new, measure)[:max_changed]
    return Comparison(
        before.name,
        after.name,
        before.dataset.name,
        len(before.outcomes),
        measure,
        differences,
        tuple(changed),
    )


def _compute_difference(
    name: str, old: Mapping[str, float], new: Mapping[str, float]
) -> Difference:
    shared = [key for key in old if key in new]
    first = np.array([old[key] for key in shared])
    second = np.array([new[key] for key in shared])
    gap = second - first
    lower_is_better = name in COST_MEASURES
    gains = gap * (-1 if lower_is_better else 1)
    return Difference(
        name,
        before=float(first.mean()),
        after=float(second.mean()),
        mean=float(gap.mean()),
        interval=paired_bootstrap(second, first),
        wins=int((gains > _EQUAL).sum()),
        losses=int((gains < -_EQUAL).sum()),
        ties=int((np.abs(gap) <= _EQUAL).sum()),
        lower_is_better=lower_is_better,
    )


def _find_changed_questions(
    before: Run, after: Run, old: Mapping[str, Any], new: Mapping[str, Any], measure: str
) -> list[ChangedQuestion]:
    """Return the questions whose value changed, the largest losses and gains first."""
    if not measure:
        return []
    texts = {question.id: question.text for question in before.dataset.questions}
    values = {
        key: (old[measure][key], new[measure][key]) for key in old[measure] if key in new[measure]
    }
    changed = [key for key, (a, b) in values.items() if abs(b - a) > _EQUAL]
    changed.sort(key=lambda key: (values[key][1] - values[key][0], key))
    first, second = before.by_id, after.by_id
    questions = []
    for key in _alternate_ends(changed):
        steps = tuple(
            (
                target,
                describe_steps(taken),
                describe_steps(second[key].target_steps.get(target, ())),
            )
            for target, taken in first[key].target_steps.items()
        )
        questions.append(ChangedQuestion(key, texts[key], *values[key], steps))
    return questions


def _alternate_ends(keys: Sequence[str]) -> list[str]:
    """Order as worst loss, best gain, second loss, second gain …"""
    half = (len(keys) + 1) // 2
    losses, gains = keys[:half], keys[half:][::-1]
    mixed = [key for pair in zip(losses, gains, strict=False) for key in pair]
    return [*mixed, *losses[len(gains) :]]


def describe_steps(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return e.g. `semantic 3, keyword –, fuse 2, filter dropped it: Similarity below 0.1.`"""
    if not steps:
        return "not found by any stage"
    parts: list[str] = []
    for step in steps:
        stage = str(step["stage"]).rpartition(".")[2]
        if step["outcome"] == "dropped":
            return ", ".join([*parts, f"{stage} dropped it: {step['reason']}"])
        parts.append(f"{stage} {step['rank'] or '–'}")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two systems: its name and settings."""

    name: str
    settings: Settings


def read_side(text: str, *, flags: Mapping[str, Any]) -> Side:
    """Load a preset, a settings file or a data directory, with changes: `balanced,RAG_TOP_K=5`."""
    name, *changes = text.split(",")
    values = dict(flags)
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise SettingsError(
                f"The change '{change}' of '{text}' has no value.",
                hint="Write e.g. balanced,RAG_TOP_K=5.",
            )
        values[key.strip()] = value.strip()
    path = Path(name)
    if name in PRESETS:
        flags = {**values, "preset": name}
        return Side(text, load_settings(flags=flags, ignored_sections=_PRESET_SECTIONS).settings)
    if path.suffix == ".toml":
        return Side(text, load_settings(flags=values, config_file=path).settings)
    if path.is_dir():
        return Side(text, load_settings(flags={**values, "data.directory": path}).settings)
    raise SettingsError(
        f"Unknown system '{name}': not a preset, a settings file or a data directory.",
        hint=f"Presets: {', '.join(PRESETS)}. A settings file ends in .toml.",
    )


MEASURES = (*RANKING_MEASURES, *ANSWER_MEASURES, *JUDGE_MEASURES, *COST_MEASURES)
_RUN_MEASURES = ("aurc", "ece")
_CONDITION = re.compile(
    r"\s*(?P<measure>[\w@]+)\s*(?:(?P<sign>[<>])\s*(?P<bound>[-\d.]+)"
    r"|(?P<worse>worse)(?:\s+by\s+(?P<by>[\d.]+))?)\s*"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of --fail-if: with a sign about one mean, without one about a difference."""

    text: str
    measure: str
    sign: str = ""
    number: float | None = None


def parse_condition(text: str, *, systems: int = 2) -> Condition:
    """Parse a condition for one system or for two; refuse a bad one before anything is asked."""
    match = _CONDITION.fullmatch(text)
    hint = "Write 'ndcg@10 < 0.6', 'ndcg@10 worse' or 'ndcg@10 worse by 0.01'."
    if match is None:
        raise SettingsError(f"Invalid condition '--fail-if {text}'.", hint=hint)
    measure = match["measure"]
    if measure not in MEASURES:
        raise SettingsError(
            f"Unknown measure '{measure}' in '--fail-if {text}'.",
            hint=f"Use one of: {', '.join(MEASURES)}.",
        )
    number = match["bound"] or match["by"]
    try:
        value = float(number) if number else None
    except ValueError as error:
        raise SettingsError(
            f"Invalid number '{number}' in '--fail-if {text}'.", hint=hint
        ) from error
    if systems == 1 and not match["sign"]:
        raise SettingsError(
            f"'--fail-if {text}' compares two systems.", hint="Use it with: ragstone compare A B"
        )
    if systems == 2 and measure in _RUN_MEASURES:
        raise SettingsError(
            f"'--fail-if {text}' cannot compare two systems: {measure} is a figure of a whole run.",
            hint=f"Use it with: ragstone eval --fail-if '{measure} > 0.1'",
        )
    return Condition(text, measure, match["sign"] or "", value)


def check_conditions(conditions: Sequence[Condition], summary: Summary) -> list[str]:
    """Return a sentence for each condition that holds for one run."""
    failed = []
    for one in conditions:
        figure = summary.figure(one.measure)
        if figure is None:
            failed.append(f"{one.text}: {one.measure} was not measured.")
        elif _is_met(figure.mean, one):
            failed.append(f"{one.text}: {one.measure} is {figure.mean:.4f}.")
    return failed


def check_comparison(conditions: Sequence[Condition], comparison: Comparison) -> list[str]:
    """Return a sentence for each condition that holds for the second of two systems."""
    failed = []
    for one in conditions:
        difference = comparison.difference(one.measure)
        if difference is None:
            failed.append(f"{one.text}: {one.measure} was not measured.")
        elif one.sign:
            if _is_met(difference.after, one):
                failed.append(f"{one.text}: {one.measure} is {difference.after:.4f}.")
        elif _is_worse(difference, one.number):
            low, high = difference.interval
            failed.append(
                f"{one.text}: {one.measure} went from {difference.before:.4f} to "
                f"{difference.after:.4f} ({difference.mean:+.4f}, 95 % {low:+.4f} to {high:+.4f})."
            )
    return failed


def _is_met(value: float, condition: Condition) -> bool:
    assert condition.number is not None
    return value < condition.number if condition.sign == "<" else value > condition.number


def _is_worse(difference: Difference, by: float | None) -> bool:
    """Without a number: worse beyond chance. With one: the mean is worse by more than that."""
    if by is None:
        return difference.verdict == "worse"
    return difference.mean * (-1 if difference.lower_is_better else 1) < -by


def render_junit(comparison: Comparison, conditions: Sequence[str], failed: Sequence[str]) -> str:
    """Render the comparison as JUnit XML. Each of `failed` begins with its condition."""
    messages = {sentence.partition(":")[0]: sentence for sentence in failed}
    suite = ET.Element(
        "testsuite",
        name=f"ragstone compare {comparison.before} {comparison.after}",
        tests=str(len(conditions) + len(comparison.differences)),
        failures=str(len(messages)),
        errors="0",
        skipped="0",
    )
    for condition in conditions:
        case = ET.SubElement(suite, "testcase", classname="gate", name=condition)
        if condition in messages:
            ET.SubElement(case, "failure", message=messages[condition]).text = comparison.sentence
    for one in comparison.differences:
        case = ET.SubElement(suite, "testcase", classname=comparison.dataset, name=one.measure)
        low, high = one.interval
        ET.SubElement(case, "system-out").text = (
            f"{one.before:.4f} -> {one.after:.4f} ({one.mean:+.4f}, 95 % {low:+.4f} to "
            f"{high:+.4f}); {one.wins} better, {one.losses} worse, {one.ties} equal: {one.verdict}"
        )
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
