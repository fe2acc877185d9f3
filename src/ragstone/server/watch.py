"""Watch a folder (`ingest.watch`): its new and changed files are read in the background.

The folder is listed every `ingest.watch_s` seconds, and read where the listing has changed. What
the last look found is in `watch.json` in the data directory: every process of a server shows it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ragstone.engine import Engine
from ragstone.errors import IngestError, RagstoneError, StoreBusyError
from ragstone.files import hold_writer_lock, replace_file
from ragstone.ingest.discover import FAILED_AGAIN_S, FoundFiles, escape_path, find_files
from ragstone.reports import IngestReport
from ragstone.settings import IngestSettings
from ragstone.threads import run_in_thread

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """Name a file of the folder that is not searched, and the reason."""

    name: str
    error: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LastLook:
    """Hold what the last look at the folder found."""

    folder: str
    looked_at: float
    changed_at: float = 0.0
    """When a look last changed what is searched; 0 if none has."""
    files: int = 0
    is_reading: bool = False
    unread: tuple[UnreadFile, ...] = ()
    error: str = ""
    """Why the folder as a whole was not read; empty if it was."""
    hint: str = ""


def name_folder(options: IngestSettings) -> str:
    """Return the absolute path of the watched folder as text; empty if none is watched."""
    return escape_path(_resolve_folder(options.watch)) if options.watch else ""


def _resolve_folder(folder: Path) -> Path:
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError):  # nobody has that home, or links that lead to each other
        return folder.absolute()


def read_last_look(directory: Path, folder: str) -> LastLook | None:
    """Return the last look at this folder; None if there was none."""
    try:
        stored = json.loads((directory / "watch.json").read_bytes())
        unread = tuple(UnreadFile(**one) for one in stored.pop("unread"))
        look = LastLook(**stored, unread=unread)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # none was written yet, or by another version
    return look if look.folder == folder else None


class FolderWatcher:
    """List the folder again and again, and read what is new."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listing: frozenset[tuple[str, int, int]] | None = None
        self._read_at = 0.0
        self._last: LastLook | None = None

    async def run(self) -> None:
        """Watch until the task is cancelled; of several server processes one does it."""
        directory = self._engine.settings.data.directory
        while self._options.watch is not None:
            try:
                with hold_writer_lock(directory, timeout_s=0, name="watch.lock"):
                    while self._options.watch is not None:
                        await self.look()
                        await asyncio.sleep(self._options.watch_s)
            except StoreBusyError:
                await asyncio.sleep(self._options.watch_s)

    @property
    def _options(self) -> IngestSettings:
        return self._engine.settings.ingest

    async def look(self) -> LastLook:
        """List the folder once, and read it if its listing has changed."""
        options, folder = self._options, ""
        try:
            folder = await run_in_thread("intake", name_folder, options)
            if self._last is None:
                directory = self._engine.settings.data.directory
                self._last = await run_in_thread("intake", read_last_look, directory, folder)
            look = await self._look_at(folder, options)
        except RagstoneError as error:
            look = self._build_look(folder, error=error.message, hint=error.hint)
        except Exception as error:
            # Nobody waits for this task: what ends it would end the watching unseen.
            log.exception("the watched folder could not be read")
            look = self._build_look(folder, error=f"{type(error).__name__}: {error}")
        await self._store(look)
        return look

    def _build_look(self, folder: str, **found: Any) -> LastLook:
        changed_at = self._last.changed_at if self._last else 0.0
        return LastLook(folder, time.time(), changed_at, **found)

    async def _look_at(self, folder: str, options: IngestSettings) -> LastLook:
        assert options.watch is not None
        directory = self._engine.settings.data.directory
        found = await run_in_thread("intake", list_folder, options.watch, directory)
        look = self._build_look(folder, files=len(found.files))
        if last := self._find_unchanged(found.listing):
            return replace(look, unread=last.unread)
        self._listing = None
        report = None
        # An empty folder may be a disk that is not there: nothing is removed because of it.
        if found.files:
            await self._store(replace(look, is_reading=True))
            report = await self._engine.intake.ingest_found(
                found, collection=options.watch_collection, prune=options.watch_prune
            )
            if _log_changes(report):
                look = replace(look, changed_at=time.time())
        self._listing, self._read_at = found.listing, time.monotonic()
        return replace(look, looked_at=time.time(), unread=_list_unread(report, found))

    def _find_unchanged(self, listing: frozenset[tuple[str, int, int]]) -> LastLook | None:
        """Return the last look if nothing has changed since, and no failure is to be tried."""
        if self._last is None or self._last.error or listing != self._listing:
            return None
        is_fresh = time.monotonic() - self._read_at < FAILED_AGAIN_S
        return self._last if is_fresh or not self._last.unread else None

    async def _store(self, look: LastLook) -> None:
        self._last = look
        path = self._engine.settings.data.directory / "watch.json"
        content = json.dumps(asdict(look), ensure_ascii=False).encode()
        try:
            await run_in_thread("intake", replace_file, path, content)
        except OSError as error:
            log.warning("the last look at the folder could not be stored: %s", error)


def list_folder(watched: Path, data_directory: Path) -> FoundFiles:
    """List the files of the watched folder, unless it is one that must not be read."""
    folder = _resolve_folder(watched)
    if not folder.is_dir():
        raise IngestError(
            f"The watched folder '{escape_path(folder)}' does not exist.",
            hint="Create it, or change ingest.watch.",
        )
    if data_directory.resolve().is_relative_to(folder):
        raise IngestError(
            f"The watched folder '{escape_path(folder)}' holds the data directory.",
            hint="Watch a folder of its own, or move the data directory out of it.",
        )
    return find_files([folder], may_be_empty=True)


def _list_unread(report: IngestReport | None, found: FoundFiles) -> tuple[UnreadFile, ...]:
    if report is None:
        folders = (UnreadFile(one.name, one.error, one.hint) for one in found.unread)
        return (*(UnreadFile(name, reason) for name, reason in found.skipped), *folders)
    return tuple(
        UnreadFile(file.name, file.error or "", file.hint)
        for file in report.files
        if file.outcome in {"failed", "skipped"}
    )


def _log_changes(report: IngestReport) -> bool:
    """Log what a look has changed; return True if it has changed anything."""
    outcomes = ("added", "updated", "removed", "failed")
    counts = {outcome: len(report.of(outcome)) for outcome in outcomes}
    if any(counts.values()):
        log.info("the watched folder was read", extra=counts)
    return any(counts.values())
