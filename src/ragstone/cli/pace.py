"""Measure the pace of an ingest for its line of progress."""

from __future__ import annotations

import time

from ragstone.cli import options
from ragstone.reports import FileProgress, IngestedFile


class Pace:
    """The pace of a run, and an estimate of the rest of it."""

    def __init__(self) -> None:
        self._begun = self._last_line = time.monotonic()
        self._chunks = self._documents = 0
        self.done = 0
        self.total: int | None = None
        self._current = FileProgress("", "reading")
        self._embedding_since = 0.0

    def count(self, outcome: IngestedFile, done: int, total: int) -> None:
        self.done, self.total = done, total
        if outcome.outcome in {"added", "updated"}:
            self._chunks += outcome.chunk_count
            self._documents += 1
        if outcome.name == self._current.name:
            self._current = FileProgress("", "reading")

    def note(self, progress: FileProgress) -> None:
        """Follow one document to its end, and then another."""
        current = self._current
        if progress.name != current.name and current.chunks_done < current.chunk_count:
            return
        if progress.name != current.name or not current.chunk_count:
            self._embedding_since = time.monotonic()
        self._current = progress

    def get_progress(self) -> tuple[float, int | None]:
        """Return the files that are done and all files; chunks before the first file is done."""
        done, count = self._current.chunks_done, self._current.chunk_count
        if self.total is None and count:
            return done, count
        return self.done + done / max(1, count), self.total

    def format_current(self) -> str:
        current = self._current
        name = current.name[-40:]
        if not current.chunk_count:
            return f"{current.stage} {name}"
        return f"{name}: {current.chunks_done:,} of {current.chunk_count:,} chunks"

    def _seconds(self) -> float:
        return max(1e-3, time.monotonic() - self._begun)

    def format_rate(self) -> str:
        rate = (self._chunks + self._current.chunks_done) / self._seconds()
        return f"{rate:.0f} chunks/s" if rate else ""

    def format_rest(self) -> str:
        """Estimate the time that is left; empty while nothing is known about it."""
        done, count = self._current.chunks_done, self._current.chunk_count
        if count:  # long documents come last: the time per file says nothing
            if not done:
                return ""
            left_s = (time.monotonic() - self._embedding_since) / done * (count - done)
        elif self.done and self.total is not None:
            left_s = self._seconds() / self.done * (self.total - self.done)
        else:  # the first file may be an archive: its size isn't known before its end
            return ""
        return f"about {left_s:.0f} s left"

    def is_due(self) -> bool:
        """Return True once in every interval, when the next line should be printed."""
        if time.monotonic() - self._last_line < options.PROGRESS_LINE_EVERY_S:
            return False
        self._last_line = time.monotonic()
        return True

    def format_line(self) -> str:
        parts = []
        if self.total is not None:
            # An archive gives documents before it counts as read.
            noun = "document" if self._documents == 1 else "documents"
            parts = [
                f"file {min(self.done + 1, self.total)} of {self.total}",
                f"{self._documents} {noun}, {self._documents / self._seconds():.1f}/s",
            ]
        parts.append(self.format_rate())
        if self._current.chunk_count or self.total is None:
            parts.append(self.format_current())
        parts.append(self.format_rest())
        return " · ".join(filter(None, parts))
