"""Run `ragstone keys`: create, list and revoke the API keys of the server."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, stderr, stdout
from ragstone.errors import InputError

if TYPE_CHECKING:
    from ragstone.catalog.keys import Key, KeyRing, Role
    from ragstone.settings import LoadedSettings

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke the API keys of the server.")

_SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@app.command("create")
def create(
    owner: Annotated[
        str, typer.Argument(help="Owner of the key, and of its sessions and history.")
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
    with _open_keyring(options.load_settings(data, config)) as ring:
        secret, key = ring.create(
            owner,
            role=_parse_role(role),
            collections=allowed,
            expires_in_s=_parse_duration(expires),
        )
    if json:
        print_json({"key": secret, **_dump_key(key)})
        return
    typer.echo(secret)
    stderr().print(f"[dim]Key {key.id} of {owner}, {role}. It will not be shown again.[/]")


@app.command("list")
def list_keys(
    json: options.Json = False, data: options.DataDir = None, config: options.ConfigFile = None
) -> None:
    """List all keys, newest first, with those that are expired or revoked.

    Example:  ragstone keys list
    """
    with _open_keyring(options.load_settings(data, config)) as ring:
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


@app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="Key id from `ragstone keys list`.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Revoke a key; running servers refuse it within a second.

    Example:  ragstone keys revoke 4f2a9c01
    """
    with _open_keyring(options.load_settings(data, config)) as ring:
        key = ring.revoke(key_id)
    stdout().print(f"Revoked the key {key.id} of {key.owner}.")


@contextmanager
def _open_keyring(loaded: LoadedSettings) -> Iterator[KeyRing]:
    from ragstone.catalog.keys import KeyRing
    from ragstone.files import create_data_directory
    from ragstone.parts import open_catalog

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
