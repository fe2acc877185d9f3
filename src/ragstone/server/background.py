"""Run work that is not part of a request: uploads that go on after their reply, expired history."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ragstone.engine import Engine
from ragstone.errors import StoreError

log = logging.getLogger(__name__)


class BackgroundTasks:
    """Run work that outlives its request. A server that stops waits for it, up to a limit."""

    def __init__(self) -> None:
        # A task that nothing refers to may be collected before it ends.
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._discard)
        return task

    async def finish(self, grace_s: float) -> None:
        """Wait for running tasks; cancel those that take longer than `grace_s`."""
        if not self._running:
            return
        log.info("uploads are being read", extra={"uploads": len(self._running)})
        _, late = await asyncio.wait(self._running, timeout=grace_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an upload failed", exc_info=task.exception())


async def delete_expired_history(engine: Engine) -> None:
    """Delete, again and again, the queries and turns that are older than the retention allows."""
    options = engine.settings.journal
    while options.retention_days:
        await asyncio.sleep(options.retention_check_s)
        try:
            await asyncio.to_thread(engine.history.delete_expired)
        except StoreError as error:
            # The catalog may be busy or full now and work at the next attempt.
            log.warning("what has expired could not be removed: %s", type(error).__name__)
