"""Run `ragstone serve`, `mcp` and `keys`: the HTTP server, the MCP server, and their API keys."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.catalog import schema
from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, stderr, stdout
from ragstone.errors import InputError, ProviderError, SettingsError

if TYPE_CHECKING:
    from ragstone.catalog.keys import Key, KeyRing, Role
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
    from ragstone.server.limits import RateLimits
    from ragstone.server.run import list_keyless_hosts, run_server

    _check_parts(loaded)
    RateLimits(loaded.settings)  # refuses limits and addresses that it cannot read
    server = loaded.settings.server
    only_hosts = list_keyless_hosts(loaded.settings, insecure=insecure)
    listener = open_listener(server.host, server.port)
    address = f"http://{server.host}:{listener.getsockname()[1]}"
    if mcp_only:
        stderr().print(f"Ragstone serves assistants at [bold]{address}/mcp[/]")
    else:
        stderr().print(f"Ragstone listens on [bold]{address}[/] · documentation at {address}/docs")
    run_server(loaded, listener, only_hosts=only_hosts, only_mcp=mcp_only)


def _check_parts(loaded: LoadedSettings) -> None:
    """Refuse settings that name a part which cannot be opened, before the server listens.

    With --strict, also a provider that cannot answer.
    """
    with options.open_engine(loaded) as engine:
        engine.open()
        if not loaded.settings.provider.strict:
            return
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


keys_app = typer.Typer(
    no_args_is_help=True, help="Create, list and revoke the API keys of the server."
)

_SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@keys_app.command("create")
def create_key(
    owner: Annotated[
        str,
        typer.Argument(metavar="OWNER", help="Owner of the key, and of its sessions and history."),
    ],
    role: Annotated[str, typer.Option(help="reader, writer or admin.")] = "reader",
    collection: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", "-C", metavar="NAME", help="Allowed name or 'team-*'; repeatable."
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Lifetime, e.g. 90d or 12h (default: unlimited)."),
    ] = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Create a key and print it. It is shown only once; the catalog stores its hash.

    A reader searches and asks, a writer also adds and deletes documents, an admin may do
    everything in every collection. Without --collection a key allows the collection 'default'.

    Examples:

      ragstone keys create alice --role writer -C wiki -C 'chat_alice-*' --expires 90d

      ragstone keys create monitoring
    """
    # An admin may use every collection, whichever are named: the list shows that.
    allowed = ("*",) if role == "admin" else tuple(collection or ["default"])
    known_role, seconds = _parse_role(role), _parse_duration(expires)
    with _open_keyring(options.load_settings(data, config)) as ring:
        secret, key = ring.create(owner, role=known_role, collections=allowed, expires_in_s=seconds)
    if json:
        print_json({"key": secret, **_dump_key(key)})
        return
    typer.echo(secret)
    stderr().print(f"[dim]Key {key.id} of {owner}, {role}. It will not be shown again.[/]")


@keys_app.command("list")
def list_keys(
    json: options.Json = False, data: options.DataDir = None, config: options.ConfigFile = None
) -> None:
    """List all keys, newest first, with those that are expired or revoked.

    Example:  ragstone keys list
    """
    with _open_keyring(options.load_settings(data, config), existing=data) as ring:
        keys = ring.list()
    if json:
        print_json([_dump_key(key) for key in keys])
    elif keys:
        rows = [
            (
                key.id,
                key.owner,
                key.role,
                ", ".join(key.collections),
                key.state,
                _format_expiry(key),
            )
            for key in keys
        ]
        print_table(["id", "owner", "role", "collections", "state", "expires (UTC)"], rows)
    else:
        stdout().print(
            "No keys yet: the server needs none, and accepts requests from this machine only."
        )


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Key id from `ragstone keys list`.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Revoke a key; running servers refuse it within a second.

    Example:  ragstone keys revoke 4f2a9c01
    """
    with _open_keyring(options.load_settings(data, config), existing=data) as ring:
        key = ring.revoke(options.complete_id(ring.catalog, schema.keys.c.id, key_id))
    stdout().print(f"Revoked the key {key.id} of {key.owner}.")


@contextmanager
def _open_keyring(loaded: LoadedSettings, *, existing: Path | None = None) -> Iterator[KeyRing]:
    from ragstone.catalog.keys import KeyRing
    from ragstone.files import create_data_directory
    from ragstone.parts import open_catalog

    options.refuse_new_directory(loaded, existing)
    settings = loaded.settings
    catalog = open_catalog(settings, create_data_directory(settings.data.directory))
    try:
        yield KeyRing(catalog)
    finally:
        catalog.close()


def _parse_role(text: str) -> Role:
    from ragstone.catalog.keys import ROLES

    if text not in ROLES:
        raise InputError(f"Invalid role '{text}'.", hint=f"Use one of: {', '.join(ROLES)}.")
    return text


def _parse_duration(text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if match is None:
        raise InputError(f"Invalid lifetime '{text}'.", hint="Use e.g. 90d, 12h, 30m or 2w.")
    return int(match[1]) * _SECONDS_PER_UNIT[match[2]]


def _format_expiry(key: Key) -> str:
    if key.expires_at is None:
        return "never"
    return datetime.fromtimestamp(key.expires_at, UTC).strftime("%Y-%m-%d %H:%M")


def _dump_key(key: Key) -> dict[str, object]:
    return {**dataclasses.asdict(key), "state": key.state}
