"""How a process that serves for weeks treats its memory."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Coroutine
from typing import Any

from ragstone.engine import Engine
from ragstone.errors import StoreError
from ragstone.system import find_libc_function

# glibc's numbers of these (malloc.h).
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_TRIM_S = 20.0


def settle_collector() -> None:
    """What is there when the server starts stays for good: the collector need not look at it.

    Half a million objects of libraries and models cost 0.4 ms of every repeated answer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


def settle_allocator() -> None:
    """Two arenas for all threads, and large blocks given back when they are free.

    glibc gives each thread an arena of its own, and takes ever larger blocks from them once one
    was freed; what lies between two blocks in use is never given back.
    """
    mallopt = find_libc_function("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)


async def give_back_memory() -> None:
    """From time to time, what is free inside of the allocator goes back to the system."""
    trim = find_libc_function("malloc_trim")
    while trim is not None:
        await asyncio.sleep(_TRIM_S)
        await asyncio.to_thread(trim, 0)


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


async def forget_in_time(engine: Engine) -> None:
    """Look again and again for queries and turns that are older than they may be."""
    options = engine.settings.journal
    while options.retention_days:
        await asyncio.sleep(options.retention_check_s)
        try:
            await asyncio.to_thread(engine.history.expire)
        except StoreError as error:
            # A busy or full catalog is no reason to stop looking.
            log.warning("what has expired could not be removed: %s", type(error).__name__)
