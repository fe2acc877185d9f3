"""Reply to a client for as long as it is there: cancel work when it leaves, send events.

Server-sent events: JSON values → `data: {…}` lines as they happen. A failure before the first event
is an ordinary problem document; one after it is an event of the type `error`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ragstone.errors import RagstoneError
from ragstone.server.errors import ClientGoneError, build_error_event

log = logging.getLogger(__name__)

T = TypeVar("T")
# Proxies must pass each event on at once.
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
EVENT_STREAM = "text/event-stream"


async def run_until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it if the client disconnects first."""
    return await run_until(wait_for_disconnect(request.receive), work)


async def run_until(end: Coroutine[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it and raise if `end` returns first."""
    task, ending = asyncio.create_task(work), asyncio.create_task(end)
    try:
        await asyncio.wait({task, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        task.cancel()
        ending.cancel()
        await asyncio.gather(task, ending, return_exceptions=True)  # until both have cleaned up


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected. The body was read before, so nothing else comes."""
    while (await receive())["type"] != "http.disconnect":
        pass


def is_stream_wanted(request: Request) -> bool:
    """Check if the Accept header asks for a stream."""
    return EVENT_STREAM in request.headers.get("accept", "")


async def start_events(
    request: Request, events: AsyncGenerator[T, None]
) -> AsyncGenerator[T, None]:
    """Wait for the first event, so that a failure before it still decides the HTTP status."""

    async def read_first() -> T:
        return await anext(events)

    first = await run_until_disconnect(request, read_first())

    async def replay() -> AsyncGenerator[T, None]:
        async with aclosing(events):
            yield first
            async for event in events:
                yield event

    return replay()


class EventStream(Response):
    """Send each value as a `data:` line; cancel the work behind it when the client disconnects."""

    media_type = EVENT_STREAM

    def __init__(
        self, request: Request, events: AsyncGenerator[dict[str, Any], None], *, last: str = ""
    ) -> None:
        super().__init__(media_type=EVENT_STREAM, headers=_HEADERS)
        del self.headers["content-length"]
        self._request = request
        self._events = events
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientGoneError):
            await run_until(wait_for_disconnect(receive), self._write(send))

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self._events) as events:
            async for line in self._format_lines(events):
                await send({"type": "http.response.body", "body": line.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _format_lines(self, events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
        try:
            async for event in events:
                yield format_event(event)
        except RagstoneError as error:
            yield format_event(build_error_event(self._request, error))
        except Exception:
            # The reply has begun, so no handler can turn this into a status.
            log.exception("a stream failed")
            yield format_event(build_error_event(self._request, None))
        if self._last:
            yield f"data: {self._last}\n\n"


def format_event(fields: dict[str, Any]) -> str:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n"
