"""Bytes that are no request yet: those that never will be are refused with a problem document too,
and whoever sends the head of a request too slowly is not waited for."""

from __future__ import annotations

import asyncio
import json
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ragstone.server.schemas import Problem

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
else:
    HttpProtocol = AutoHTTPProtocol

# A head is a few kilobytes. Without a limit a client can hold thousands of connections open by
# sending a letter now and then; the limit for a whole request begins only after its head.
HEAD_SECONDS = 20.0


class WireProtocol(HttpProtocol):
    """uvicorn's own protocol with these two things added."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_a_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_busy():
            self._stop_waiting()
        else:
            self._expect_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, msg, "Send a request in HTTP/1.1.")

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        return cycle is not None and not cycle.response_complete

    def _expect_a_head(self) -> None:
        if self._slow is None:
            self._slow = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        if not self._is_busy():
            said = f"The head of the request did not come within {HEAD_SECONDS:g} s."
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, said, "Send the whole request at once.")

    def _refuse(self, status: HTTPStatus, detail: str, hint: str) -> None:
        request_id = uuid.uuid4().hex
        problem = Problem(
            title=status.phrase, status=status, detail=detail, hint=hint, request_id=request_id
        )
        body = json.dumps(problem.model_dump()).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            "content-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\n"
            f"x-request-id: {request_id}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
