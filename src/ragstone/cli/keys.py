"""`ragstone keys`: who may use the server, and for what."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli import options
from ragstone.cli.options import err, out, print_json, print_table
from ragstone.errors import InputError

if TYPE_CHECKING:
    from ragstone.catalog.keys import Key, KeyRing, Role
    from ragstone.settings import LoadedSettings

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of the server.")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@app.command("create")
def create(
    owner: Annotated[str, typer.Argument(help="Whose key it is; sessions and history are theirs.")],
    role: Annotated[str, typer.Option(help="reader, writer or admin.")] = "reader",
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-C", metavar="NAME", help="A name or 'team-*'; repeatable."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="90d, 12h …; without it, never.")
    ] = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Make a key and print it. It is shown this once; only its hash is kept.

    A reader searches and asks, a writer also adds and deletes documents, an admin may do
    everything in every collection. Without --collection a key is for the collection 'default'.

    Examples:

      ragstone keys create alice --role writer -C wiki -C 'chat_alice-*' --expires 90d

      ragstone keys create monitoring
    """
    everywhere = role == "admin"  # whatever is named: so the list should not say less
    wanted = ("*",) if everywhere else tuple(collection or ["default"])
    with _ring(options.load(data, config, None, None)) as ring:
        secret, key = ring.create(
            owner, role=_role(role), collections=wanted, expires_in_s=_seconds(expires)
        )
    if json:
        print_json({"key": secret, **_fields(key)})
        return
    typer.echo(secret)
    err().print(f"[dim]Key {key.id} of {owner}, {role}. It is not shown again.[/]")


@app.command("list")
def list_keys(
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List the keys, newest first, also those that no longer open anything.

    Example:  ragstone keys list
    """
    with _ring(options.load(data, config, None, None)) as ring:
        keys = ring.list()
    if json:
        print_json([_fields(key) for key in keys])
    elif keys:
        rows = [
            (key.id, key.owner, key.role, ", ".join(key.collections), key.state, _expiry(key))
            for key in keys
        ]
        print_table(["id", "owner", "role", "collections", "state", "expires (UTC)"], rows)
    else:
        out().print("No keys yet: the server is open, on this machine only.")


@app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `ragstone keys list` prints it.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Revoke a key; running servers refuse it within a second.

    Example:  ragstone keys revoke 4f2a9c01
    """
    with _ring(options.load(data, config, None, None)) as ring:
        key = ring.revoke(key_id)
    out().print(f"Revoked the key {key.id} of {key.owner}.")


@contextmanager
def _ring(loaded: LoadedSettings) -> Iterator[KeyRing]:
    from ragstone.catalog.keys import KeyRing
    from ragstone.engine import open_catalog
    from ragstone.files import prepare

    settings = loaded.settings
    catalog = open_catalog(settings, prepare(settings.data.directory))
    try:
        yield KeyRing(catalog)
    finally:
        catalog.close()


def _role(given: str) -> Role:
    from ragstone.catalog.keys import ROLES

    if given not in ROLES:
        raise InputError(f"'{given}' is no role.", hint=f"Roles are {', '.join(ROLES)}.")
    return given


def _seconds(given: str | None) -> float | None:
    if given is None:
        return None
    found = re.fullmatch(r"(\d{1,6})([smhdw])", given)
    if found is None:
        raise InputError(f"'{given}' is no time.", hint="Write 90d, 12h, 30m or 2w.")
    return int(found[1]) * _UNITS[found[2]]


def _expiry(key: Key) -> str:
    if key.expires_at is None:
        return "never"
    return datetime.fromtimestamp(key.expires_at, UTC).strftime("%Y-%m-%d %H:%M")


def _fields(key: Key) -> dict[str, object]:
    return {**dataclasses.asdict(key), "state": key.state}
