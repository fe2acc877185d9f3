"""Run work in processes that can be killed: a request goes in, messages come out, within limits.

A worker is a module that calls `answer_requests`. Its owner limits its processor time, its memory
and how long a message may take, and kills it past any of them. Messages are JSON behind their
length, and not pickle: a process that hostile input has taken over must not be able to run code
here.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO
from weakref import WeakSet

from ragstone import system

LENGTH = struct.Struct("<Q")
_POLL_S = 0.1
# Starting takes a second; on a machine that is far too busy, many.
_START_TIMEOUT_S = 600.0
# Requests of people and the rest of the machine come first.
_NICENESS = 5


class WorkStoppedError(Exception):
    """The owner no longer wants the result."""


class WorkStartError(Exception):
    """A process did not become ready; the message says why."""


class WorkTimeoutError(Exception):
    """No message of a process came in time."""


class WorkCpuError(Exception):
    """A process used more processor time than it may."""


class WorkMemoryError(Exception):
    """A process used more memory than it may."""


class WorkCrashError(Exception):
    """A process ended by itself; the message is the signal or exit code."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        """None when a signal ended it."""


@dataclass(frozen=True, slots=True)
class _Limits:
    deadline: float
    late: type[Exception]
    """Raised at the deadline."""
    max_memory_bytes: int
    max_cpu_s: float


def pack_message(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, ensure_ascii=True, separators=(",", ":"), default=str).encode()
    return LENGTH.pack(len(body)) + body


class WorkerProcess:
    """Run one process of a worker module."""

    def __init__(self, module: str) -> None:
        self._stopping = threading.Event()
        self._is_ready = False
        self._popen = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C in a terminal is meant for its owner, which ends it.
            **system.OWN_PROCESS_GROUP,
        )
        assert self._popen.stdout is not None
        self._output = system.open_pipe_reader(self._popen.stdout)
        self._next_check = 0.0
        self._cpu_before: float | None = None
        _living.add(self)

    def begin(self, stopping: threading.Event) -> None:
        """Work for somebody; `stopping` ends the wait for a message.

        The time of a request does not begin before the process is ready.
        """
        self._stopping = stopping
        if not self._is_ready:
            try:
                self.receive(timeout_s=_START_TIMEOUT_S, max_memory_bytes=sys.maxsize)
            except WorkTimeoutError as error:
                raise WorkStartError(f"not ready after {_START_TIMEOUT_S:g} s") from error
            except WorkCrashError as error:
                raise WorkStartError(str(error)) from error
            self._is_ready = True

    def send(self, message: bytes) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(message)
        self._popen.stdin.flush()
        self.restart_cpu_clock()

    def restart_cpu_clock(self) -> None:
        """Count the processor time from the next check on."""
        self._cpu_before = None

    def receive(
        self, *, timeout_s: float, max_memory_bytes: int, max_cpu_s: float = math.inf
    ) -> dict[str, Any]:
        """Return the next message, or raise an error if the process breaks a limit.

        `timeout_s` is for this message, `max_cpu_s` for all since the clock was restarted.
        """
        late: type[Exception] = WorkTimeoutError
        if not system.CAN_MEASURE_CPU and max_cpu_s < timeout_s:
            timeout_s, late = max_cpu_s, WorkCpuError
        limits = _Limits(time.monotonic() + timeout_s, late, max_memory_bytes, max_cpu_s)
        head = self._read(LENGTH.size, limits)
        body = self._read(LENGTH.unpack(head)[0], limits)
        message: dict[str, Any] = json.loads(body)
        return message

    def _read(self, count: int, limits: _Limits) -> bytes:
        pieces: list[bytes] = []
        while count:
            piece = self._output.read(count, _POLL_S)
            if piece is not None:
                if not piece:
                    raise self._explain_end()
                pieces.append(piece)
                count -= len(piece)
            self._check(limits)
        return b"".join(pieces)

    def _check(self, limits: _Limits) -> None:
        if self._stopping.is_set():
            raise WorkStoppedError
        now = time.monotonic()
        if now > limits.deadline:
            raise limits.late
        if now < self._next_check:
            return
        self._next_check = now + system.get_memory_check_interval_s()
        if system.measure_resident_bytes(self._popen.pid) > limits.max_memory_bytes:
            raise WorkMemoryError
        if math.isinf(limits.max_cpu_s):
            return
        used_s = system.measure_cpu_seconds(self._popen.pid)
        if self._cpu_before is None:
            self._cpu_before = used_s
        if used_s - self._cpu_before > limits.max_cpu_s:
            raise WorkCpuError

    def _explain_end(self) -> WorkCrashError:
        code = self._popen.wait()
        if code < 0:
            return WorkCrashError(signal.Signals(-code).name)
        return WorkCrashError(f"exit code {code}", code)

    def measure_peak_bytes(self) -> int:
        return system.measure_peak_bytes(self._popen.pid)

    def measure_resident_bytes(self) -> int:
        return system.measure_resident_bytes(self._popen.pid)

    def is_running(self) -> bool:
        return self._popen.poll() is None

    def stop(self) -> None:
        _living.discard(self)
        self._popen.kill()
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def __del__(self) -> None:
        # An owner that was dropped without being closed leaves no process behind.
        popen = getattr(self, "_popen", None)
        if popen is not None and popen.returncode is None:
            self.stop()

    def kill(self) -> None:
        """End the process at once; its owner finds out by itself."""
        self._popen.kill()


_living: WeakSet[WorkerProcess] = WeakSet()


def kill_all_workers() -> None:
    """End every worker of this process, also those that compute."""
    for process in list(_living):
        process.kill()


def _stop_all_workers() -> None:
    for process in list(_living):
        process.stop()


atexit.register(_stop_all_workers)


class IdleProcesses:
    """Hold the processes of one worker between two requests: starting one costs a second."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._processes: list[WorkerProcess] = []
        self._lock = threading.Lock()

    def take(self) -> WorkerProcess:
        with self._lock:
            while self._processes:
                process = self._processes.pop()
                if process.is_running():
                    return process
                process.stop()
        return WorkerProcess(self._module)

    def put(self, process: WorkerProcess) -> None:
        with self._lock:
            self._processes.append(process)

    def measure_peak_bytes(self) -> int:
        with self._lock:
            return sum(process.measure_peak_bytes() for process in self._processes)

    def stop(self) -> None:
        with self._lock:
            while self._processes:
                self._processes.pop().stop()


def answer_requests(
    answer: Callable[[dict[str, Any]], Iterable[bytes]], prepare: Callable[[], object]
) -> None:
    """Run as a worker: answer requests until standard input ends, as it does with the owner.

    `prepare` loads what every request needs; then the process may not write files any more. The
    requests are read in a thread, so that a process whose owner was killed ends in the middle of
    its work and does not compute for nobody.
    """
    # The streams stay private: what a library prints must not stand between two messages.
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(devnull, standard)
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(source, requests), daemon=True).start()
    system.lower_process_priority(_NICENESS)
    prepare()
    system.forbid_writing_files()
    sink.write(pack_message({"kind": "ready"}))
    sink.flush()
    while True:
        for message in answer(json.loads(requests.get())):
            sink.write(message)
            sink.flush()


def _read_requests(source: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    while head := source.read(LENGTH.size):
        requests.put(source.read(LENGTH.unpack(head)[0]))
    os._exit(0)


def end_with_parent() -> None:
    """End this process, and its workers, as soon as the process that started it has ended.

    A server process whose supervisor was killed would go on serving, and hold the port that the
    next server needs. Without effect in a process that `multiprocessing` did not start.
    """
    from multiprocessing import parent_process  # needed only with several server processes

    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        kill_all_workers()
        os._exit(1)

    threading.Thread(target=wait, name="end with parent", daemon=True).start()
