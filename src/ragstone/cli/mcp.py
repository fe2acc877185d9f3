"""`ragstone mcp`: a server for assistants that speak the Model Context Protocol."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.errors import SettingsError


def mcp(
    collection: Annotated[
        str | None, typer.Option("--collection", "-C", metavar="NAME", help="What to look in.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Whose rights the assistant has; wanted as soon as there are keys."),
    ] = None,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Serve one assistant over standard input and output: search, fetch and ask.

    Over HTTP the same tools are at /mcp of `ragstone serve`. The key can also be given as
    RAGSTONE_MCP_KEY.

    Examples:

      ragstone mcp --data /srv/ragstone

      ragstone mcp --collection wiki --key rs_…
    """
    try:
        from ragstone.server.mcp import run_stdio
    except ImportError as error:
        raise SettingsError(
            "The Model Context Protocol is not installed.", hint="Try: pip install 'ragstone[mcp]'"
        ) from error
    from ragstone.engine import Engine
    from ragstone.observe import logs
    from ragstone.server.auth import LOCAL, admitted
    from ragstone.stores.keys import KeyRing

    settings = options.load(data, config, preset, set, **{"server.mcp_key": key}).settings
    logs.configure(settings.observe)
    engine = Engine(settings)
    ring = KeyRing(engine.catalog)
    caller = admitted(ring, settings.server.mcp_key.get_secret_value()) if ring.any() else LOCAL
    asyncio.run(run_stdio(engine, caller, collection))
