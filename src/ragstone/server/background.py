"""Every request is given its id, timed, counted and written down in one line."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import time
import uuid
from collections.abc import Coroutine
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.engine import Engine
from ragstone.errors import StoreError
from ragstone.observe.metrics import IN_FLIGHT, REQUEST_SECONDS, REQUESTS
from ragstone.system import find_libc_function

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# A client may invent others, and each would be a line of the metrics for ever.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Looked at every few seconds by machines; their lines would drown the others.
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})


class Observed:
    """Takes X-Request-ID or makes one, puts it on every log line and sends it back."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._log = structlog.get_logger("ragstone")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # The same without a body (RFC 9110), which the server under us leaves out.
            scope = {**scope, "method": "GET"}
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = given.decode() if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def tagged(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                message["headers"] = [
                    *message.get("headers", ()), (b"x-request-id", request_id.encode()),
                ]  # fmt: skip
            await send(message)

        begun = time.perf_counter()
        IN_FLIGHT.inc()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, tagged)
            finally:
                IN_FLIGHT.dec()
                self._write_down(scope, status, time.perf_counter() - begun)

    def _write_down(self, scope: Scope, status: int, seconds: float) -> None:
        """By the door's pattern, not by the address: that one may hold names and questions."""
        door = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        REQUESTS.labels(method, door, status or "cut off").inc()
        REQUEST_SECONDS.labels(door).observe(seconds)
        if door not in _QUIET:
            caller = scope["state"].get("caller")
            self._log.info(
                "request", method=method, door=door, status=status or None,
                duration_ms=round(seconds * 1000, 3), key_id=caller.key_id if caller else None,
            )  # fmt: skip


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
