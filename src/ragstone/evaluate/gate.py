"""Conditions that stop a change: `ndcg@10 < 0.6`, `f1 worse`, `latency_ms worse by 5`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from ragstone.errors import SettingsError
from ragstone.evaluate.compare import Comparison
from ragstone.evaluate.metrics import ANSWER, COSTS, JUDGED, RANKING

if TYPE_CHECKING:
    from ragstone.evaluate.compare import Comparison, Difference
    from ragstone.evaluate.summary import Summary


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
