"""Failures that a library words by itself (a bad Range, a bad MCP header) → problem documents."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragstone.server.errors import problem

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
