"""`ragstone reindex`, `backup`, `restore` and `doctor`: looking after the data directory."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli import options
from ragstone.cli.terminal import err, out, print_json, print_table
from ragstone.errors import NotFoundError, SettingsError
from ragstone.settings import Settings
from ragstone.stores.collections import refuse_unknown_collection


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
    from ragstone.stores import backup as archive

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
    from ragstone.stores import backup as archive

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
    from ragstone.stores.catalog import SqlCatalog
    from ragstone.stores.doctor import examine

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
