"""`ragstone serve`: the HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli import options
from ragstone.cli.options import err
from ragstone.errors import SettingsError

if TYPE_CHECKING:
    from ragstone.settings import LoadedSettings, Settings


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


def mcp(
    collection: Annotated[
        str | None, typer.Option("--collection", "-C", metavar="NAME", help="What to look in.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Whose rights the assistant has; wanted as soon as there are keys."),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve any number over streamable HTTP, at /mcp.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="With --http: address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="With --http: port; 0 picks a free one.")] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="With --http: another address than loopback, no keys."),
    ] = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Serve assistants: search, fetch and ask. One over standard input and output, or, with
    --http, many over streamable HTTP.

    Over standard input and output the key can also be given as RAGSTONE_MCP_KEY. Over HTTP each
    request brings its own key, and ?collection=NAME says what to look in; `ragstone serve` has the
    same door beside all others.

    Examples:

      ragstone mcp --data /srv/ragstone

      ragstone mcp --collection wiki --key rs_…

      ragstone mcp --http --port 8643
    """
    try:
        import ragstone.integrations.mcp  # noqa: F401  the extra must be there before anything starts
    except ImportError as error:
        raise SettingsError(
            "The Model Context Protocol is not installed.", hint="Try: pip install 'ragstone[mcp]'"
        ) from error
    _refuse_mixture(http=http, theirs=(key, collection), ours=(host, port, insecure or None))
    flags = {"server.mcp_key": key, "server.host": host, "server.port": port}
    loaded = options.load(data, config, preset, set, **flags)
    if http:
        _over_http(loaded, insecure=insecure)
    else:
        _over_stdio(loaded.settings, collection)


def _refuse_mixture(*, http: bool, theirs: Iterable[object], ours: Iterable[object]) -> None:
    if http and any(one is not None for one in theirs):
        raise SettingsError(
            "--key and --collection are for standard input and output.",
            hint="Over HTTP a request says both: Authorization: Bearer KEY, /mcp?collection=NAME.",
        )
    if not http and any(one is not None for one in ours):
        raise SettingsError("--host, --port and --insecure need --http.", hint="Add --http.")


def _over_http(loaded: LoadedSettings, *, insecure: bool) -> None:
    from ragstone.server.run import hosts_without_key, listen, run

    server = loaded.settings.server
    listener = listen(server.host, server.port)
    only_hosts = hosts_without_key(loaded.settings, insecure=insecure)
    address = f"http://{server.host}:{listener.getsockname()[1]}/mcp"
    err().print(f"Ragstone serves assistants at [bold]{address}[/]")
    run(loaded, listener, only_hosts=only_hosts, only_assistants=True)


def _over_stdio(settings: Settings, collection: str | None) -> None:
    from ragstone.catalog.keys import KeyRing
    from ragstone.engine import Engine
    from ragstone.integrations.mcp import run_stdio
    from ragstone.observe import logs
    from ragstone.server.auth import LOCAL, Caller, admitted

    logs.configure(settings.observe)
    engine = Engine(settings)
    if collection is not None:
        options.require_collection(engine, collection)
    ring = KeyRing(engine.catalog)

    def admit() -> Caller:
        secret = settings.server.mcp_key.get_secret_value()
        return admitted(ring, secret) if ring.any() else LOCAL

    asyncio.run(run_stdio(engine, admit, collection))
