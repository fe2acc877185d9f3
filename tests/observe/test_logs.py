"""A flood of failures is sampled; what works is always logged, as JSON or as text."""

from __future__ import annotations

import io
import logging
import sys
from types import SimpleNamespace
from typing import Literal

import pytest
import structlog

from ragstone.observe.logs import FloodFilter, configure_logging
from ragstone.settings.services import ObserveSettings


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    # Not `time` itself: an event loop that runs meanwhile would sleep for hours.
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("ragstone.observe.logs.time", clock)
    return now


def feed(flood: FloodFilter, times: int, **event: object) -> list[dict[str, object]]:
    written: list[dict[str, object]] = []
    for _ in range(times):
        try:
            written.append(dict(flood(None, "info", {"event": "request", **event})))
        except structlog.DropEvent:
            continue
    return written


def test_refused_requests_are_sampled_and_counted(clock: list[float]) -> None:
    flood = FloodFilter(5)
    assert len(feed(flood, 1000, status=429)) == 5
    clock[0] += 1
    assert feed(flood, 2, status=429) == [
        {"event": "request", "status": 429, "left_out": 995},
        {"event": "request", "status": 429},
    ]


def test_requests_that_succeed_are_all_logged(clock: list[float]) -> None:
    assert len(feed(FloodFilter(5), 1000, status=200)) == 1000


def test_another_failure_is_not_hidden_by_a_flood(clock: list[float]) -> None:
    flood = FloodFilter(5)
    feed(flood, 1000, status=429)
    assert len(feed(flood, 1, status=500)) == 1


def test_lines_of_libraries_are_sampled_by_place(clock: list[float]) -> None:
    flood = FloodFilter(5)

    def record(level: int, line: int) -> logging.LogRecord:
        return logging.LogRecord("asyncio", level, "x.py", line, "out of files", (), None)

    assert sum(flood.filter(record(logging.ERROR, 1)) for _ in range(50)) == 5
    assert flood.filter(record(logging.ERROR, 2))
    assert all(flood.filter(record(logging.INFO, 1)) for _ in range(50))
    clock[0] += 1
    last = record(logging.ERROR, 1)
    assert flood.filter(last)
    assert vars(last)["left_out"] == 45


@pytest.mark.parametrize(
    ("chosen", "is_terminal", "is_json"),
    [("auto", True, False), ("auto", False, True), ("json", True, True), ("text", False, False)],
)
def test_logs_are_text_in_a_terminal_and_json_elsewhere(
    chosen: Literal["auto", "json", "text"],
    is_terminal: bool,
    is_json: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    before, level = structlog.get_config(), root.level
    try:
        configure_logging(ObserveSettings(log_format=chosen))
        root.warning("the gate is open")
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            root.exception("it broke")
    finally:
        structlog.configure(**before)
        root.setLevel(level)
    assert stream.getvalue().startswith("{") == is_json
    assert "the gate is open" in stream.getvalue()
    assert "it broke" in stream.getvalue()
    assert "ZeroDivisionError" in stream.getvalue()
    assert "Logging error" not in stream.getvalue()
    assert "division by zero" not in stream.getvalue()
