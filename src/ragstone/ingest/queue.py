"""Run ingest jobs in an order that lets small ones overtake large ones.

Two threads take jobs. One takes only small jobs, so that a note never waits until a large archive
is read. Among the waiting the job that is due first is next: the larger, the later it is due, but a
large one is not overtaken for ever. Jobs for the same documents stay in the order of arrival.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

# Read in about two seconds on one core.
_SMALL_BYTES = 100_000
# A job of 100 kB is due 50 s after it came: it is overtaken by each note of these 50 s.
_BYTES_PER_SECOND = 2_000
_MAX_DELAY_S = 600.0
_ALL: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Job:
    work: Callable[[], Any]
    collection: str
    names: frozenset[str]
    is_small: bool
    due: float
    future: Future[Any] = field(default_factory=Future)
    is_running: bool = False

    def must_wait_for(self, other: _Job) -> bool:
        """Return whether `other`, which came before, must end first."""
        if self.collection != other.collection:
            return False
        return not self.names or not other.names or not self.names.isdisjoint(other.names)


class IntakeQueue:
    """Run jobs in two threads; a job without names has its collection to itself."""

    def __init__(self) -> None:
        self._jobs: list[_Job] = []
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def submit(
        self, work: Callable[[], T], *, collection: str, names: frozenset[str] = _ALL, size: int = 0
    ) -> Future[T]:
        delay_s = min(_MAX_DELAY_S, size / _BYTES_PER_SECOND)
        job = _Job(work, collection, names, size <= _SMALL_BYTES, time.monotonic() + delay_s)
        with self._changed:
            self._is_closed = False
            self._jobs.append(job)
            if len(self._threads) < 2:
                only_small = len(self._threads) == 1
                thread = threading.Thread(
                    target=self._run, args=(only_small,), name="ingest", daemon=True
                )
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()
        return job.future

    def close(self) -> bool:
        """Drop the jobs that wait, wait for those that run; return whether none was dropped."""
        with self._changed:
            self._is_closed = True
            waiting = [job for job in self._jobs if not job.is_running]
            self._jobs = [job for job in self._jobs if job.is_running]
            threads, self._threads = self._threads, []
            self._changed.notify_all()
        for job in waiting:
            job.future.cancel()
        for thread in threads:
            thread.join()
        return not waiting

    def _run(self, only_small: bool) -> None:
        while (job := self._take(only_small)) is not None:
            try:
                job.future.set_result(job.work())
            except BaseException as error:  # noqa: BLE001  whoever waits for the job gets it
                job.future.set_exception(error)
            with self._changed:
                self._jobs.remove(job)
                self._changed.notify_all()

    def _take(self, only_small: bool) -> _Job | None:
        with self._changed:
            while not self._is_closed:
                ready = [
                    job
                    for at, job in enumerate(self._jobs)
                    if not job.is_running
                    and (job.is_small or not only_small)
                    and not any(job.must_wait_for(other) for other in self._jobs[:at])
                ]
                if ready:
                    job = min(ready, key=lambda job: job.due)
                    job.is_running = True
                    if job.future.set_running_or_notify_cancel():
                        return job
                    self._jobs.remove(job)
                    continue
                self._changed.wait()
            return None
