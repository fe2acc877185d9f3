"""What is no request yet, over a bare socket: refused in words, and never waited for for ever."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from ragstone.server import connections as wire
from ragstone.server.connections import GuardedProtocol, open_listener

from ..patience import LONG_S, wait_until
from .conftest import serve_application


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    async def application(scope, receive, send):  # type: ignore[no-untyped-def]
        if scope["type"] == "http":
            await Request(scope, receive).body()
            await PlainTextResponse("read")(scope, receive, send)

    for url in serve_application(application, http=GuardedProtocol):
        parts = urlsplit(url)
        yield str(parts.hostname), parts.port or 0


def spoken(address: tuple[str, int], *parts: bytes) -> bytes:
    """All that a server says to these bytes until it hangs up."""
    said = b""
    with socket.create_connection(address, timeout=LONG_S) as connection:
        for part in parts:
            connection.sendall(part)
        while part := connection.recv(65_536):
            said += part
    return said


def problem(said: bytes, status: int) -> dict[str, object]:
    head, _, body = said.rpartition(b"\r\n\r\n")
    assert f"HTTP/1.1 {status} ".encode() in head
    assert b"content-type: application/problem+json" in head
    found: dict[str, object] = json.loads(body)
    assert found["status"] == status
    assert f"x-request-id: {found['request_id']}".encode() in head
    return found


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n",
             b"\x00" * 99 + b"\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
             b"GET / HTTP/1.1\r\nHo\x00st: a\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_gets_a_problem_document(address: tuple[str, int], sent: bytes) -> None:
    assert "HTTP" in str(problem(spoken(address, sent), 400)["detail"])


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX-Half"])
def test_a_head_that_does_not_end_is_not_waited_for(
    address: tuple[str, int], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HEAD_TIMEOUT_S", 0.3)
    assert "head" in str(problem(spoken(address, sent), 408)["detail"])


def test_the_second_head_of_a_connection_is_watched_too(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_connection(address, timeout=LONG_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        monkeypatch.setattr(wire, "HEAD_TIMEOUT_S", 0.3)
        said = b""
        while not said.endswith(b"read"):
            said += connection.recv(65_536)
        connection.sendall(b"GET / HTTP/1.1\r\nHo")
        problem(connection.recv(65_536), 408)


@pytest.mark.slow
def test_a_body_may_take_longer_than_a_head(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HEAD_TIMEOUT_S", 2.0)
    with socket.create_connection(address, timeout=LONG_S) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
        connection.settimeout(2.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(LONG_S)
        connection.sendall(b"b")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")


def test_a_connection_that_says_nothing_is_closed_sooner_than_a_slow_head(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SILENT_TIMEOUT_S", 0.3)
    monkeypatch.setattr(wire, "HEAD_TIMEOUT_S", LONG_S)
    with socket.create_connection(address, timeout=LONG_S) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHo")
        problem(spoken(address), 408)
        slow.sendall(b"st: a\r\n\r\n")
        assert slow.recv(65_536).startswith(b"HTTP/1.1 200 OK")


def test_silent_connections_make_room_for_new_ones(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GuardedProtocol, "max_connections", 5)
    silent = [socket.create_connection(address, timeout=LONG_S) for _ in range(40)]
    with socket.create_connection(address, timeout=LONG_S) as busy:
        busy.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert busy.recv(65_536).startswith(b"HTTP/1.1 200 OK")
    assert silent[0].recv(1) == b""  # closed without a word, long before its time
    for one in silent:
        one.close()


def test_a_connection_beyond_those_in_use_is_refused(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_connection(address, timeout=LONG_S) as busy:
        busy.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
        wait_until(lambda: GuardedProtocol._open == 1 and not GuardedProtocol._idle)
        monkeypatch.setattr(GuardedProtocol, "max_connections", 1)
        assert "all are in use" in str(problem(spoken(address), 503)["detail"])
        busy.sendall(b"b")
        assert busy.recv(65_536).startswith(b"HTTP/1.1 200 OK")


async def test_every_accepted_connection_sends_without_delay() -> None:
    delays: list[int] = []

    class Noting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            own = transport.get_extra_info("socket")
            delays.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    loop = asyncio.get_running_loop()
    with open_listener("127.0.0.1", 0) as listener:
        async with await loop.create_server(Noting, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
    assert delays == [1]
