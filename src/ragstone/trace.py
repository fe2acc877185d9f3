"""The record of one query: every stage, when it ran, how long, what went in and came out.

A trace is passed along explicitly; it is not kept in a ContextVar, because an abandoned async
generator cannot reset one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Span:
    """One stage: `counts` are its figures, `notes` what it had to say."""

    stage: str
    started_ms: float
    duration_ms: float = 0.0
    cpu_ms: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str | None = None

    def count(self, **figures: Any) -> None:
        self.counts.update(figures)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "started_ms": round(self.started_ms, 3),
            "duration_ms": round(self.duration_ms, 3),
            "cpu_ms": round(self.cpu_ms, 3),
            "counts": self.counts,
            "notes": list(self.notes),
            "error": self.error,
        }


class Trace:
    """The spans of one query, in the order in which they began."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.started_at = time.time()
        self._zero = time.perf_counter()
        self.spans: list[Span] = []
        self.degraded: list[str] = []

    @contextmanager
    def span(self, stage: str) -> Iterator[Span]:
        """Time a stage; an exception is written down and passes on."""
        begun, cpu = time.perf_counter(), time.thread_time()
        span = Span(stage, (begun - self._zero) * 1000)
        self.spans.append(span)
        try:
            yield span
        except BaseException as error:
            span.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            span.duration_ms = (time.perf_counter() - begun) * 1000
            span.cpu_ms = (time.thread_time() - cpu) * 1000

    def degrade(self, reason: str) -> None:
        """Something optional failed and the answer goes on without it."""
        if reason not in self.degraded:
            self.degraded.append(reason)

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._zero) * 1000

    def duration_ms(self, *stages: str) -> float:
        """Time spent in the named stages together."""
        return sum(span.duration_ms for span in self.spans if span.stage in stages)

    def notes(self) -> list[str]:
        return [note for span in self.spans for note in span.notes]

    def as_dict(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "started_at": self.started_at,
            "total_ms": round(self.elapsed_ms(), 3),
            "degraded": list(self.degraded),
            "spans": [span.as_dict() for span in self.spans],
        }
