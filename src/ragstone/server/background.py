"""Run work that is not part of a request: uploads that go on after their reply, expired history."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any

from ragstone.engine import Engine
from ragstone.errors import RagstoneError, StoreError
from ragstone.processes import kill_all_workers
from ragstone.threads import run_in_thread

log = logging.getLogger(__name__)


class BackgroundTasks:
    """Follow uploads that outlive their request. A server that stops waits for them a while."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    def start(self, work: asyncio.Future[Any]) -> None:
        self._running.add(work)
        work.add_done_callback(self._discard)

    async def finish(self, grace_s: float) -> None:
        """Wait for uploads, no longer than `grace_s`; the next start reads the rest."""
        if not self._running:
            return
        log.info("uploads are being read", extra={"uploads": len(self._running)})
        await asyncio.wait(self._running, timeout=grace_s)

    def _discard(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, RagstoneError):
            log.warning("an upload failed: %s", error)
        else:
            log.error("an upload failed", exc_info=error)


_PROBE_AGAIN_S = 60.0


async def watch_provider(engine: Engine) -> None:
    """Probe the provider at the start, and again and again while it cannot answer."""
    if not engine.settings.provider.probe:
        return
    while (await engine.probe_provider()).state == "failing":  # noqa: ASYNC110  it asks each time
        await asyncio.sleep(_PROBE_AGAIN_S)


async def delete_expired_history(engine: Engine) -> None:
    """Delete, again and again, the queries and turns that are older than the retention allows."""
    options = engine.settings.journal
    while options.retention_days:
        await asyncio.sleep(options.retention_check_s)
        try:
            await run_in_thread("store", engine.history.delete_expired)
        except StoreError as error:
            # The catalog may be busy or full now and work at the next attempt.
            log.warning("what has expired could not be removed: %s", type(error).__name__)


def exit_after(seconds: float) -> None:
    """End this process after a time, whatever its threads still do.

    Python waits for threads, and a thread cannot be stopped: one long computation would keep a
    server alive that was told to end. All that is stored is stored in transactions.
    """

    def end() -> None:
        log.warning("the server ends while work is running")
        kill_all_workers()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
