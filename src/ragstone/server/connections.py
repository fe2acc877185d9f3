"""Accept connections: without delay, fairly between processes, and never more than there are files.

A connection that says nothing costs a file descriptor. When there are as many connections as this
process can hold, the one that has been silent longest is closed in favour of the new one.
"""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ragstone.errors import SettingsError
from ragstone.server.schemas import Problem
from ragstone.system import raise_file_limit, receive_socket, reuse_address, share_socket

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
else:
    HttpProtocol = AutoHTTPProtocol

# The head of a request is a few kilobytes. Without a limit a client can hold thousands of
# connections open by sending a byte now and then; the deadline of a request begins after its head.
HEAD_TIMEOUT_S = 20.0
# A client that connects has something to say. Browsers that connect ahead connect again.
SILENT_TIMEOUT_S = 5.0
BACKLOG = 4096
_FILES_WANTED = 65_536


def raise_connection_limit() -> None:
    """Allow as many open files as the system lets this process have; a quarter stays for stores."""
    GuardedProtocol.max_connections = raise_file_limit(_FILES_WANTED) * 3 // 4


class GuardedProtocol(HttpProtocol):
    """Add to uvicorn's protocol limits of time and number, and problem documents for refusals."""

    max_connections: ClassVar[int] = 10_000
    """How many connections this process holds at once."""
    _open: ClassVar[int] = 0
    _idle: ClassVar[dict[GuardedProtocol, None]] = {}
    """The connections without a request, longest idle first."""

    _head_timer: asyncio.TimerHandle | None = None
    _has_spoken = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        GuardedProtocol._open += 1
        if GuardedProtocol._open > self.max_connections:
            self._make_room()
        self._idle[self] = None
        self._start_timer(SILENT_TIMEOUT_S)

    def data_received(self, data: bytes) -> None:
        if not self._has_spoken:
            self._has_spoken = True
            self._stop_timer()
        super().data_received(data)
        if self._is_busy():
            self._stop_timer()
            self._idle.pop(self, None)
        else:
            self._start_timer(HEAD_TIMEOUT_S)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_busy() and not self.transport.is_closing():
            self._idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        GuardedProtocol._open -= 1
        self._idle.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, msg, "Send a request in HTTP/1.1.")

    def _make_room(self) -> None:
        """Close the connection that has been idle longest; refuse this one if all are in use."""
        idle = next(iter(self._idle), None)
        if idle is not None:
            del self._idle[idle]
            idle.transport.abort()
            return
        detail = f"The server holds {self.max_connections} connections, and all are in use."
        self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, detail, "Try again in a few seconds.")

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        return cycle is not None and not cycle.response_complete

    def _start_timer(self, timeout_s: float) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(timeout_s, self._refuse_slow_head, timeout_s)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse_slow_head(self, timeout_s: float) -> None:
        self._head_timer = None
        if not self._is_busy():
            detail = f"The head of the request did not arrive within {timeout_s:g} s."
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, detail, "Send the whole request at once.")

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


class FairListener(socket.socket):
    """Accept one connection at a time, so that each of several processes gets its share.

    asyncio accepts all that wait at once: of a thousand clients that connect together, the process
    that wakes first would get nearly all, and the others would be idle.
    """

    _has_accepted = False

    def accept(self) -> tuple[socket.socket, Any]:
        if self._has_accepted:
            self._has_accepted = False
            raise BlockingIOError  # as if no other were waiting; the loop tries again at once
        accepted = super().accept()
        self._has_accepted = True
        return accepted

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_listener, (share_socket(self), self.family, self.type, self.proto)


def _rebuild_listener(sent: Any, family: int, kind: int, protocol: int) -> FairListener:
    return FairListener(family, kind, protocol, fileno=receive_socket(sent))


def open_listener(host: str, port: int) -> socket.socket:
    """Open the port before anything else is started, so that a used one is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP. Without it every reply on a
    # kept connection waits 40 ms for the client's delayed acknowledgement (`bench/load.py`).
    listener = FairListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    reuse_address(listener)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # clients wait here while the models are loaded
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"The server cannot listen on {host}:{port}: {reason}.",
            hint="Choose others with --host and --port; --port 0 picks a free port.",
        ) from error
    return listener
