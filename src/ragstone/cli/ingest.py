"""Run `ragstone ingest`, `worker` and `jobs`: read documents, and list what is not read yet.

`ingest` reads files, folders and globs into a collection, once or continuously; `worker` reads
uploads beside the servers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from ragstone.catalog import schema
from ragstone.cli import options
from ragstone.cli.options import get_language, print_json, print_table, say, stderr, stdout
from ragstone.cli.pace import Pace
from ragstone.errors import SettingsError, StoreUnavailableError
from ragstone.messages import translate
from ragstone.reports import FileProgress, IngestedFile, IngestReport
from ragstone.types import DEFAULT_COLLECTION

if TYPE_CHECKING:
    from ragstone.engine import Engine

# Looking at 10,000 files takes a few hundredths of a second.
_WATCH_EVERY_S = 2.0
# How many of the files that are left out are named.
_SHOWN_NAMES = 5
# After Ctrl-C: long enough to store what is ready.
_END_AFTER_S = 1.2


Paths = Annotated[
    list[Path],
    typer.Argument(
        help="One or more files, folders or globs to read.", metavar="PATH", readable=False
    ),
]
Prune = Annotated[bool, typer.Option("--prune", help="Remove documents whose file is gone.")]
Watch = Annotated[bool, typer.Option("--watch", help="Follow changes and removals until Ctrl-C.")]
Again = Annotated[bool, typer.Option("--again", help="Read unchanged files again, too.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Tag for all files; repeatable.")]
Metadata = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=VALUE", help="Metadata for all files; repeatable."),
]
Source = Annotated[
    str | None,
    typer.Option(
        "--source", metavar="NAME", help="Name of the machine or share that the paths are on."
    ),
]
Password = Annotated[str | None, typer.Option("--password", help="Password of encrypted files.")]


def ingest(
    paths: Paths,
    collection: options.Collection = DEFAULT_COLLECTION,
    prune: Prune = False,
    watch: Watch = False,
    again: Again = False,
    tag: Tags = None,
    meta: Metadata = None,
    password: Password = None,
    source: Source = None,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Read documents into a collection. Unchanged files are skipped.

    Exits with code 1 if a file or a folder below a given one could not be read; the others are
    stored all the same. If a given path does not exist, nothing is read.

    Examples:

      ragstone ingest contracts/ manuals/telescope.pdf

      ragstone ingest wiki/ --collection wiki --prune --watch

      ragstone ingest 'reports/**/*.xlsx' --tag finance --meta year=2026
    """
    arguments: dict[str, Any] = {
        "metadata": parse_metadata(tag or [], meta or []),
        "password": password,
        "source": source,
        "prune": prune,
        "again": again,
    }
    with (
        end_soon_after_interrupt(),
        options.open_engine(options.load_settings(data, config, preset, set)) as engine,
    ):
        report = ingest_with_progress(engine, paths, collection, **arguments)
        _print_result(report, json=json)
        if watch:
            arguments |= {"again": False, "prune": True}
            failed = {file.name for file in report.of("failed")}
            stderr().print("Watching for changes. Stop with Ctrl-C.")
            _watch(engine, paths, collection, arguments, failed, json=json)
    if report.of("failed"):
        raise typer.Exit(1)


@contextmanager
def end_soon_after_interrupt() -> Iterator[None]:
    """End the process soon after Ctrl-C, and at once after the second one.

    What is being computed is given up: a thread cannot be stopped in the middle of a native call.
    A store survives that as it survives a kill.
    """
    told = threading.Event()

    def tell() -> None:
        if not told.is_set():
            told.set()
            stderr().print(
                say("Stopped. What was finished is stored; run the same command for the rest.")
            )

    def end() -> NoReturn:
        from ragstone.processes import kill_all_workers

        tell()
        stderr().show_cursor()  # the progress bar hides it, and does not get to its end
        kill_all_workers()
        os._exit(130)

    timer = threading.Timer(_END_AFTER_S, end)
    timer.daemon = True

    def interrupt(*_: object) -> None:
        if timer.is_alive():
            end()
        timer.start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        tell()
        raise
    finally:
        if not timer.is_alive():
            signal.signal(signal.SIGINT, before)


def _watch(
    engine: Engine,
    paths: list[Path],
    collection: str,
    arguments: dict[str, Any],
    failed: Set[str],
    *,
    json: bool,
) -> None:
    """Read what changes until Ctrl-C, and print the rounds that changed something.

    `failed` are the files whose failure was printed before.
    """
    from ragstone.ingest.discover import FAILED_AGAIN_S, find_files

    listing, read_at = None, 0.0
    while True:
        time.sleep(_WATCH_EVERY_S)
        found = find_files(paths, may_be_empty=True)
        if found.listing == listing and time.monotonic() - read_at < FAILED_AGAIN_S:
            continue
        listing, read_at = found.listing, time.monotonic()
        try:
            report = asyncio.run(
                engine.intake.ingest_found(found, collection=collection, **arguments)
            )
        except StoreUnavailableError as error:
            stderr().print(f"[bold yellow]warning:[/] {escape(error.message)}")
            continue
        before, failed = failed, {file.name for file in report.of("failed")}
        is_changed = any(file.outcome not in {"unchanged", "failed"} for file in report.files)
        if is_changed or failed - before:
            news = [file for file in report.files if file.name not in failed & before]
            _print_result(replace(report, files=tuple(news)), json=json)


def parse_metadata(tags: list[str], pairs: list[str]) -> dict[str, Any]:
    """Turn `--tag` and `--meta` into metadata; values become numbers and booleans if they can."""
    metadata: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise SettingsError(
                f"'--meta {pair}' has no value.", hint="Write e.g. --meta year=2026."
            )
        metadata[key.strip()] = _parse_value(value.strip())
    if tags:
        metadata["tags"] = tags
    return metadata


def _parse_value(text: str) -> str | int | float | bool:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def ingest_with_progress(
    engine: Engine, paths: list[Path], collection: str, **arguments: Any
) -> IngestReport:
    """Ingest with a progress bar in a terminal, and with a line every few seconds without one."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[rest]}"),
    )
    with Progress(
        *columns, console=stderr(), transient=True, disable=not stderr().is_terminal
    ) as bar:
        task = bar.add_task("reading", total=None, rate="", rest="")
        pace = Pace()

        def show(description: str) -> None:
            completed, total = pace.get_progress()
            bar.update(
                task,
                completed=completed,
                total=total,
                rate=pace.format_rate(),
                rest=pace.format_rest(),
                description=escape(description),
            )
            if not stderr().is_terminal and pace.is_due():
                stderr().print(pace.format_line())

        def progress(outcome: IngestedFile, done: int, total: int) -> None:
            pace.count(outcome, done, total)
            show(outcome.name[-40:])

        def stage(progress: FileProgress) -> None:
            pace.note(progress)
            show(progress.name[-40:] if pace.total is None else pace.format_current())

        return asyncio.run(
            engine.ingest(paths, collection=collection, progress=progress, stage=stage, **arguments)
        )


def _print_result(report: IngestReport, *, json: bool) -> None:
    if json:
        print_json([dataclasses.asdict(file) for file in report.files])
    else:
        print_report(report)


def print_report(report: IngestReport) -> None:
    for file in report.of("failed"):
        error = translate(file.error or "", get_language())
        stdout().print(f"[red]{say('failed')}[/] {escape(file.name)}: {escape(error)}")
        hint = translate(file.hint, get_language())
        stdout().print(f"       [dim]{say('hint:')} {escape(hint)}[/]")
    for file in report.of("skipped"):
        stdout().print(f"[yellow]skipped[/] {escape(file.name)}: {escape(file.error or '')}")
    for file in report.files:
        if file.hint and file.outcome != "failed":
            stdout().print(f"[yellow]note[/]   {escape(file.name)}: {escape(file.hint)}")
    counts = ", ".join(
        say(f"{{}} {outcome}", len(report.of(outcome)))
        for outcome in ("added", "updated", "unchanged", "removed", "skipped", "failed")
        if report.of(outcome)
    )
    if report.left_out:
        stdout().print(f"[yellow]{escape(_describe_left_out(report.left_out))}[/]")
    total = report.stored_chunks
    in_collection = "{} chunk in '{}'" if total == 1 else "{} chunks in '{}'"
    chunks = say(in_collection, total, report.collection)
    stdout().print(
        f"[green]{_count_files(len(report.files))}[/]{counts and ': '}{counts} · "
        f"{escape(chunks)} · "
        f"{say('{} embedded', report.embedded_chunks)} · {report.seconds:.1f} s"
        f"{format_rates(report)}"
    )
    if report.hint:
        stdout().print(
            f"[yellow]{say('hint:')}[/] {escape(translate(report.hint, get_language()))}"
        )


def _count_files(count: int) -> str:
    return say("{} file", count) if count == 1 else say("{} files", count)


def _describe_left_out(names: Sequence[str]) -> str:
    """Name the first files of a folder whose type is not read."""
    shown = ", ".join(names[:_SHOWN_NAMES]) + (" …" if len(names) > _SHOWN_NAMES else "")
    return say("{} left out, because the type is not read: {}", _count_files(len(names)), shown)


def format_rates(report: IngestReport) -> str:
    """Format speed and peak memory of a run; empty if it stored nothing."""
    stored = len(report.of("added")) + len(report.of("updated"))
    if not stored or not report.seconds:
        return ""
    return (
        f" · {stored / report.seconds:.1f} documents/s · "
        f"{report.embedded_chunks / report.seconds:.1f} chunks/s · "
        f"peak {report.peak_bytes / 1e6:.0f} MB"
    )


jobs_app = typer.Typer(invoke_without_command=True)

UploadId = Annotated[str, typer.Argument(metavar="ID", help="Upload id from `ragstone jobs`.")]
Failed = Annotated[
    bool, typer.Option("--failed", help="List the uploads that failed and are not tried again.")
]


def worker(
    data: options.DataDir = None,
    config: options.ConfigFile = None,
    preset: options.Preset = None,
    set: options.Overrides = None,
) -> None:
    """Read the uploads of all servers that share a catalog, until it is stopped.

    Start as many as you like, on any machine. Set RAGSTONE_INGEST_UPLOADS=workers on the servers,
    so that they leave the reading to workers.

    Example:  ragstone worker --data /var/lib/ragstone
    """
    from ragstone.observe.logs import configure_logging

    loaded = options.load_settings(data, config, preset, set)
    configure_logging(loaded.settings.observe)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with options.open_engine(loaded) as engine:
        _ = engine.intake
        stderr().print("Ragstone reads uploads. Stop it with Ctrl-C.")
        engine.intake.run_worker(stop)


@jobs_app.callback()
def jobs(
    context: typer.Context,
    failed: Failed = False,
    json: options.Json = False,
    data: options.DataDir = None,
    config: options.ConfigFile = None,
) -> None:
    """List uploads that are not read yet, or that failed.

    Examples:

      ragstone jobs

      ragstone jobs --failed
    """
    if context.invoked_subcommand is not None:
        return
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        found = engine.intake.jobs.list_unfinished(failed=failed)
    if json:
        print_json([_describe_job(job) for job in found])
    elif found:
        columns = ["id", "collection", "state", "unread", "attempts", "since", "error"]
        rows = [[_describe_job(job)[name] for name in columns] for job in found]
        print_table(columns, rows)
    else:
        stdout().print("No upload failed." if failed else "All uploads are read.")


@jobs_app.command("retry")
def retry_job(
    upload_id: UploadId, data: options.DataDir = None, config: options.ConfigFile = None
) -> None:
    """Try a failed upload again.

    Example:  ragstone jobs retry 4f2a9c…
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        upload_id = options.complete_id(engine.catalog, schema.uploads.c.id, upload_id)
        engine.intake.jobs.restart(upload_id)
    stdout().print(f"The upload {upload_id} is read again by the next server or worker.")


@jobs_app.command("delete")
def delete_job(
    upload_id: UploadId, data: options.DataDir = None, config: options.ConfigFile = None
) -> None:
    """Delete an upload and its unread files. What was read of it stays.

    Example:  ragstone jobs delete 4f2a9c…
    """
    with options.open_engine(options.load_settings(data, config), existing=data) as engine:
        upload_id = options.complete_id(engine.catalog, schema.uploads.c.id, upload_id)
        engine.records.upload(upload_id)
        engine.intake.jobs.delete(upload_id)
    stdout().print(f"Deleted the upload {upload_id}.")


def _describe_job(job: dict[str, Any]) -> dict[str, Any]:
    since = datetime.fromtimestamp(job["created_at"], UTC).isoformat(timespec="seconds")
    return {
        **{name: job[name] for name in ("id", "collection", "state", "unread", "file_count")},
        "attempts": job["attempts"],
        "since": since,
        "age_s": round(time.time() - job["created_at"], 1),
        "error": job["error"] or "",
    }
