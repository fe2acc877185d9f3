"""How many answers are written at once: a few, a bounded queue of more, and a clear refusal.

A queue without a bound is a pile-up: everybody waits, and nobody gets an answer in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request

from ragstone.errors import OverloadedError, SettingsError
from ragstone.observe.metrics import WAITING, WRITING
from ragstone.settings.doors import ServerSettings


class Admission:
    """Lets `max_generations` in, `max_waiting` wait, and sends the rest away.

    Each of several processes has its even share of both, so that their sum holds.
    """

    def __init__(self, options: ServerSettings) -> None:
        if options.max_generations < options.workers:
            raise SettingsError(
                f"{options.workers} workers cannot share {options.max_generations} answers.",
                hint="Raise server.max_generations, or start fewer workers.",
            )
        self._options = options
        self._places = asyncio.Semaphore(options.max_generations // options.workers)
        self._max_waiting = options.max_waiting // options.workers
        self._waiting = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        await self._enter()
        WRITING.inc()
        try:
            yield
        finally:
            WRITING.dec()
            self._places.release()

    async def _enter(self) -> None:
        if not self._places.locked():
            await self._places.acquire()  # free: this does not wait
            return
        if self._waiting >= self._max_waiting:
            raise OverloadedError(
                "The server is writing as many answers as it can, and the queue is full.",
                hint="Come back in a few seconds.",
                retry_after_s=max(1, int(self._options.queue_timeout_s / 4)),
            )
        self._waiting += 1
        WAITING.inc()
        try:
            await asyncio.wait_for(self._places.acquire(), self._options.queue_timeout_s)
        except TimeoutError as error:
            raise OverloadedError(
                f"The server found no time for this in {self._options.queue_timeout_s:g} s.",
                hint="Come back in a few seconds.",
                retry_after_s=max(1, int(self._options.queue_timeout_s / 4)),
            ) from error
        finally:
            self._waiting -= 1
            WAITING.dec()


async def answering(request: Request) -> AsyncIterator[None]:
    """A place for as long as the reply is being sent. Looking things up needs none.

    It comes after the caller is known and the body is read, so that neither a stranger nor a slow
    sender can take one.
    """
    if request.method != "POST":
        yield
        return
    admission: Admission = request.app.state.admission
    async with admission.place():
        yield
