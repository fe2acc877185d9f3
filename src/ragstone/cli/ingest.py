"""`ragstone ingest`: files, folders and globs into a collection, once or for as long as it runs."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragstone.cli import options
from ragstone.cli.options import err, out, print_json
from ragstone.errors import SettingsError
from ragstone.types import DEFAULT_COLLECTION, IngestedFile, IngestReport

if TYPE_CHECKING:
    from ragstone.engine import Engine

# Where there is no terminal, a line is written this often.
_LINE_EVERY_S = 10.0
# A look at 10,000 files costs a few hundredths of a second.
_WATCH_EVERY_S = 2.0


def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Files, folders and globs.", metavar="PATH…", readable=False),
    ],
    collection: options.Collection = DEFAULT_COLLECTION,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what the folders no longer hold.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep following changes, removals too, until Ctrl-C.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Read even files that have not changed.")
    ] = False,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag for all of them; may be repeated.")
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", metavar="KEY=VALUE", help="Metadata for all; may be repeated."),
    ] = None,
    password: Annotated[
        str | None, typer.Option("--password", help="Opens encrypted files among them.")
    ] = None,
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

      ragstone ingest wiki/ --collection wiki --prune --watch

      ragstone ingest 'reports/**/*.xlsx' --tag finance --meta year=2026
    """
    given: dict[str, Any] = {
        "metadata": metadata_of(tag or [], meta or []),
        "password": password,
        "prune": prune,
        "again": again,
    }
    following = {"again": False, "prune": True}
    engine = options.open_engine(options.load(data, config, preset, set))
    try:
        report = ingest_with_progress(engine, paths, collection, **given)
        _print(report, json=json)
        while watch:
            time.sleep(_WATCH_EVERY_S)
            again_report = asyncio.run(
                engine.ingest(paths, collection=collection, **given | following)
            )
            if any(file.outcome not in {"unchanged", "failed"} for file in again_report.files):
                _print(again_report, json=json)
    except KeyboardInterrupt:
        err().print("Stopped. What is stored stays; the same command goes on from here.")
        raise
    finally:
        engine.close()
    if report.of("failed"):
        raise typer.Exit(1)


def metadata_of(tags: list[str], pairs: list[str]) -> dict[str, Any]:
    """`--tag` and `--meta` as metadata; a value that is a number or a truth value becomes one."""
    metadata: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingsError(
                f"'--meta {pair}' has no value.", hint="Write --meta year=2026, for example."
            )
        metadata[key.strip()] = _value(value.strip())
    if tags:
        metadata["tags"] = tags
    return metadata


def _value(text: str) -> str | int | float | bool:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def ingest_with_progress(
    engine: Engine, paths: list[Path], collection: str, **given: Any
) -> IngestReport:
    """Run an ingest with a bar in a terminal, and a line now and then where there is none."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=err(), transient=True, disable=not err().is_terminal) as bar:
        task = bar.add_task("reading", total=None, rate="")
        pace = Pace()

        def progress(outcome: IngestedFile, done: int, total: int) -> None:
            pace.count(outcome)
            bar.update(task, completed=done, total=total, rate=pace.rate(),
                       description=escape(outcome.name[-40:]))  # fmt: skip
            if not err().is_terminal and pace.is_due():
                err().print(pace.line(done, total))

        return asyncio.run(engine.ingest(paths, collection=collection, progress=progress, **given))


class Pace:
    """How fast a run goes, and how long it may still take."""

    def __init__(self) -> None:
        self._begun = self._said = time.monotonic()
        self._chunks = self._documents = 0

    def count(self, outcome: IngestedFile) -> None:
        if outcome.outcome in {"added", "updated"}:
            self._chunks += outcome.chunk_count
            self._documents += 1

    def _seconds(self) -> float:
        return max(1e-3, time.monotonic() - self._begun)

    def rate(self) -> str:
        return f"{self._chunks / self._seconds():.0f} chunks/s" if self._chunks else ""

    def is_due(self) -> bool:
        if time.monotonic() - self._said < _LINE_EVERY_S:
            return False
        self._said = time.monotonic()
        return True

    def line(self, done: int, total: int) -> str:
        said = (
            f"{done} of {total} files · {self._documents} documents, "
            f"{self._documents / self._seconds():.1f}/s · {self.rate()}"
        )
        if not done:  # the first is an archive, say: how much it holds is not known before its end
            return said
        return f"{said} · about {self._seconds() / done * (total - done):.0f} s left"


def _print(report: IngestReport, *, json: bool) -> None:
    if json:
        print_json([dataclasses.asdict(file) for file in report.files])
    else:
        print_report(report)


def print_report(report: IngestReport) -> None:
    for file in report.of("failed"):
        out().print(f"[red]failed[/] {escape(file.name)}: {escape(file.error or '')}")
        out().print(f"       [dim]hint: {escape(file.hint)}[/]")
    counts = ", ".join(
        f"{len(report.of(outcome))} {outcome}"
        for outcome in ("added", "updated", "unchanged", "removed", "failed")
        if report.of(outcome)
    )
    out().print(
        f"[green]{len(report.files)} files[/]: {counts or 'none'} · {report.chunk_count} chunks "
        f"in '{report.collection}' · {report.embedded_chunks} embedded · {report.seconds:.1f} s"
        f"{rates(report)}"
    )


def rates(report: IngestReport) -> str:
    """How fast a run was, and how much memory it took; nothing when it had nothing to do."""
    stored = len(report.of("added")) + len(report.of("updated"))
    if not stored or not report.seconds:
        return ""
    return (
        f" · {stored / report.seconds:.1f} documents/s · "
        f"{report.embedded_chunks / report.seconds:.1f} chunks/s · "
        f"peak {report.peak_bytes / 1e6:.0f} MB"
    )
