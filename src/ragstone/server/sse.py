"""Server-sent events, and work that ends when its client has gone.

A stream of events → `data: {…}` lines as they happen. A failure before the first event is an
ordinary problem document; one after it is an event of the type `error`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ragstone.errors import RagstoneError
from ragstone.server.errors import ClientGoneError, problem_of

log = logging.getLogger(__name__)

T = TypeVar("T")
# Proxies must pass each event on at once.
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
EVENTS = "text/event-stream"


def wants_events(request: Request) -> bool:
    """Whether the client asks for a stream by its Accept header."""
    return EVENTS in request.headers.get("accept", "")


async def while_here(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled as soon as the client has gone."""
    return await unless(hung_up(request.receive), work)


async def unless(gone: Coroutine[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when `gone` is over before it."""
    task, over = asyncio.create_task(work), asyncio.create_task(gone)
    try:
        await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        await _end(task, over)


async def begun(request: Request, events: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The same events, with the first one already there: what fails before it fails plainly."""
    first = await while_here(request, _next(events))

    async def all_of_them() -> AsyncGenerator[T, None]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return all_of_them()


class EventStream(Response):
    """Sends each value as a `data:` line. When the client goes, the work behind it is cancelled."""

    media_type = EVENTS

    def __init__(
        self, request: Request, events: AsyncGenerator[dict[str, Any], None], *, last: str = ""
    ) -> None:
        super().__init__(media_type=EVENTS, headers=_HEADERS)
        del self.headers["content-length"]
        self._request = request
        self._events = events
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer, gone = asyncio.create_task(self._write(send)), asyncio.create_task(hung_up(receive))
        try:
            await asyncio.wait({writer, gone}, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                writer.result()
        finally:
            await _end(writer, gone)

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._events) as events:
            async for line in self._lines(events):
                await send({"type": "http.response.body", "body": line.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _lines(self, events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
        try:
            async for event in events:
                yield data_line(event)
        except RagstoneError as error:
            yield data_line({"type": "error", **problem_of(self._request, error)})
        except Exception:
            # The reply has begun, so no handler can turn this into a status.
            log.exception("a stream failed")
            yield data_line({"type": "error", **problem_of(self._request, None)})
        if self._last:
            yield f"data: {self._last}\n\n"


def data_line(fields: dict[str, Any]) -> str:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n"


async def _next(events: AsyncGenerator[T, None]) -> T:
    return await anext(events)


async def hung_up(receive: Receive) -> None:
    """Returns when the client has hung up. The body was read before, so nothing else can come."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what still runs, and wait until it has tidied up."""
    for task in tasks:
        task.cancel()
    waiting: list[Awaitable[Any]] = [*tasks]
    await asyncio.gather(*waiting, return_exceptions=True)
