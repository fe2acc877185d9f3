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
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ragstone.errors import RagstoneError
from ragstone.query.ground.cite import Marker, Notation, Statement, statements
from ragstone.server.errors import ClientGoneError, problem_of
from ragstone.types import Answer, Citation, Claim


def base_url(request: Request) -> str:
    """Where clients reach the server: as set, else as this request did."""
    public: str = request.app.state.engine.settings.server.public_url
    return (public or str(request.base_url)).rstrip("/")


def source_url(base: str, citation: Citation) -> str:
    return place_url(base, citation.document_id, citation.start, citation.end)


def place_url(base: str, document_id: str, start: int, end: int) -> str:
    return f"{base}/#/source/{quote(document_id, safe='')}/{start}/{end}"


def url_citations(answer: Answer, content: str, base: str) -> list[dict[str, Any]]:
    """A citation stands at its marker; where the client never saw one, at its sentence."""
    notation = Notation(answer.sources)
    said, markers = statements(content, notation), list(notation.find(content))
    found = []
    rest = list(answer.citations)
    for claim in answer.claims:
        for number in claim.citations:
            citation = _take(rest, number)
            place = _place(claim, number, said, markers)
            if citation is not None and place is not None:
                found.append(_annotation(citation, place, base))
    return found


def _take(rest: list[Citation], number: int) -> Citation | None:
    """The next citation with this number: they come in the order of the claims."""
    for place, citation in enumerate(rest):
        if citation.number == number:
            return rest.pop(place)
    return None


def _place(
    claim: Claim, number: int, said: list[Statement], markers: list[Marker]
) -> tuple[int, int] | None:
    # From the end: after a provider failed in the middle, a sentence may stand there twice.
    spoken = next((one for one in reversed(said) if one.text == claim.text), None)
    if spoken is None:
        return None
    own = (m for m in markers if spoken.start <= m.start < spoken.reach and number in m.numbers)
    return next(((m.start, m.end) for m in own), (spoken.start, spoken.end))


def _annotation(citation: Citation, place: tuple[int, int], base: str) -> dict[str, Any]:
    page = f", page {citation.page}" if citation.page else ""
    return {
        "type": "url_citation",
        "url_citation": {
            "start_index": place[0],
            "end_index": place[1],
            "url": source_url(base, citation),
            "title": f"{citation.document_name}{page}",
        },
    }


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
