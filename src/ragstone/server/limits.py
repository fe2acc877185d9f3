"""What every request passes through: its id, and the limit on its size."""

from __future__ import annotations

import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.server.errors import BodyTooLargeError

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestId:
    """Takes X-Request-ID or makes one, and sends it back with the reply."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = given.decode() if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def tagged(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()), (b"x-request-id", request_id.encode()),
                ]  # fmt: skip
            await send(message)

        await self._app(scope, receive, tagged)


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
