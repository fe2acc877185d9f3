"""Parser processes and their keepers: files in, documents out, limits kept from outside.

One thread keeps one process. It gives it a file, waits for each document no longer than the time
limit, watches its memory, and kills it past either; the next file gets a fresh process. Processes
are kept for the next run: starting one costs half a second.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ragstone import system
from ragstone.errors import IngestError
from ragstone.ingest.parser import protocol as frames

Job = TypeVar("Job")

_LOOK_EVERY_S = 0.1
# Starting takes a second; on a machine that is far too busy, many.
_START_S = 120.0
# Documents that wait for the embedder per process: enough to keep it busy, bounded in memory.
_WAITING = 8
_STOPPED = "It may be damaged or hostile. Raise {} if you trust it."


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when it was read."""

    sha256: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Event(Generic[Job]):
    """Something about one job: a part, or its end (`part` is None)."""

    job: Job
    stamp: Stamp
    part: frames.ReadPart | None = None
    unchanged: bool = False


class _RunStopped(Exception):  # noqa: N818  no error: somebody pressed Ctrl-C
    """The run ends before its files do."""


class _Process:
    """A running parser process."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._is_ready = False
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "ragstone.ingest.parser.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._popen.stdout is not None
        self._output = system.open_pipe_reader(self._popen.stdout)
        self._check_memory_at = 0.0

    def serve(self, stopping: threading.Event) -> None:
        """Work for a run; when it is being stopped, so is the wait for an answer.

        The time of a file does not begin before the process is there to read it.
        """
        self._stopping = stopping
        if not self._is_ready:
            self.receive(timeout_s=_START_S, max_memory_bytes=sys.maxsize)
            self._is_ready = True

    def send(self, frame: bytes) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(frame)
        self._popen.stdin.flush()

    def receive(self, *, timeout_s: float, max_memory_bytes: int) -> dict[str, Any]:
        """The next message, or an IngestError that says why the process was stopped."""
        deadline = time.monotonic() + timeout_s
        head = self._read(frames.LENGTH.size, deadline, timeout_s, max_memory_bytes)
        length = frames.LENGTH.unpack(head)[0]
        message: dict[str, Any] = json.loads(
            self._read(length, deadline, timeout_s, max_memory_bytes)
        )
        return message

    def _read(self, count: int, deadline: float, timeout_s: float, max_memory: int) -> bytes:
        pieces: list[bytes] = []
        while count:
            piece = self._output.read(count, _LOOK_EVERY_S)
            if piece is not None:
                if not piece:
                    raise self._died()
                pieces.append(piece)
                count -= len(piece)
                continue
            if self._stopping.is_set():
                raise _RunStopped
            if time.monotonic() > deadline:
                raise IngestError(
                    f"Reading the file took longer than {timeout_s:g} s and was stopped.",
                    hint=_STOPPED.format("RAGSTONE_INGEST_TIMEOUT_S"),
                )
            if self._takes_more_than(max_memory):
                raise IngestError(
                    f"Reading the file took more than {max_memory / 1e6:.0f} MB of memory and "
                    "was stopped.",
                    hint=_STOPPED.format("RAGSTONE_INGEST_MAX_MEMORY_MB"),
                )
        return b"".join(pieces)

    def _takes_more_than(self, max_memory: int) -> bool:
        if time.monotonic() < self._check_memory_at:
            return False
        self._check_memory_at = time.monotonic() + system.memory_check_interval_s()
        return system.resident_bytes(self._popen.pid) > max_memory

    def peak_bytes(self) -> int:
        return system.peak_bytes(self._popen.pid)

    def _died(self) -> IngestError:
        code = self._popen.wait()
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return IngestError(
            f"The parser broke down on this file ({reason}).",
            hint="It is probably damaged; save it anew in its program.",
        )

    def stop(self) -> None:
        self._popen.kill()
        self._popen.wait()
        for channel in (self._popen.stdin, self._popen.stdout):
            if channel is not None:
                with suppress(OSError):
                    channel.close()


class _Idle:
    """Processes between two runs."""

    def __init__(self) -> None:
        self._processes: list[_Process] = []
        self._lock = threading.Lock()

    def take(self) -> _Process:
        with self._lock:
            if self._processes:
                return self._processes.pop()
        return _Process()

    def put(self, process: _Process) -> None:
        with self._lock:
            self._processes.append(process)

    def peak_bytes(self) -> int:
        with self._lock:
            return sum(process.peak_bytes() for process in self._processes)

    def stop(self) -> None:
        with self._lock:
            while self._processes:
                self._processes.pop().stop()


_idle = _Idle()
atexit.register(_idle.stop)


def peak_bytes() -> int:
    """The most memory that this process and those kept for the next run have ever used."""
    return system.peak_bytes(os.getpid()) + _idle.peak_bytes()


class ParserPool(Generic[Job]):
    """Reads many files at once. `timeout_s` is for each document, not for a whole archive."""

    def __init__(self, workers: int, *, timeout_s: float) -> None:
        self._workers = workers
        self._timeout_s = timeout_s
        self._stopping = threading.Event()

    def run(self, jobs: Iterable[tuple[Job, frames.Request]]) -> Generator[Event[Job], None, None]:
        """The documents of all files as they are read; a job's events stay in order."""
        pending, lock = iter(jobs), threading.Lock()
        results: queue.Queue[Event[Job] | BaseException | None] = queue.Queue(
            self._workers * _WAITING
        )

        def keep() -> None:
            keeper = _Keeper(self._timeout_s, self._stopping)
            try:
                while not self._stopping.is_set():
                    with lock:
                        job = next(pending, None)
                    if job is None:
                        break
                    for event in keeper.read(*job):
                        self._put(results, event)
            except BaseException as error:  # noqa: BLE001  it is raised again in the other thread
                self._put(results, error)
            finally:
                keeper.release()
                self._put(results, None)

        threads = [threading.Thread(target=keep, daemon=True) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        try:
            yield from self._drain(results)
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _drain(self, results: queue.Queue[Any]) -> Iterator[Event[Job]]:
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
        """Wait for room, unless nobody reads any more."""
        while True:
            try:
                results.put(item, timeout=_LOOK_EVERY_S)
                return
            except queue.Full:
                if self._stopping.is_set():
                    return


class _Keeper:
    """Gives files to one process and replaces it when it had to be stopped."""

    def __init__(self, timeout_s: float, stopping: threading.Event) -> None:
        self._timeout_s = timeout_s
        self._stopping = stopping
        self._process: _Process | None = None

    def read(self, job: Job, request: frames.Request) -> Iterator[Event[Job]]:
        stamp = Stamp("", 0, 0)
        unchanged = False
        try:
            if self._process is None:
                self._process = _idle.take()
                self._process.serve(self._stopping)
            self._process.send(frames.pack_request(request))
            while (message := self._receive(request))["kind"] != "end":
                if message["kind"] == "begin":
                    stamp = Stamp(message["sha256"], message["size"], message["mtime_ns"])
                elif message["kind"] == "unchanged":
                    unchanged = True
                else:
                    yield Event(job, stamp, frames.unpack_part(message))
        except BrokenPipeError:
            self._drop()
            error = IngestError("The parser process ended unexpectedly.", hint="Try again.")
            yield Event(job, stamp, _failed(stamp, error))
        except IngestError as error:
            self._drop()
            yield Event(job, stamp, _failed(stamp, error))
        except _RunStopped:
            self._drop()
            return
        yield Event(job, stamp, unchanged=unchanged)

    def _receive(self, request: frames.Request) -> dict[str, Any]:
        assert self._process is not None
        return self._process.receive(
            timeout_s=self._timeout_s, max_memory_bytes=request.max_memory_bytes
        )

    def _drop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def release(self) -> None:
        if self._process is not None:
            _idle.put(self._process)
            self._process = None


def _failed(stamp: Stamp, error: IngestError) -> frames.ReadPart:
    return frames.ReadPart("", stamp.sha256, error=error.message, hint=error.hint)
