"""Parse files in separate processes: requests in, documents out, limits enforced from outside.

One thread supervises one process. It sends it a file, waits for each document no longer than the
time limit, watches its memory, and kills it past either; the next file gets a new process.
Processes stay for the next run: starting one costs half a second.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ragstone import system
from ragstone.blocks import ParsedPart
from ragstone.errors import IngestError
from ragstone.ingest.parser import protocol
from ragstone.processes import (
    IdleProcesses,
    WorkCrashError,
    WorkerProcess,
    WorkMemoryError,
    WorkStoppedError,
    WorkTimeoutError,
)

Job = TypeVar("Job")

_POLL_S = 0.1
# Documents that wait for the embedder per process: enough to keep it busy, bounded in memory.
_QUEUED_PER_WORKER = 8
_LIMIT_HINT = "It may be damaged or hostile. Raise {} if you trust it."


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Identify the content of a file at the time it was read."""

    sha256: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class ParserEvent(Generic[Job]):
    """Report a part of one job, or its end (`part` is None)."""

    job: Job
    stamp: FileStamp
    part: ParsedPart | None = None
    is_unchanged: bool = False


_idle = IdleProcesses("ragstone.ingest.parser.worker")


def measure_peak_bytes() -> int:
    """Return the most memory that this process and the idle parser processes ever used."""
    return system.measure_peak_bytes(os.getpid()) + _idle.measure_peak_bytes()


class ParserPool(Generic[Job]):
    """Read many files at once. `timeout_s` is for each document, not for a whole archive."""

    def __init__(self, workers: int, *, timeout_s: float) -> None:
        self._workers = workers
        self._timeout_s = timeout_s
        self._stopping = threading.Event()

    def run(
        self, jobs: Iterable[tuple[Job, protocol.Request]]
    ) -> Generator[ParserEvent[Job], None, None]:
        """Yield the documents of all files as they are read; the events of a job stay in order."""
        pending, lock = iter(jobs), threading.Lock()
        results: queue.Queue[ParserEvent[Job] | BaseException | None] = queue.Queue(
            self._workers * _QUEUED_PER_WORKER
        )

        def supervise() -> None:
            supervisor = _Supervisor(self._timeout_s, self._stopping)
            try:
                while not self._stopping.is_set():
                    with lock:
                        job = next(pending, None)
                    if job is None:
                        break
                    for event in supervisor.read(*job):
                        self._put(results, event)
            except BaseException as error:  # noqa: BLE001  it is raised again in the other thread
                self._put(results, error)
            finally:
                supervisor.release()
                self._put(results, None)

        threads = [threading.Thread(target=supervise, daemon=True) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        try:
            yield from self._drain(results)
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _drain(self, results: queue.Queue[Any]) -> Iterator[ParserEvent[Job]]:
        running = self._workers
        while running:
            result = results.get()
            if result is None:
                running -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result

    def _put(self, results: queue.Queue[Any], item: object) -> None:
        """Wait for room in the queue; drop the item if the run is being stopped."""
        while True:
            try:
                results.put(item, timeout=_POLL_S)
                return
            except queue.Full:
                if self._stopping.is_set():
                    return


class _Supervisor:
    """Send files to one process and replace it after it had to be stopped."""

    def __init__(self, timeout_s: float, stopping: threading.Event) -> None:
        self._timeout_s = timeout_s
        self._stopping = stopping
        self._process: WorkerProcess | None = None

    def read(self, job: Job, request: protocol.Request) -> Iterator[ParserEvent[Job]]:
        stamp = FileStamp("", 0, 0)
        is_unchanged = False
        error: IngestError | None = None
        try:
            for message in self._exchange(request):
                if message["kind"] == "begin":
                    stamp = FileStamp(message["sha256"], message["size"], message["mtime_ns"])
                elif message["kind"] == "unchanged":
                    is_unchanged = True
                else:
                    yield ParserEvent(job, stamp, protocol.unpack_part(message))
        except BrokenPipeError:
            error = IngestError("The parser process ended unexpectedly.", hint="Try again.")
        except (WorkTimeoutError, WorkMemoryError, WorkCrashError) as reason:
            error = self._explain(reason, request)
        except WorkStoppedError:
            self._stop_process()
            return
        if error is not None:
            self._stop_process()
            part = ParsedPart("", stamp.sha256, error=error.message, hint=error.hint)
            yield ParserEvent(job, stamp, part)
        yield ParserEvent(job, stamp, is_unchanged=is_unchanged)

    def _explain(self, reason: Exception, request: protocol.Request) -> IngestError:
        if isinstance(reason, WorkCrashError):
            return IngestError(
                f"The parser crashed on this file ({reason}).",
                hint="The file is probably damaged. Save it again in its program.",
            )
        if isinstance(reason, WorkMemoryError):
            most = request.max_memory_bytes / 1e6
            return IngestError(
                f"Reading the file took more than {most:.0f} MB of memory and was stopped.",
                hint=_LIMIT_HINT.format("RAGSTONE_INGEST_MAX_MEMORY_MB"),
            )
        return IngestError(
            f"Reading the file took longer than {self._timeout_s:g} s and was stopped.",
            hint=_LIMIT_HINT.format("RAGSTONE_INGEST_TIMEOUT_S"),
        )

    def _exchange(self, request: protocol.Request) -> Iterator[dict[str, Any]]:
        """Send a request and yield the answers until its end."""
        if self._process is None:
            self._process = _idle.take()
            self._process.begin(self._stopping)
        process = self._process
        process.send(protocol.pack_request(request))
        while True:
            message = process.receive(
                timeout_s=self._timeout_s, max_memory_bytes=request.max_memory_bytes
            )
            if message["kind"] == "end":
                return
            yield message

    def _stop_process(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def release(self) -> None:
        if self._process is not None:
            _idle.put(self._process)
            self._process = None
