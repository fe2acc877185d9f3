"""Parse files in separate processes: requests in, documents out, limits enforced from outside.

One thread supervises one process. It sends it a file, watches how much processor time and memory
each document takes, and kills it past its limits; the next file gets a new process. Processes stay
for the next run: starting one costs half a second.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ragstone import system
from ragstone.blocks import ParsedPart
from ragstone.errors import IngestError
from ragstone.ingest.parser import protocol
from ragstone.processes import (
    IdleProcesses,
    WorkCpuError,
    WorkCrashError,
    WorkerProcess,
    WorkMemoryError,
    WorkStartError,
    WorkStoppedError,
    WorkTimeoutError,
)
from ragstone.types import Chunk

Job = TypeVar("Job")

_POLL_S = 0.1
# Documents that wait for the embedder per process: enough to keep it busy, bounded in memory.
_QUEUED_PER_WORKER = 8
_QUEUED_CHARS = 16_000_000
# A process that has read usual files has 200 MB.
_MAX_IDLE_BYTES = 300_000_000
# On a busy machine a process waits for its turn, and a shared disk lets it wait, too.
_WAIT_PER_CPU_SECOND = 10
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
    """Read many files at once.

    `timeout_s` is the processor time for each document, not for a whole archive. Wall-clock time
    may be ten times that.
    """

    def __init__(self, workers: int, *, timeout_s: float) -> None:
        self._workers = workers
        self._timeout_s = timeout_s
        self._stopping = threading.Event()
        self._queued_chars = 0
        self._count_lock = threading.Lock()

    def run(
        self, jobs: Iterable[tuple[Job, protocol.Request]]
    ) -> Generator[ParserEvent[Job] | None, None, None]:
        """Yield the documents of all files as they are read; the events of a job stay in order.

        Yields None whenever nothing came for a moment, so that the caller can do something else.
        """
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
                        self._put(results, event, chars=_count_chars(event))
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

    def _drain(self, results: queue.Queue[Any]) -> Iterator[ParserEvent[Job] | None]:
        running = self._workers
        while running:
            try:
                result = results.get(timeout=_POLL_S)
            except queue.Empty:
                yield None
                continue
            if result is None:
                running -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                with self._count_lock:
                    self._queued_chars -= _count_chars(result)
                yield result

    def _put(self, results: queue.Queue[Any], item: object, *, chars: int = 0) -> None:
        """Wait for room in the queue; drop the item if the run is being stopped."""
        while not self._has_room(chars):
            if self._stopping.wait(_POLL_S):
                return
        while True:
            try:
                results.put(item, timeout=_POLL_S)
                return
            except queue.Full:
                if self._stopping.is_set():
                    return

    def _has_room(self, chars: int) -> bool:
        """Reserve room for a text. One that is larger than all the room gets it alone."""
        with self._count_lock:
            if self._queued_chars and self._queued_chars + chars > _QUEUED_CHARS:
                return not chars
            self._queued_chars += chars
            return True


def _is_outage(reason: Exception) -> bool:
    """Tell whether a file can't be blamed: it hangs on a disk, or somebody killed its parser."""
    if isinstance(reason, WorkCrashError):
        return str(reason) in {"SIGKILL", "SIGTERM"}
    return isinstance(reason, WorkTimeoutError | WorkStartError | BrokenPipeError)


def _count_chars(event: ParserEvent[Any]) -> int:
    return len(event.part.loaded.text) if event.part and event.part.loaded else 0


class _Supervisor:
    """Send files to one process and replace it after it had to be stopped."""

    def __init__(self, timeout_s: float, stopping: threading.Event) -> None:
        self._timeout_s = timeout_s
        self._wait_s = _WAIT_PER_CPU_SECOND * timeout_s
        self._stopping = stopping
        self._process: WorkerProcess | None = None
        self._is_answered = True
        """False while messages of the process may be unread: the next file would get them."""

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
                    yield ParserEvent(job, stamp, self._unpack_part(message, request))
        except (
            WorkStartError,
            WorkTimeoutError,
            WorkCpuError,
            WorkMemoryError,
            WorkCrashError,
            BrokenPipeError,
        ) as reason:
            error = self._explain(reason, request)
            if _is_outage(reason):
                stamp = FileStamp("", 0, 0)  # without a hash, the file is read again next time
        except WorkStoppedError:
            self._stop_process()
            return
        if error is not None:
            self._stop_process()
            part = ParsedPart("", stamp.sha256, error=error.message, hint=error.hint)
            yield ParserEvent(job, stamp, part)
        yield ParserEvent(job, stamp, is_unchanged=is_unchanged)

    def _explain(self, reason: Exception, request: protocol.Request) -> IngestError:
        if isinstance(reason, WorkTimeoutError):
            return IngestError(
                f"Reading the file made no progress for {self._wait_s:g} s and was stopped.",
                hint="The disk or network share it is on may be hanging. The limit is ten times "
                "RAGSTONE_INGEST_TIMEOUT_S.",
            )
        if isinstance(reason, WorkStartError):
            return IngestError(
                f"The parser process did not start ({reason}).",
                hint="Try again. The machine may be overloaded or out of memory.",
            )
        if _is_outage(reason):
            return IngestError(
                "The parser process was stopped by the system or a person.",
                hint="Try again. This also happens when the machine runs out of memory.",
            )
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
            f"Reading the file took more than {self._timeout_s:g} s of processor time "
            "and was stopped.",
            hint=_LIMIT_HINT.format("RAGSTONE_INGEST_TIMEOUT_S"),
        )

    def _exchange(self, request: protocol.Request) -> Iterator[dict[str, Any]]:
        """Send a request and yield the answers until its end."""
        if self._process is None:
            self._process = _idle.take()
            self._process.begin(self._stopping)
        process = self._process
        self._is_answered = False
        process.send(protocol.pack_request(request))
        while (message := self._receive(request))["kind"] != "end":
            yield message
            process.restart_cpu_clock()
        self._is_answered = True

    def _receive(self, request: protocol.Request) -> dict[str, Any]:
        assert self._process is not None
        return self._process.receive(
            timeout_s=self._wait_s,
            max_memory_bytes=request.max_memory_bytes,
            max_cpu_s=self._timeout_s,
        )

    def _unpack_part(self, message: dict[str, Any], request: protocol.Request) -> ParsedPart:
        """Return a document with its chunks, which come in messages of their own."""
        part = protocol.unpack_part(message)
        if part.loaded is None or not message["has_chunks"]:
            return part
        chunks: list[Chunk] = []
        while rows := self._receive(request)["chunks"]:
            chunks += protocol.unpack_chunks(part.loaded.text, len(chunks), rows)
            if len(chunks) > len(part.loaded.text):
                raise WorkCrashError("it sends chunks without end")
        return replace(part, chunks=tuple(chunks))

    def _stop_process(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None
            self._is_answered = True

    def release(self) -> None:
        """Keep the process for the next run, unless it is busy or a large file made it large."""
        if self._process is None:
            return
        if not self._is_answered or self._process.measure_resident_bytes() > _MAX_IDLE_BYTES:
            self._stop_process()
        else:
            _idle.put(self._process)
            self._process = None
