"""The options that every command shares, and the engine they lead to."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstone.errors import InputError, SettingsError

if TYPE_CHECKING:
    from ragstone.engine import Engine
    from ragstone.settings import LoadedSettings

# `readable=False`: what cannot be read is told by the engine, in its own words and exit code.
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data", "-d", metavar="DIR", readable=False, help="Where documents and index are kept."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", readable=False, help="A ragstone.toml to read."),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", "-p", help="minimal, classic, balanced (default) or careful."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Any setting; may be repeated."),
]
Collection = Annotated[
    str, typer.Option("--collection", "-C", metavar="NAME", help="The collection to work in.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def load(
    data: Path | None,
    config: Path | None,
    preset: str | None,
    overrides: list[str] | None,
    **more: Any,
) -> LoadedSettings:
    """The settings with the command line's flags on top."""
    from ragstone.settings import load_settings

    flags = flags_of(overrides)
    named = {"data.directory": data, "preset": preset, **more}
    flags.update({path: value for path, value in named.items() if value is not None})
    return load_settings(flags=flags, config_file=config)


def flags_of(overrides: list[str] | None) -> dict[str, Any]:
    """What `--set` was given, by name."""
    flags: dict[str, Any] = {}
    for override in overrides or []:
        name, equals, value = override.partition("=")
        if not equals:
            # What follows the name is not shown: it may be a secret.
            shown = re.match(r"[\w.]*", override.strip())
            raise SettingsError(
                f"'--set {shown[0] if shown else ''}' has no value.",
                hint="Write --set RAG_TOP_K=5, for example.",
            )
        flags[name.strip()] = value.strip()
    return flags


def make_folder(folder: Path, flag: str) -> None:
    """Where a result will be written, before the long work that leads to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"The folder '{folder}' of {flag} cannot be written: {error.strerror}.",
            hint=f"Give {flag} another place.",
        ) from error


def require_collection(engine: Engine, name: str) -> None:
    """Refuse to read from a collection that does not exist: its name is probably mistyped."""
    from ragstone.catalog.collections import refuse_unknown_collection
    from ragstone.query.request import check_collection

    check_collection(name)
    # Another service has collections that the catalog does not know.
    if not engine.settings.retrieve.chunkenizer_url:
        refuse_unknown_collection(engine.catalog, name)


def open_engine(loaded: LoadedSettings) -> Engine:
    from ragstone.engine import Engine

    return Engine(loaded.settings)
