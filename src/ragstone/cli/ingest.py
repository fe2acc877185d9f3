"""`ragstone ingest`: files and folders into a collection."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragstone.cli import options
from ragstone.cli.terminal import err, out, print_json
from ragstone.engine import Engine
from ragstone.types import DEFAULT_COLLECTION, IngestedFile, IngestReport


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", metavar="PATH…")],
    collection: options.Collection = DEFAULT_COLLECTION,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Read documents into a collection. Files that have not changed are left alone.

    Exit code 1 if any file could not be read; the others are stored all the same.

    Examples:

      ragstone ingest contracts/ manuals/telescope.pdf

      ragstone ingest wiki/ --collection wiki
    """
    engine = options.open_engine(options.load(data, config, preset, set))
    try:
        report = ingest_with_progress(engine, paths, collection)
    except KeyboardInterrupt:
        err().print("Stopped. What is stored stays; the same command goes on from here.")
        raise
    finally:
        engine.close()
    if json:
        print_json([dataclasses.asdict(file) for file in report.files])
    else:
        print_report(report)
    if report.of("failed"):
        raise typer.Exit(1)


def ingest_with_progress(engine: Engine, paths: list[Path], collection: str) -> IngestReport:
    """Run an ingest with a bar in a terminal and nothing in a pipe."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=err(), transient=True, disable=not err().is_terminal) as bar:
        task = bar.add_task("reading", total=None)

        def progress(outcome: IngestedFile, number: int, total: int) -> None:
            bar.update(task, completed=number, total=total, description=escape(outcome.name[-40:]))

        return asyncio.run(engine.ingest(paths, collection=collection, progress=progress))


def print_report(report: IngestReport) -> None:
    for file in report.of("failed"):
        out().print(f"[red]failed[/] {escape(file.name)}: {escape(file.error or '')}")
        out().print(f"       [dim]hint: {escape(file.hint)}[/]")
    counts = ", ".join(
        f"{len(report.of(outcome))} {outcome}"
        for outcome in ("added", "updated", "unchanged", "failed")
        if report.of(outcome)
    )
    out().print(
        f"[green]{len(report.files)} files[/]: {counts} · {report.chunk_count} chunks "
        f"in '{report.collection}'"
    )
