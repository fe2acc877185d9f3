"""Uploads that are read after their reply was sent, until the server stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


class Background:
    """Work that outlives its request. A server that stops waits for it, but not for ever."""

    def __init__(self) -> None:
        # A task that nothing refers to may be collected before it ends.
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, grace_s: float) -> None:
        """Wait for what runs; what takes longer is told to stop, and ends in good order."""
        if not self._running:
            return
        log.info("uploads are being read", extra={"uploads": len(self._running)})
        _, late = await asyncio.wait(self._running, timeout=grace_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an upload failed", exc_info=task.exception())
