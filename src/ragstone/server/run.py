"""Running the server: one process, or several over one data directory.

The stores allow it: the catalog has one writer at a time and readers that never wait, and every
process follows the index's manifest, so what one has taken in the others find at their next
question.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from ragstone.catalog.keys import KeyRing
from ragstone.errors import SettingsError
from ragstone.observe import logs
from ragstone.observe.logs import watch
from ragstone.server.background import settle_allocator, settle_collector
from ragstone.server.rate import is_loopback
from ragstone.server.schemas import Problem
from ragstone.settings import LoadedSettings, Settings
from ragstone.settings.sources import tell_libraries
from ragstone.system import receive_socket, reuse_address, share_socket

if TYPE_CHECKING:
    from fastapi import FastAPI


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


_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_BACKLOG = 4096
# A process that computes is not dead; only one that says nothing for this long is.
_HEALTH_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Serving:
    """Makes the application in whichever process serves it."""

    loaded: LoadedSettings
    only_hosts: tuple[str, ...] = ()
    shared_metrics: str = ""
    only_assistants: bool = False

    def __call__(self) -> FastAPI:
        from ragstone.engine import Engine
        from ragstone.server.app import create_app

        settings = self.loaded.settings
        logs.configure(settings.observe)
        watch(settings)
        settle_allocator()
        app = create_app(
            Engine(settings), self.loaded.listing,
            only_hosts=self.only_hosts, only_assistants=self.only_assistants,
        )  # fmt: skip
        app.state.shared_metrics = self.shared_metrics
        settle_collector()
        return app


def run(
    loaded: LoadedSettings, listener: socket.socket, *, only_hosts: tuple[str, ...],
    only_assistants: bool = False,
) -> None:  # fmt: skip
    """Serve until SIGINT or SIGTERM; running answers are finished first."""
    workers = loaded.settings.server.workers
    # Many small products on several threads each cost more than they save.
    tell_libraries(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if workers == 1:
        _run_one(Serving(loaded, only_hosts, only_assistants=only_assistants), listener)
        return
    with tempfile.TemporaryDirectory(prefix="ragstone-metrics-") as shared:
        tell_libraries(PROMETHEUS_MULTIPROC_DIR=shared)
        serving = Serving(loaded, only_hosts, shared, only_assistants)
        config = config_of(serving, workers=workers)
        Multiprocess(config, sockets=[listener]).run()


def _run_one(serving: Serving, listener: socket.socket) -> None:
    # uvicorn ends in good order on both signals and then raises them again for whoever started it;
    # a server that was asked to stop and did has not failed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config_of(serving)).run(sockets=[listener])


def config_of(serving: Serving, *, workers: int = 1) -> uvicorn.Config:
    """How uvicorn is to serve it."""
    return uvicorn.Config(
        serving,
        factory=True,
        workers=workers,
        log_config=None,
        access_log=False,
        # No door speaks it: a request to upgrade is answered as the plain one that it also is.
        ws="none",
        http=WireProtocol,
        forwarded_allow_ips=serving.loaded.settings.server.trusted_proxies,
        timeout_graceful_shutdown=serving.loaded.settings.server.shutdown_grace_s,
        timeout_worker_healthcheck=_HEALTH_SECONDS,
        backlog=_BACKLOG,
    )


def hosts_without_key(settings: Settings, *, insecure: bool) -> tuple[str, ...]:
    """The names that a request without a key may be for; refused where none would be safe."""
    from ragstone.engine import open_catalog
    from ragstone.files import prepare

    catalog = open_catalog(settings, prepare(settings.data.directory))
    try:
        if KeyRing(catalog).any() or insecure:
            return ()
    finally:
        catalog.close()
    host = settings.server.host
    if is_loopback(host):
        return (*_LOOPBACK, host)
    raise SettingsError(
        f"The server would be open to everybody who can reach {host}: there are no keys.",
        hint="Make one with: ragstone keys create NAME --role admin, or add --insecure.",
    )


class Listener(socket.socket):
    """Accepts one connection at a time, so that each of several processes gets its share.

    asyncio takes all that wait in one go: of a thousand clients that come together, the process
    that wakes first would have nearly all, and the others nothing to do.
    """

    _has_taken = False

    def accept(self) -> tuple[socket.socket, Any]:
        if self._has_taken:
            self._has_taken = False
            raise BlockingIOError  # as if no other were waiting; the loop looks again at once
        found = super().accept()
        self._has_taken = True
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _handed_over, (share_socket(self), self.family, self.type, self.proto)


def _handed_over(sent: Any, family: int, kind: int, protocol: int) -> Listener:
    return Listener(family, kind, protocol, fileno=receive_socket(sent))


def listen(host: str, port: int) -> socket.socket:
    """Take the port before anything else is started, so that a taken one is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = Listener(family, socket.SOCK_STREAM)
    reuse_address(listener)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # who comes while the models are loaded waits a moment
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"The server cannot listen on {host}:{port}: {reason}.",
            hint="Choose another with --port; --port 0 picks a free one.",
        ) from error
    return listener
