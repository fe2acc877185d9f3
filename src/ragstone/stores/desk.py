"""Answers are written down together: one commit for all that wait at the same moment.

A commit waits for the disk (2 ms and more). With one for each answer the disk would decide how
many answers a second there are; every caller still waits until its own is safe.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias
from weakref import WeakKeyDictionary

from ragstone.errors import InputError
from ragstone.stages import Catalog
from ragstone.stores import journal
from ragstone.stores.journal import Entry

_Waiting: TypeAlias = list[tuple[Entry, "asyncio.Future[None]"]]


class JournalDesk:
    """Takes lines of the journal, and writes all that wait in one transaction."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()
        # A task that nothing refers to may be collected before it ends.
        self._tasks: set[asyncio.Task[None]] = set()
        self.commits = 0

    async def write(self, entry: Entry) -> None:
        """Return when it is safe. Who stops waiting stops nothing: others wait for the same."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if loop in self._waiting:
            self._waiting[loop].append((entry, done))  # taken along with the next commit
        else:
            self._waiting[loop] = [(entry, done)]
            task = loop.create_task(self._work_off(loop))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await done

    async def _work_off(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while batch := self._waiting[loop]:
                self._waiting[loop] = []
                await self._written(batch)
        finally:
            del self._waiting[loop]

    async def _written(self, batch: _Waiting) -> None:
        failure: Exception | None = None
        try:
            await asyncio.to_thread(self._commit, [entry for entry, _ in batch])
        except InputError as error:
            if len(batch) > 1:  # one of them cannot be stored: only its own caller is told
                for one in batch:
                    await self._written([one])
                return
            failure = error
        except Exception as error:  # noqa: BLE001  each caller is told of it
            failure = error
        for _, done in batch:
            if done.done():
                continue
            if failure is None:
                done.set_result(None)
            else:
                done.set_exception(failure)

    def _commit(self, entries: list[Entry]) -> None:
        self.commits += 1
        with self._catalog.transaction() as connection:
            journal.write(connection, entries)
