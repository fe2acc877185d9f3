"""What every request passes through: limits on where it is sent to, its size and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.errors import DeadlineError, ForbiddenError
from ragstone.server.errors import BodyTooLargeError, explained, problem_of
from ragstone.server.sse import EVENTS, data_line
from ragstone.stores.keys import KeyRing


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
