"""Wrap every request: id and log, problem replies, host check, rate limit, deadline, body size."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Collection, Mapping
from http import HTTPStatus

import structlog
from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.catalog.keys import KeyRing
from ragstone.errors import DeadlineError, ForbiddenError, TooManyRequestsError
from ragstone.observe.metrics import IN_FLIGHT, REQUEST_SECONDS, REQUESTS
from ragstone.server.errors import (
    SEE_DOCS,
    BodyTooLargeError,
    build_error_event,
    respond_to_error,
    respond_with_problem,
)
from ragstone.server.limits import RateLimits
from ragstone.server.sse import EVENT_STREAM, format_event

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# A client may invent others, and each would be a line of the metrics for ever.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Machines request these every few seconds; their lines would hide the others.
_UNLOGGED_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
# Headers of a foreign reply that the client needs beside its text.
_KEPT_HEADERS = ("allow", "content-range")
_MAX_DETAIL_BYTES = 500
_STATUSES = frozenset(status.value for status in HTTPStatus)


class RequestLog:
    """Give each request an id (or take its X-Request-ID), time it, count it and log one line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._log = structlog.get_logger("ragstone")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # The same without a body (RFC 9110); uvicorn leaves it out.
            scope = {**scope, "method": "GET"}
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = given.decode() if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                own = (b"x-request-id", request_id.encode())
                message["headers"] = [*message.get("headers", ()), own]
            await send(message)

        started = time.perf_counter()
        IN_FLIGHT.inc()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                IN_FLIGHT.dec()
                self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, duration_s: float) -> None:
        """Name the route by its pattern, not its path, which may hold names and questions."""
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        REQUESTS.labels(method, route, status or "cut off").inc()
        REQUEST_SECONDS.labels(route).observe(duration_s)
        if route not in _UNLOGGED_PATHS:
            caller = scope["state"].get("caller")
            self._log.info(
                "request",
                method=method,
                endpoint=route,
                status=status or None,
                duration_ms=round(duration_s * 1000, 3),
                key_id=caller.key_id if caller else None,
            )


class ProblemReplies:
    """Turn error replies that are not JSON, e.g. of a framework, into problem documents."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        text = b""

        async def send_as_problem(message: Message) -> None:
            nonlocal start, text
            if message["type"] == "http.response.start" and _is_foreign_error(message):
                start = message
            elif start is None:
                await send(message)
            else:
                text += message.get("body", b"")[:_MAX_DETAIL_BYTES]
                if not message.get("more_body"):
                    await _rewrite_as_problem(scope, start, text)(scope, receive, send)

        await self._app(scope, receive, send_as_problem)


def _is_foreign_error(start: Message) -> bool:
    if start["status"] < HTTPStatus.BAD_REQUEST or start["status"] not in _STATUSES:
        return False  # nobody reads the reply to a client that has disconnected (499)
    return "json" not in Headers(raw=start["headers"]).get("content-type", "")


def _rewrite_as_problem(scope: Scope, start: Message, text: bytes) -> ASGIApp:
    status = HTTPStatus(start["status"])
    detail = text.decode("utf-8", "replace").strip().rstrip(".") or status.phrase
    reply = respond_with_problem(Request(scope), status, f"{detail}.", SEE_DOCS)
    headers = MutableHeaders(raw=start["headers"])
    reply.headers.update({name: headers[name] for name in _KEPT_HEADERS if name in headers})
    return reply


class HostCheck:
    """Refuse requests for another host name, or from a page of another site.

    A server without keys trusts everybody who reaches it on loopback. That includes a hostile web
    page in the same browser, by a name of its own that resolves to this machine (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], keys: KeyRing) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            # Once there are keys, one that is sent is checked later, and proves more than an
            # address can. Before that the header alone proves nothing: any page can send it.
            has_key = b"authorization" in headers or b"x-api-key" in headers
            if not self._is_allowed(headers) and not (has_key and self._keys.has_keys()):
                error = ForbiddenError(
                    "Without a key this server answers only to this machine's own address.",
                    hint="Use http://127.0.0.1, or create a key with: ragstone keys create",
                )
                await respond_to_error(Request(scope), error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_allowed(self, headers: Mapping[bytes, bytes]) -> bool:
        names = [headers.get(b"host", b"").decode("latin-1")]
        if b"origin" in headers:  # "null" for a page in a sandbox: never allowed
            names.append(headers[b"origin"].decode("latin-1").partition("://")[2])
        return all(_strip_port(name) in self._hosts for name in names)


def _strip_port(address: str) -> str:
    """Remove the port: [::1]:80 becomes ::1."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0].lower()


class AddressRateLimit:
    """Refuse an address that sends too many requests, before anything is read or looked up."""

    def __init__(self, app: ASGIApp, *, limits: RateLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await self._limits.count_address(scope)
            except TooManyRequestsError as error:
                await respond_to_error(Request(scope), error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class Deadline:
    """End a request that takes too long; sending documents has limits of its own."""

    def __init__(self, app: ASGIApp, *, timeout_s: float) -> None:
        self._app = app
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith(("/documents", "/events")):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_and_note(message: Message) -> None:
            nonlocal start
            start = start or message
            await send(message)

        try:
            async with asyncio.timeout(self._timeout_s):
                await self._app(scope, receive, send_and_note)
        except TimeoutError:
            error = DeadlineError(
                f"The request took longer than {self._timeout_s:g} s and was cancelled.",
                hint="Ask for less, or raise RAGSTONE_SERVER_REQUEST_TIMEOUT_S.",
                retry_after_s=5,
            )
            if start is None:
                await respond_to_error(Request(scope), error)(scope, receive, send)
            elif EVENT_STREAM in Headers(raw=start["headers"]).get("content-type", ""):
                last = format_event(build_error_event(Request(scope), error))
                await send({"type": "http.response.body", "body": last.encode()})
            else:
                raise  # any other reply that has begun can only be cut off


class BodyLimit:
    """Refuse a body as soon as it is longer than allowed, whatever its Content-Length says."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, max_upload_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_upload_bytes = max_upload_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        is_upload = scope.get("path", "").endswith("/documents")
        limit = self._max_upload_bytes if is_upload else self._max_bytes

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise BodyTooLargeError(limit, "UPLOAD" if is_upload else "BODY")
            return message

        await self._app(scope, receive_limited if scope["type"] == "http" else receive, send)
