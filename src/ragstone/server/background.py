"""Run work that is not part of a request: uploads, old history, memory, checksums, the probe."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from ragstone.catalog.backup import Finding
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.integrity import check_content
from ragstone.engine import Engine
from ragstone.errors import RagstoneError, StoreBusyError, StoreError
from ragstone.files import hold_writer_lock
from ragstone.index.verify import check_index_files
from ragstone.processes import kill_all_workers
from ragstone.system import find_libc_function, lower_thread_priority
from ragstone.threads import run_in_thread

log = logging.getLogger(__name__)


class BackgroundTasks:
    """Follow uploads that outlive their request. A server that stops waits for them a while."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    def start(self, work: asyncio.Future[Any]) -> None:
        self._running.add(work)
        work.add_done_callback(self._discard)

    async def finish(self, grace_s: float) -> None:
        """Wait for uploads, no longer than `grace_s`; the next start reads the rest."""
        if not self._running:
            return
        log.info("uploads are being read", extra={"uploads": len(self._running)})
        await asyncio.wait(self._running, timeout=grace_s)

    def _discard(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, RagstoneError):
            log.warning("an upload failed: %s", error)
        else:
            log.error("an upload failed", exc_info=error)


_PROBE_AGAIN_S = 60.0
_TRIM_INTERVAL_S = 20.0


async def watch_provider(engine: Engine) -> None:
    """Probe the provider at the start, and again and again while it cannot answer."""
    if not engine.settings.provider.probe:
        return
    while (await engine.probe_provider()).state == "failing":  # noqa: ASYNC110  it asks each time
        await asyncio.sleep(_PROBE_AGAIN_S)


async def delete_expired_history(engine: Engine) -> None:
    """Delete, again and again, the queries and turns that are older than the retention allows."""
    options = engine.settings.journal
    while options.retention_days:
        await asyncio.sleep(options.retention_check_s)
        try:
            await run_in_thread("store", engine.history.delete_expired)
        except StoreError as error:
            # The catalog may be busy or full now and work at the next attempt.
            log.warning("what has expired could not be removed: %s", type(error).__name__)


async def trim_memory() -> None:
    """Return what is free inside the allocator to the system, every few seconds."""
    trim = find_libc_function("malloc_trim")
    while trim is not None:
        await asyncio.sleep(_TRIM_INTERVAL_S)
        await run_in_thread("store", trim, 0)


class _StoppedError(Exception):
    """The server is stopping."""


class StoredDataCheck:
    """Compare all that is stored with its checksums, in a thread that takes a tenth of its time.

    Index files that are damaged are built again from the catalog; what a person must repair is
    logged with the command that does it.
    """

    first_after_s = 60.0
    again_after_s = 7 * 86_400.0
    _share = 0.1

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._woke_at = 0.0
        self._thread = threading.Thread(target=self._run, name="stored data check", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; one that builds an index is not waited for."""
        self._stopping.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        lower_thread_priority(10)
        wait_s = self.first_after_s
        while not self._stopping.wait(wait_s):
            wait_s = self.again_after_s
            try:
                # Of several server processes one is enough.
                directory = self._engine.settings.data.directory
                with hold_writer_lock(directory, timeout_s=0, name="check.lock"):
                    self._check_all()
            except (_StoppedError, StoreBusyError):
                continue
            except RagstoneError as error:
                log.warning("the stored data could not be checked: %s", error)
            except Exception:
                # A disk that fails now may work at the next check.
                log.exception("the stored data could not be checked")

    def _check_all(self) -> None:
        self._woke_at = time.monotonic()
        states = []
        for finding in self._find_all():
            states.append(finding.state)
            if finding.state != "ok":
                log.warning("%s: %s", finding.subject, finding.detail)
        extra = {"wrong": states.count("wrong"), "repaired": states.count("repaired")}
        log.info("the stored data was checked", extra=extra)

    def _find_all(self) -> Iterator[Finding]:
        catalog, settings = self._engine.catalog, self._engine.settings
        for name, index in self._engine.list_indexes():
            yield from check_index_files(index, [name], repair=True, pause=self._pause)
        if isinstance(catalog, SqlCatalog):
            originals, keeps = self._engine.intake.originals, settings.ingest.keep_originals
            yield from check_content(
                catalog.database, originals, keeps_originals=keeps, pause=self._pause
            )

    def _pause(self) -> None:
        worked_s = time.monotonic() - self._woke_at
        if self._stopping.wait(worked_s * (1 / self._share - 1)):
            raise _StoppedError
        self._woke_at = time.monotonic()


def exit_after(seconds: float) -> None:
    """End this process after a time, whatever its threads still do.

    Python waits for threads, and a thread cannot be stopped: one long computation would keep a
    server alive that was told to end. All that is stored is stored in transactions.
    """

    def end() -> None:
        log.warning("the server ends while work is running")
        kill_all_workers()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
