"""`ragstone serve`: the HTTP server."""

from __future__ import annotations

from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import err


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", help="Processes over one data directory.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve another address than loopback without keys.")
    ] = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Serve the page and the HTTP API until Ctrl-C. Interactive documentation is at /docs.

    Examples:

      ragstone serve

      ragstone serve --port 9000 --data /srv/ragstone

      ragstone keys create alice --role admin && ragstone serve --host 0.0.0.0 --workers 4
    """
    flags = {"server.host": host, "server.port": port, "server.workers": workers}
    loaded = options.load(data, config, preset, set, **flags)
    from ragstone.server.run import hosts_without_key, listen, run

    settings = loaded.settings
    server = settings.server
    listener = listen(server.host, server.port)
    only_hosts = hosts_without_key(settings, insecure=insecure)
    address = f"http://{server.host}:{listener.getsockname()[1]}"
    err().print(f"Ragstone listens on [bold]{address}[/] · documentation at {address}/docs")
    run(loaded, listener, only_hosts=only_hosts)
