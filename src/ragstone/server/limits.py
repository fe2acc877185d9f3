"""What every request passes through: limits on where it is sent to, its size and its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.catalog.keys import KeyRing
from ragstone.errors import DeadlineError, ForbiddenError, OverloadedError, SettingsError
from ragstone.observe.metrics import WAITING, WRITING
from ragstone.server.errors import BodyTooLargeError, explained, problem, problem_of
from ragstone.server.sse import EVENTS, data_line
from ragstone.settings.services import ServerSettings


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


_HINT = "See /docs for all addresses."
# What a client needs beside the words.
_KEPT = ("allow", "content-range")
_WORDS = 500
_STATUSES = frozenset(status.value for status in HTTPStatus)


class ForeignFailures:
    """Lets every reply pass but a refusal that is no JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun: Message | None = None
        words = b""

        async def told(message: Message) -> None:
            nonlocal begun, words
            if message["type"] == "http.response.start" and _is_foreign(message):
                begun = message
            elif begun is None:
                await send(message)
            else:
                words += message.get("body", b"")[:_WORDS]
                if not message.get("more_body"):
                    await _problem(scope, begun, words)(scope, receive, send)

        await self._app(scope, receive, told)


def _is_foreign(start: Message) -> bool:
    if start["status"] < HTTPStatus.BAD_REQUEST or start["status"] not in _STATUSES:
        return False  # nobody reads the reply to a client that has gone (499)
    return "json" not in MutableHeaders(raw=start["headers"]).get("content-type", "")


def _problem(scope: Scope, start: Message, words: bytes) -> ASGIApp:
    status = HTTPStatus(start["status"])
    said = words.decode("utf-8", "replace").strip().rstrip(".") or status.phrase
    reply = problem(Request(scope), status, f"{said}.", _HINT)
    headers = MutableHeaders(raw=start["headers"])
    reply.headers.update({name: headers[name] for name in _KEPT if name in headers})
    return reply


class BodyLimit:
    """Refuses a body as soon as it is longer than allowed, whatever its header says."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, max_upload_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_upload_bytes = max_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seen = 0
        brings_documents = scope.get("path", "").endswith("/documents")
        limit = self._max_upload_bytes if brings_documents else self._max_bytes

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise BodyTooLargeError(limit, "UPLOAD" if brings_documents else "BODY")
            return message

        await self._app(scope, counted if scope["type"] == "http" else receive, send)


class KnownHosts:
    """Refuses requests for another name, or from a page of another site.

    A server without keys trusts whoever reaches it on loopback, and so would a hostile web page
    in the same browser, by a name of its own that leads here (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], keys: KeyRing) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            # Once there are keys, one that is sent is looked at, and proves more than an address
            # can. Before that the header alone proves nothing: any page can send it.
            keyed = b"authorization" in headers or b"x-api-key" in headers
            if not self._is_for_us(headers) and not (keyed and self._keys.any()):
                error = ForbiddenError(
                    "Without a key this server answers only to this machine's own address.",
                    hint="Use http://127.0.0.1, or make a key with: ragstone keys create",
                )
                await explained(Request(scope), error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_for_us(self, headers: Mapping[bytes, bytes]) -> bool:
        named = [headers.get(b"host", b"").decode("latin-1")]
        if b"origin" in headers:  # "null" for a page in a sandbox: nobody's name
            named.append(headers[b"origin"].decode("latin-1").partition("://")[2])
        return all(_host_of(name) in self._hosts for name in named)


def _host_of(address: str) -> str:
    """The name without its port: [::1]:80 is ::1."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0].lower()


class Deadline:
    """Ends a request that takes too long; sending documents has limits of its own."""

    def __init__(self, app: ASGIApp, *, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith(("/documents", "/events")):
            await self._app(scope, receive, send)
            return
        begun: Message | None = None

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message
            await send(message)

        try:
            async with asyncio.timeout(self._seconds):
                await self._app(scope, receive, noted)
        except TimeoutError:
            error = DeadlineError(
                f"This took longer than {self._seconds:g} s and was ended.",
                hint="Ask for less, or raise RAGSTONE_SERVER_REQUEST_TIMEOUT_S.",
                retry_after_s=5,
            )
            if begun is None:
                await explained(Request(scope), error)(scope, receive, send)
            elif _is_stream(begun):
                last = data_line({"type": "error", **problem_of(Request(scope), error)})
                await send({"type": "http.response.body", "body": last.encode()})
            else:
                raise  # any other reply that was begun can only be cut off


def _is_stream(start: Message) -> bool:
    return EVENTS in Headers(raw=start["headers"]).get("content-type", "")
