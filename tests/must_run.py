"""Fail the tests of servers and browsers that would be skipped, e.g. because Redis is missing.

A plug-in of pytest: `TESTS_MUST_RUN=1 make test` loads it, and a release does. Elsewhere a skip is
right: nobody needs five programs to change a line.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

MARKERS = ("browser", "servers")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    is_skip = report.skipped and not hasattr(report, "wasxfail")
    if is_skip and any(item.get_closest_marker(name) for name in MARKERS):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} must run here (TESTS_MUST_RUN is set). {reason}"
    return report
