"""`ragstone serve`: the HTTP server."""

from __future__ import annotations

import signal
import socket
import sys
from contextlib import suppress
from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import err
from ragstone.errors import SettingsError


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one.")] = None,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Serve the page and the HTTP API until Ctrl-C. Interactive documentation is at /docs.

    Examples:

      ragstone serve

      ragstone serve --port 9000 --data /srv/ragstone
    """
    import uvicorn

    from ragstone.server.app import create_app

    loaded = options.load(data, config, preset, set, **{"server.host": host, "server.port": port})
    server = loaded.settings.server
    listener = _listen(server.host, server.port)
    engine = options.open_engine(loaded)
    address = f"http://{server.host}:{listener.getsockname()[1]}"
    err().print(f"Ragstone listens on [bold]{address}[/] · documentation at {address}/docs")
    config_ = uvicorn.Config(
        create_app(engine, loaded.listing), log_level="warning", access_log=False
    )
    # uvicorn ends in good order on both signals and then raises them again for whoever started it;
    # a server that was asked to stop and did has not failed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config_).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Take the port before anything else is started, so that a taken one is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingsError(
            f"The server cannot listen on {host}:{port}: {reason}.",
            hint="Choose another with --port; --port 0 picks a free one.",
        ) from error
    return listener
