"""Run the server: one process, or several over one data directory.

The stores allow it: the catalog has one writer at a time and readers that never wait, and every
process follows the index's manifest, so that documents which one process ingests are found by the
others at their next question.
"""

from __future__ import annotations

import gc
import secrets
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.supervisors import Multiprocess

from ragstone.catalog.keys import KeyRing
from ragstone.errors import SettingsError
from ragstone.observe.logs import configure_logging, start_watching
from ragstone.processes import end_with_parent
from ragstone.server.connections import BACKLOG, GuardedProtocol, raise_connection_limit
from ragstone.server.limits import is_loopback
from ragstone.settings import LoadedSettings, Settings
from ragstone.settings.sources import set_default_environment
from ragstone.system import find_libc_function

if TYPE_CHECKING:
    from fastapi import FastAPI

_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
# A process that computes is not dead; only one that says nothing for this long is.
_HEALTHCHECK_TIMEOUT_S = 60
# The numbers of these options in glibc (malloc.h).
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8


@dataclass(frozen=True, slots=True)
class AppFactory:
    """Build the application inside the process that serves it."""

    loaded: LoadedSettings
    only_hosts: tuple[str, ...] = ()
    shared_metrics: str = ""
    only_mcp: bool = False
    answers_secret: bytes = b""

    def __call__(self) -> FastAPI:
        from ragstone.engine import Engine
        from ragstone.server.app import create_app

        settings = self.loaded.settings
        if settings.server.workers > 1:
            end_with_parent()
        configure_logging(settings.observe)
        start_watching(settings)
        raise_connection_limit()
        tune_allocator()
        engine = Engine(settings)
        engine.answers_secret = self.answers_secret
        app = create_app(
            engine,
            loaded=self.loaded,
            only_hosts=self.only_hosts,
            only_mcp=self.only_mcp,
        )
        app.state.shared_metrics = self.shared_metrics
        app.state.is_own_process = True
        tune_collector()
        return app


def run_server(
    loaded: LoadedSettings,
    listener: socket.socket,
    *,
    only_hosts: tuple[str, ...],
    only_mcp: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; running answers have a few seconds to finish."""
    workers = loaded.settings.server.workers
    # Many small matrix products lose more by several threads than they win.
    set_default_environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    if workers == 1:
        _run_one(AppFactory(loaded, only_hosts, only_mcp=only_mcp), listener)
        return
    with tempfile.TemporaryDirectory(prefix="ragstone-metrics-") as shared:
        set_default_environment(PROMETHEUS_MULTIPROC_DIR=shared)
        factory = AppFactory(loaded, only_hosts, shared, only_mcp, secrets.token_bytes(32))
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
        backlog=BACKLOG,
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


def tune_collector() -> None:
    """Exclude everything that exists at the start from garbage collection.

    Half a million objects of libraries and models cost 0.4 ms of every repeated answer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


def tune_allocator() -> None:
    """Use two arenas for all threads, and return large blocks to the system when they are free.

    glibc gives each thread an arena of its own, and takes ever larger blocks from them once one
    was freed; what lies between two blocks in use is never returned.
    """
    mallopt = find_libc_function("mallopt")
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)
