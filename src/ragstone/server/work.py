"""Run heavy work of requests in processes that are killed at a deadline, with turns for callers.

Checking a text against facts costs seconds. It gets a process of its own, which ends with the
request: when the client leaves, when its time is over, and when the server stops.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ragstone.admission import AdmissionQueue
from ragstone.errors import DeadlineError, OverloadedError, RagstoneError, StoreError
from ragstone.processes import (
    IdleProcesses,
    WorkCrashError,
    WorkMemoryError,
    WorkStartError,
    WorkStoppedError,
    WorkTimeoutError,
    pack_message,
)
from ragstone.settings.services import ServerSettings
from ragstone.system import count_usable_cores
from ragstone.threads import PerLoop

_MAX_MEMORY_BYTES = 1_500_000_000
_CHECKERS = IdleProcesses("ragstone.query.check.worker")


class WorkQueue:
    """Run requests of one kind in worker processes, half of the cores at once."""

    def __init__(self, options: ServerSettings, idle: IdleProcesses = _CHECKERS) -> None:
        self._idle = idle
        self._timeout_s = options.work_timeout_s
        places = max(1, count_usable_cores() // (2 * options.workers))
        self._queue = PerLoop(lambda: AdmissionQueue(places, options.queue_timeout_s))
        self._threads = ThreadPoolExecutor(places, "work")
        self._running: set[threading.Event] = set()

    @property
    def is_full(self) -> bool:
        return self._queue.get().is_full

    async def run(self, caller: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a worker answers; its process ends with this call, whatever ends it."""
        async with self._queue.get().hold_place(caller=caller):
            stopping = threading.Event()
            self._running.add(stopping)
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._exchange, dict(request), stopping
                )
            finally:
                stopping.set()
                self._running.discard(stopping)

    def _exchange(self, request: dict[str, Any], stopping: threading.Event) -> dict[str, Any]:
        process = self._idle.take()
        try:
            process.begin(stopping)
            process.send(pack_message({**request, "timeout_s": self._timeout_s}))
            reply = process.receive(timeout_s=self._timeout_s, max_memory_bytes=_MAX_MEMORY_BYTES)
        except BaseException as error:
            process.stop()
            if isinstance(error, WorkStoppedError):
                raise OverloadedError("The server is stopping.", hint="Try again.") from error
            if isinstance(
                error, WorkTimeoutError | WorkMemoryError | WorkCrashError | WorkStartError
            ):
                raise self._explain(error) from error
            raise
        self._idle.put(process)
        if "error" in reply:
            raise StoreError(reply["error"]["message"], hint=reply["error"]["hint"])
        return reply

    def _explain(self, error: Exception) -> RagstoneError:
        has_failed = isinstance(error, WorkCrashError) and error.exit_code is not None
        if has_failed or isinstance(error, WorkStartError):
            return StoreError(
                f"The process that does this work failed ({error}).",
                hint="Run `ragstone doctor`: it also checks the files of the models.",
            )
        took = f"took longer than {self._timeout_s:g} s"
        if not isinstance(error, WorkTimeoutError):
            took = "took too much memory or processor time"
        return DeadlineError(
            f"The work {took} and was stopped.",
            hint="Send less at once, or raise RAGSTONE_SERVER_WORK_TIMEOUT_S.",
        )

    def close(self) -> None:
        """End everything that runs."""
        for stopping in list(self._running):
            stopping.set()
        self._idle.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
