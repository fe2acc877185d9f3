"""Every request is given its id, timed, counted and written down in one line."""

from __future__ import annotations

import re
import time
import uuid

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.observe.metrics import IN_FLIGHT, REQUEST_SECONDS, REQUESTS

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
