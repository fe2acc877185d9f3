"""A comparison as JUnit XML: one case per measure and per condition, for any CI to show."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from ragstone.evaluate.compare import Comparison


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
