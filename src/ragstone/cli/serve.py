"""Run `ragstone serve` and `ragstone mcp`: the HTTP server and the MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli import options
from ragstone.cli.options import stderr
from ragstone.errors import ProviderError, SettingsError

if TYPE_CHECKING:
    from ragstone.settings import LoadedSettings, Settings


Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0: any free port.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Allow a public address without keys.")]
Workers = Annotated[int | None, typer.Option("--workers", "-w", help="Number of server processes.")]


def serve(
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    insecure: Insecure = False,
    strict: options.Strict = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Serve the web page and the HTTP API until Ctrl-C. The API documentation is at /docs.

    Examples:

      ragstone serve

      ragstone serve --port 9000 --data /srv/ragstone

      ragstone keys create alice --role admin && ragstone serve --host 0.0.0.0 --workers 4
    """
    flags = {
        "server.host": host,
        "server.port": port,
        "server.workers": workers,
        "provider.strict": strict or None,
    }
    _serve_http(options.load_settings(data, config, preset, set, **flags), insecure=insecure)


McpCollection = Annotated[
    str | None,
    typer.Option("--collection", "-C", metavar="NAME", help="Search only this collection."),
]
McpKey = Annotated[
    str | None, typer.Option(help="API key of the assistant; required if the server has keys.")
]
McpHttp = Annotated[
    bool, typer.Option("--http", help="Serve many assistants over streamable HTTP at /mcp.")
]


def mcp(
    collection: McpCollection = None,
    key: McpKey = None,
    http: McpHttp = False,
    host: Host = None,
    port: Port = None,
    insecure: Insecure = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Serve search, fetch and ask to AI assistants with the Model Context Protocol.

    By default serves one assistant over standard input and output; the key can also be given as
    RAGSTONE_MCP_KEY. With --http serves many: each request brings its own key, and
    ?collection=NAME names the collection. `ragstone serve` has the same endpoint.

    Examples:

      ragstone mcp --data /srv/ragstone

      ragstone mcp --collection wiki --key rs_…

      ragstone mcp --http --port 8643
    """
    try:
        import ragstone.server.mcp  # noqa: F401  is the extra installed?
    except ImportError as error:
        raise SettingsError(
            "The Model Context Protocol is not installed.", hint="Try: pip install 'ragstone[mcp]'"
        ) from error
    _refuse_mixed_options(
        http=http, stdio_options=(key, collection), http_options=(host, port, insecure or None)
    )
    flags = {"server.mcp_key": key, "server.host": host, "server.port": port}
    loaded = options.load_settings(data, config, preset, set, **flags)
    if http:
        _serve_http(loaded, insecure=insecure, mcp_only=True)
    else:
        _serve_stdio(loaded.settings, collection)


def _refuse_mixed_options(
    *, http: bool, stdio_options: Iterable[object], http_options: Iterable[object]
) -> None:
    if http and any(one is not None for one in stdio_options):
        raise SettingsError(
            "--key and --collection do not work with --http.",
            hint="Send them with each request: Authorization: Bearer KEY, /mcp?collection=NAME.",
        )
    if not http and any(one is not None for one in http_options):
        raise SettingsError("--host, --port and --insecure need --http.", hint="Add --http.")


def _serve_http(loaded: LoadedSettings, *, insecure: bool, mcp_only: bool = False) -> None:
    from ragstone.server.connections import open_listener
    from ragstone.server.run import list_keyless_hosts, run_server

    if loaded.settings.provider.strict:
        _refuse_dead_provider(loaded)
    server = loaded.settings.server
    listener = open_listener(server.host, server.port)
    only_hosts = list_keyless_hosts(loaded.settings, insecure=insecure)
    address = f"http://{server.host}:{listener.getsockname()[1]}"
    if mcp_only:
        stderr().print(f"Ragstone serves assistants at [bold]{address}/mcp[/]")
    else:
        stderr().print(f"Ragstone listens on [bold]{address}[/] · documentation at {address}/docs")
    run_server(loaded, listener, only_hosts=only_hosts, only_mcp=mcp_only)


def _refuse_dead_provider(loaded: LoadedSettings) -> None:
    """Do not start, with --strict, when the provider cannot answer."""
    with options.open_engine(loaded) as engine:
        health = options.probe_provider(engine)
    if health.state == "failing":
        raise ProviderError(health.message, hint=health.hint, detail=health.detail)


def _serve_stdio(settings: Settings, collection: str | None) -> None:
    from ragstone.catalog.keys import KeyRing
    from ragstone.engine import Engine
    from ragstone.observe.logs import configure_logging
    from ragstone.server.auth import LOCAL_CALLER, Caller, authenticate_key
    from ragstone.server.mcp import run_stdio

    configure_logging(settings.observe)
    engine = Engine(settings)
    if collection is not None:
        options.require_collection(engine, collection)
    ring = KeyRing(engine.catalog)

    def admit() -> Caller:
        secret = settings.server.mcp_key.get_secret_value()
        return authenticate_key(ring, secret) if ring.has_keys() else LOCAL_CALLER

    asyncio.run(run_stdio(engine, admit, collection))
