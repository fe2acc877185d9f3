"""Two systems on the same questions: what changed, by how much, how surely, and why.

Two runs in → for every measure the difference with its interval and a verdict, and the questions
that changed most with the way of their targets through the stages of both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from xml.etree import ElementTree as ET

import numpy as np

from ragstone.errors import SettingsError
from ragstone.evaluate.metrics import ANSWER, COSTS, JUDGED, RANKING, Interval, paired_bootstrap
from ragstone.evaluate.run import Run
from ragstone.evaluate.summary import main_measure, measures
from ragstone.settings import PRESETS, Settings, load_settings

if TYPE_CHECKING:
    from ragstone.evaluate.summary import Summary


STEPS = tuple(round(step * 0.025, 3) for step in range(33))
# A threshold may cost this share of the relevant hits.
MOST_LOST = 0.01


@dataclass(frozen=True, slots=True)
class Kept:
    """What one threshold keeps, as shares."""

    threshold: float
    relevant_kept: float
    others_kept: float


def threshold_curve(run: Run) -> list[Kept]:
    """One line per step; empty when the run has no judged hits with a similarity."""
    relevant: list[float] = []
    others: list[float] = []
    labels = {one.id: set(one.grades) for one in run.dataset.questions}
    for outcome in run.outcomes:
        for label, _, similar in outcome.hits[:10]:
            if similar is not None:
                (relevant if label in labels[outcome.id] else others).append(similar)
    return curve_of(relevant, others)


def curve_of(relevant: Sequence[float], others: Sequence[float]) -> list[Kept]:
    if not relevant:
        return []
    good, bad = np.array(relevant), np.array(others)
    return [
        Kept(step, float((good >= step).mean()), float((bad >= step).mean()) if others else 0.0)
        for step in STEPS
    ]


def recommended(curve: Sequence[Kept], *, most_lost: float = MOST_LOST) -> float:
    """The highest threshold that loses at most this share of the relevant hits."""
    fitting = [one.threshold for one in curve if one.relevant_kept >= 1 - most_lost]
    return max(fitting, default=0.0)


Verdict: TypeAlias = Literal["better", "worse", "no difference"]
# Below this two values of one question count as equal.
_EQUAL = 1e-9
# With fewer questions that differ, all of them in one direction is no rarer than 5 % (sign test:
# 2 / 2^5 = 6 %), while their bootstrap can be as narrow as one likes.
_FEWEST_CHANGED = 6
# What a preset is about. A ragstone.toml that lies around must not change both sides alike.
_OF_A_PRESET = ("preset", "understand", "retrieve", "refine", "ground", "check")


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
        """Beyond chance: the 95 % interval does not hold 0, and enough questions differ."""
        low, high = self.interval
        if low <= 0 <= high or self.wins + self.losses < _FEWEST_CHANGED:
            return "no difference"
        return "better" if (low > 0) != self.lower_is_better else "worse"

    def as_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure, "before": self.before, "after": self.after,
            "difference": self.mean, "low": self.interval[0], "high": self.interval[1],
            "wins": self.wins, "losses": self.losses, "ties": self.ties, "verdict": self.verdict,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """A question on which the two differ, and what each stage of both said of its targets."""

    id: str
    text: str
    before: float
    after: float
    ways: tuple[tuple[str, str, str], ...]
    """Target, its way in the first system, its way in the second."""

    def as_dict(self) -> dict[str, Any]:
        ways = [{"target": target, "before": old, "after": new} for target, old, new in self.ways]
        return {"id": self.id, "question": self.text, "before": self.before, "after": self.after,
                "ways": ways}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is different between two systems."""

    before: str
    after: str
    dataset: str
    questions: int
    measure: str
    """The one that the verdict is about."""
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
            "before": self.before, "after": self.after, "dataset": self.dataset,
            "questions": self.questions, "measure": self.measure,
            "verdict": main.verdict if main else "no difference", "sentence": self.sentence,
            "differences": [one.as_dict() for one in self.differences],
            "changed": [one.as_dict() for one in self.changed],
        }  # fmt: skip


def compared(before: Run, after: Run, *, most_changed: int = 20) -> Comparison:
    old, new = measures(before), measures(after)
    differences = tuple(
        _difference(name, old[name], new[name])
        for name in old
        if name in new and set(old[name]) & set(new[name])
    )
    measure = main_measure({one.measure: {} for one in differences})
    changed = _changed(before, after, old, new, measure)[:most_changed]
    return Comparison(
        before.name, after.name, before.dataset.name, len(before.outcomes), measure, differences,
        tuple(changed),
    )  # fmt: skip


def _difference(name: str, old: Mapping[str, float], new: Mapping[str, float]) -> Difference:
    shared = [key for key in old if key in new]
    first = np.array([old[key] for key in shared])
    second = np.array([new[key] for key in shared])
    gap = second - first
    lower = name in COSTS
    gains = gap * (-1 if lower else 1)
    return Difference(
        name, float(first.mean()), float(second.mean()), float(gap.mean()),
        paired_bootstrap(second, first), int((gains > _EQUAL).sum()), int((gains < -_EQUAL).sum()),
        int((np.abs(gap) <= _EQUAL).sum()), lower,
    )  # fmt: skip


def _changed(
    before: Run, after: Run, old: Mapping[str, Any], new: Mapping[str, Any], measure: str
) -> list[ChangedQuestion]:
    """The questions whose value moved, losses first, the largest first."""
    if not measure:
        return []
    texts = {question.id: question.text for question in before.dataset.questions}
    values = {key: (old[measure][key], new[measure][key]) for key in old[measure]
              if key in new[measure]}  # fmt: skip
    moved = [key for key, (a, b) in values.items() if abs(b - a) > _EQUAL]
    moved.sort(key=lambda key: (values[key][1] - values[key][0], key))
    first, second = before.by_id, after.by_id
    return [
        ChangedQuestion(
            key, texts[key], *values[key],
            tuple(
                (target, way_in_words(first[key].ways.get(target, ())),
                 way_in_words(second[key].ways.get(target, ())))
                for target in first[key].ways
            ),
        )
        for key in _both_ends(moved)
    ]  # fmt: skip


def _both_ends(moved: Sequence[str]) -> list[str]:
    """The worst loss, the best gain, the next loss, the next gain …"""
    half = (len(moved) + 1) // 2
    losses, gains = moved[:half], moved[half:][::-1]
    mixed = [key for pair in zip(losses, gains, strict=False) for key in pair]
    return [*mixed, *losses[len(gains) :]]


def way_in_words(way: Sequence[Mapping[str, Any]]) -> str:
    """`semantic 3, keyword –, fuse 2, filter dropped: Its similarity is below 0.1.`"""
    if not way:
        return "never seen"
    said: list[str] = []
    for step in way:
        stage = str(step["stage"]).rpartition(".")[2]
        if step["outcome"] == "dropped":
            return ", ".join([*said, f"{stage} dropped it: {step['reason']}"])
        said.append(f"{stage} {step['rank'] or '–'}")
    return ", ".join(said)


@dataclass(frozen=True, slots=True)
class Side:
    """One of two systems: a name and its settings."""

    name: str
    settings: Settings


def read_side(written: str, *, flags: Mapping[str, Any]) -> Side:
    """A preset, a settings file or a data directory; changes may follow: `balanced,RAG_TOP_K=5`."""
    name, *changes = written.split(",")
    values = dict(flags)
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise SettingsError(
                f"'{written}' has a change without a value.",
                hint="Write balanced,RAG_TOP_K=5, for example.",
            )
        values[key.strip()] = value.strip()
    path = Path(name)
    if name in PRESETS:
        flags = {**values, "preset": name}
        return Side(written, load_settings(flags=flags, file_without=_OF_A_PRESET).settings)
    if path.suffix == ".toml":
        return Side(written, load_settings(flags=values, config_file=path).settings)
    if path.is_dir():
        return Side(written, load_settings(flags={**values, "data.directory": path}).settings)
    raise SettingsError(
        f"'{name}' is no preset, no settings file and no data directory.",
        hint=f"Presets: {', '.join(PRESETS)}. A settings file ends in .toml.",
    )


MEASURES = (*RANKING, *ANSWER, *JUDGED, *COSTS)
_OF_A_WHOLE_RUN = ("aurc", "ece")
_WRITTEN = re.compile(
    r"\s*(?P<measure>[\w@]+)\s*(?:(?P<sign>[<>])\s*(?P<bound>[-\d.]+)"
    r"|(?P<worse>worse)(?:\s+by\s+(?P<by>[\d.]+))?)\s*"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """`sign` compares the mean with `number`; `worse` compares two systems."""

    written: str
    measure: str
    sign: str = ""
    number: float | None = None

    @property
    def compares(self) -> bool:
        return not self.sign


def parse_condition(written: str, *, systems: int = 2) -> Condition:
    """Refused before anything is asked: what makes no sense, for one system or for two."""
    match = _WRITTEN.fullmatch(written)
    hint = "Write 'ndcg@10 < 0.6', 'ndcg@10 worse' or 'ndcg@10 worse by 0.01'."
    if match is None:
        raise SettingsError(f"'--fail-if {written}' cannot be understood.", hint=hint)
    measure = match["measure"]
    if measure not in MEASURES:
        raise SettingsError(
            f"'--fail-if {written}' names a measure that does not exist.",
            hint=f"There are: {', '.join(MEASURES)}.",
        )
    number = match["bound"] or match["by"]
    try:
        value = float(number) if number else None
    except ValueError as error:
        raise SettingsError(f"'--fail-if {written}' has no number.", hint=hint) from error
    if systems == 1 and not match["sign"]:
        raise SettingsError(
            f"'--fail-if {written}' compares two systems.",
            hint="Use it with: ragstone compare A B",
        )
    if systems == 2 and measure in _OF_A_WHOLE_RUN:
        raise SettingsError(
            f"'--fail-if {written}' names a figure of a whole run, which has no value per question "
            "to compare.",
            hint=f"Use it with: ragstone eval --fail-if '{measure} > 0.1'",
        )
    return Condition(written, measure, match["sign"] or "", value)


def check_conditions(conditions: Sequence[Condition], summary: Summary) -> list[str]:
    """A sentence for every condition that holds for one run."""
    failed = []
    for one in conditions:
        figure = summary.figure(one.measure)
        if figure is None:
            failed.append(f"{one.written}: {one.measure} was not measured.")
        elif _holds(figure.mean, one):
            failed.append(f"{one.written}: {one.measure} is {figure.mean:.4f}.")
    return failed


def check_comparison(conditions: Sequence[Condition], comparison: Comparison) -> list[str]:
    """A sentence for every condition that holds for the second of two systems."""
    failed = []
    for one in conditions:
        found = comparison.difference(one.measure)
        if found is None:
            failed.append(f"{one.written}: {one.measure} was not measured.")
        elif not one.compares:
            if _holds(found.after, one):
                failed.append(f"{one.written}: {one.measure} is {found.after:.4f}.")
        elif _is_worse(found, one.number):
            low, high = found.interval
            failed.append(
                f"{one.written}: {one.measure} went from {found.before:.4f} to {found.after:.4f} "
                f"({found.mean:+.4f}, 95 % {low:+.4f} to {high:+.4f})."
            )
    return failed


def _holds(value: float, condition: Condition) -> bool:
    assert condition.number is not None
    return value < condition.number if condition.sign == "<" else value > condition.number


def _is_worse(found: Difference, by: float | None) -> bool:
    """Without a number: worse beyond chance; with one: the mean is worse by more than that."""
    if by is None:
        return found.verdict == "worse"
    return found.mean * (-1 if found.lower_is_better else 1) < -by


def junit_xml(comparison: Comparison, conditions: Sequence[str], failed: Sequence[str]) -> str:
    """`failed` are sentences that begin with the condition they are about."""
    broken = {sentence.partition(":")[0]: sentence for sentence in failed}
    suite = ET.Element(
        "testsuite", name=f"ragstone compare {comparison.before} {comparison.after}",
        tests=str(len(conditions) + len(comparison.differences)), failures=str(len(broken)),
        errors="0", skipped="0",
    )  # fmt: skip
    for written in conditions:
        case = ET.SubElement(suite, "testcase", classname="gate", name=written)
        if written in broken:
            ET.SubElement(case, "failure", message=broken[written]).text = comparison.sentence
    for one in comparison.differences:
        case = ET.SubElement(suite, "testcase", classname=comparison.dataset, name=one.measure)
        low, high = one.interval
        ET.SubElement(case, "system-out").text = (
            f"{one.before:.4f} -> {one.after:.4f} ({one.mean:+.4f}, 95 % {low:+.4f} to "
            f"{high:+.4f}); {one.wins} better, {one.losses} worse, {one.ties} equal: {one.verdict}"
        )
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
