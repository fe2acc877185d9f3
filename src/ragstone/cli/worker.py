"""Run `ragstone worker` and `ragstone jobs`: read uploads beside the servers, and list them."""

from __future__ import annotations

import signal
import threading
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ragstone.cli import options
from ragstone.cli.options import print_json, print_table, stderr, stdout

jobs_app = typer.Typer(invoke_without_command=True)

UploadId = Annotated[str, typer.Argument(help="Upload id from `ragstone jobs`.")]
Failed = Annotated[
    bool, typer.Option("--failed", help="List the uploads that failed for good instead.")
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
        print_json([_describe(job) for job in found])
    elif found:
        columns = ["id", "collection", "state", "unread", "attempts", "since", "error"]
        rows = [[_describe(job)[name] for name in columns] for job in found]
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
        engine.records.upload(upload_id)
        engine.intake.jobs.delete(upload_id)
    stdout().print(f"Deleted the upload {upload_id}.")


def _describe(job: dict[str, Any]) -> dict[str, Any]:
    since = datetime.fromtimestamp(job["created_at"], UTC).isoformat(timespec="seconds")
    return {
        **{name: job[name] for name in ("id", "collection", "state", "unread", "file_count")},
        "attempts": job["attempts"],
        "since": since,
        "age_s": round(time.time() - job["created_at"], 1),
        "error": job["error"] or "",
    }
