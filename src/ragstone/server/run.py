"""Run the server: one process, or several over one data directory.

The stores allow it: the catalog has one writer at a time and readers that never wait, and every
process follows the index's manifest, so that documents which one process ingests are found by the
others at their next question.
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
from ragstone.observe.logs import configure_logging, start_watching
from ragstone.server.limits import is_loopback
from ragstone.server.memory import tune_allocator, tune_collector
from ragstone.server.schemas import Problem
from ragstone.settings import LoadedSettings, Settings
from ragstone.settings.sources import set_default_environment
from ragstone.system import receive_socket, reuse_address, share_socket

if TYPE_CHECKING:
    from fastapi import FastAPI
    from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
else:
    HttpProtocol = AutoHTTPProtocol

# The head of a request is a few kilobytes. Without a limit a client can hold thousands of
# connections open by sending a byte now and then; the deadline of a request begins after its head.
HEAD_TIMEOUT_S = 20.0
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
_BACKLOG = 4096
# A process that computes is not dead; only one that says nothing for this long is.
_HEALTHCHECK_TIMEOUT_S = 60


class GuardedProtocol(HttpProtocol):
    """Add to uvicorn's protocol a time limit for heads, and problem documents for bad requests."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_busy():
            self._stop_timer()
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, msg, "Send a request in HTTP/1.1.")

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        return cycle is not None and not cycle.response_complete

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._refuse_slow_head)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse_slow_head(self) -> None:
        self._head_timer = None
        if not self._is_busy():
            detail = f"The head of the request did not arrive within {HEAD_TIMEOUT_S:g} s."
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


@dataclass(frozen=True, slots=True)
class AppFactory:
    """Build the application inside the process that serves it."""

    loaded: LoadedSettings
    only_hosts: tuple[str, ...] = ()
    shared_metrics: str = ""
    only_mcp: bool = False

    def __call__(self) -> FastAPI:
        from ragstone.engine import Engine
        from ragstone.server.app import create_app

        settings = self.loaded.settings
        configure_logging(settings.observe)
        start_watching(settings)
        tune_allocator()
        app = create_app(
            Engine(settings),
            self.loaded.listing,
            only_hosts=self.only_hosts,
            only_mcp=self.only_mcp,
        )
        app.state.shared_metrics = self.shared_metrics
        tune_collector()
        return app


def run_server(
    loaded: LoadedSettings,
    listener: socket.socket,
    *,
    only_hosts: tuple[str, ...],
    only_mcp: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; running answers are finished first."""
    workers = loaded.settings.server.workers
    # Many small matrix products lose more by several threads than they win.
    set_default_environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if workers == 1:
        _run_one(AppFactory(loaded, only_hosts, only_mcp=only_mcp), listener)
        return
    with tempfile.TemporaryDirectory(prefix="ragstone-metrics-") as shared:
        set_default_environment(PROMETHEUS_MULTIPROC_DIR=shared)
        factory = AppFactory(loaded, only_hosts, shared, only_mcp)
        config = build_config(factory, workers=workers)
        Multiprocess(config, sockets=[listener]).run()


def _run_one(factory: AppFactory, listener: socket.socket) -> None:
    # uvicorn stops cleanly on both signals and then raises them again; a server that was asked to
    # stop has not failed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        uvicorn.Server(build_config(factory)).run(sockets=[listener])


def build_config(factory: AppFactory, *, workers: int = 1) -> uvicorn.Config:
    options = factory.loaded.settings.server
    return uvicorn.Config(
        factory,
        factory=True,
        workers=workers,
        log_config=None,
        access_log=False,
        # No endpoint uses WebSockets: a request to upgrade is answered as a plain one.
        ws="none",
        http=GuardedProtocol,
        forwarded_allow_ips=options.trusted_proxies,
        timeout_graceful_shutdown=options.shutdown_grace_s,
        timeout_worker_healthcheck=_HEALTHCHECK_TIMEOUT_S,
        backlog=_BACKLOG,
    )


def list_keyless_hosts(settings: Settings, *, insecure: bool) -> tuple[str, ...]:
    """List the host names for requests without a key (empty: all); refuse an unsafe address."""
    from ragstone.files import create_data_directory
    from ragstone.parts import open_catalog

    catalog = open_catalog(settings, create_data_directory(settings.data.directory))
    try:
        if KeyRing(catalog).has_keys() or insecure:
            return ()
    finally:
        catalog.close()
    host = settings.server.host
    if is_loopback(host):
        return (*_LOOPBACK_HOSTS, host)
    raise SettingsError(
        f"The server would be open to everybody who can reach {host}: there are no keys.",
        hint="Create one with: ragstone keys create NAME --role admin, or add --insecure.",
    )


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
    listener = FairListener(family, socket.SOCK_STREAM)
    reuse_address(listener)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # clients wait here while the models are loaded
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"The server cannot listen on {host}:{port}: {reason}.",
            hint="Choose another with --port; --port 0 picks a free one.",
        ) from error
    return listener
