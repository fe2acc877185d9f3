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

from ragstone.engine import Engine
from ragstone.errors import IngestError, RagstoneError, StoreBusyError
from ragstone.files import hold_writer_lock, replace_file
from ragstone.ingest.discover import FoundFiles, escape_path, find_files
from ragstone.reports import IngestReport
from ragstone.settings import IngestSettings
from ragstone.threads import run_in_thread

log = logging.getLogger(__name__)

# A file that failed is read again after this time, or as soon as anything in the folder changes.
_FAILED_AGAIN_S = 3600.0


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
    files: int = 0
    is_reading: bool = False
    unread: tuple[UnreadFile, ...] = ()
    error: str = ""
    """Why the folder as a whole was not read; empty if it was."""
    hint: str = ""


def name_folder(options: IngestSettings) -> str:
    """Return the absolute path of the watched folder; empty if none is watched."""
    return escape_path(options.watch.expanduser().resolve()) if options.watch else ""


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
        self._listing: frozenset[tuple[str, int, int]] = frozenset()
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
        folder = name_folder(self._options)
        try:
            look = await self._look_at(Path(folder), self._options)
        except RagstoneError as error:
            look = LastLook(folder, time.time(), error=error.message, hint=error.hint)
        except Exception as error:
            # Nobody waits for this task: what ends it would end the watching unseen.
            log.exception("the watched folder could not be read")
            look = LastLook(folder, time.time(), error=f"{type(error).__name__}: {error}")
        await self._store(look)
        return look

    async def _look_at(self, folder: Path, options: IngestSettings) -> LastLook:
        if not await run_in_thread("intake", folder.is_dir):
            raise IngestError(
                f"The watched folder '{folder}' does not exist.",
                hint="Create it, or change ingest.watch.",
            )
        if self._engine.settings.data.directory.resolve().is_relative_to(folder):
            raise IngestError(
                f"The watched folder '{folder}' holds the data directory.",
                hint="Watch a folder of its own, or move the data directory out of it.",
            )
        found = await run_in_thread("intake", find_files, [folder], may_be_empty=True)
        listing = frozenset((file.source, file.size, file.mtime_ns) for file in found.files)
        look = LastLook(name_folder(options), time.time(), len(found.files))
        if last := self._find_unchanged(listing):
            return replace(look, unread=last.unread)
        self._listing = frozenset()
        report = None
        # An empty folder may be a disk that is not there: nothing is removed because of it.
        if found.files:
            await self._store(replace(look, is_reading=True))
            report = await self._engine.ingest(
                [folder], collection=options.watch_collection, prune=options.watch_prune
            )
            _log_changes(report)
        self._listing, self._read_at = listing, time.monotonic()
        return replace(look, looked_at=time.time(), unread=_list_unread(report, found))

    def _find_unchanged(self, listing: frozenset[tuple[str, int, int]]) -> LastLook | None:
        """Return the last look if nothing has changed since, and no failure is to be tried."""
        if self._last is None or self._last.error or listing != self._listing:
            return None
        is_fresh = time.monotonic() - self._read_at < _FAILED_AGAIN_S
        return self._last if is_fresh or not self._last.unread else None

    async def _store(self, look: LastLook) -> None:
        self._last = look
        path = self._engine.settings.data.directory / "watch.json"
        content = json.dumps(asdict(look), ensure_ascii=False).encode()
        try:
            await run_in_thread("intake", replace_file, path, content)
        except OSError as error:
            log.warning("the last look at the folder could not be stored: %s", error)


def _list_unread(report: IngestReport | None, found: FoundFiles) -> tuple[UnreadFile, ...]:
    if report is None:
        return tuple(UnreadFile(name, reason) for name, reason in found.skipped)
    return tuple(
        UnreadFile(file.name, file.error or "", file.hint)
        for file in report.files
        if file.outcome in {"failed", "skipped"}
    )


def _log_changes(report: IngestReport) -> None:
    outcomes = ("added", "updated", "removed", "failed")
    counts = {outcome: len(report.of(outcome)) for outcome in outcomes}
    if any(counts.values()):
        log.info("the watched folder was read", extra=counts)
