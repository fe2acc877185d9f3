"""Store uploads as jobs, which processes of several machines take and hold by leases.

Every upload is a row of `uploads`, with the files that are not read yet in `upload_inputs`. A
process takes the next one with `FOR UPDATE SKIP LOCKED` (in SQLite a transaction is alone anyway),
and extends its lease while it reads. When it is killed or frozen, the lease ends and another one
takes the job. Each commit of a reader checks that the job is still its own: a process that wakes up
after its lease stores nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Select, and_, exists, func, or_, select, true
from sqlalchemy.sql.elements import ColumnElement

from ragstone.catalog.originals import (
    FILES_LOCK,
    mark_unused,
    read_clock,
    wait_for_deletions,
)
from ragstone.catalog.schema import upload_files, upload_inputs, uploads
from ragstone.catalog.uploads import upload_not_found
from ragstone.errors import InputError, StoreError
from ragstone.protocols import AcceptedUpload, Catalog, ReceivedFile
from ragstone.reports import IngestedFile

# Of an upload whose files are not all stored yet.
_RECEIVING = "receiving"
# Longer than any upload takes to be received.
_RECEIVING_S = 86_400.0
SMALL_BYTES = 100_000
"""Read in about two seconds on one core."""
# A job of 100 kB is due 50 s after it came: it is overtaken by each note of these 50 s.
_BYTES_PER_SECOND = 2_000
_MAX_DELAY_S = 600.0
_MAX_NAMED = 5
_FREE: dict[str, Any] = {"reader": "", "held_until": 0.0, "started_at": None}


class LeaseLostError(StoreError):
    """Report a job that another process has taken, or that was deleted with its collection."""


class UploadJobs:
    """Accept, take, extend and finish jobs, for one process with the name `reader`."""

    def __init__(self, catalog: Catalog, reader: Callable[[], str], lease_s: float) -> None:
        self._catalog = catalog
        self._get_reader = reader
        self.lease_s = lease_s

    @property
    def _reader(self) -> str:
        return self._get_reader()

    def _write(self) -> AbstractContextManager[Connection]:
        """Open a transaction that waits only for others of this process."""
        return self._catalog.write_transaction(f"jobs:{self._reader}")

    def accept(
        self, upload: AcceptedUpload, store_files: Callable[[], None], *, keep: bool
    ) -> None:
        """Record an upload, store its files, and let it be read: here (`keep`), or by anybody."""
        inputs = [
            {"upload_id": upload.id, "position": position, **asdict(file)}
            for position, file in enumerate(upload.files)
        ]
        size = sum(file.size for file in upload.files)
        # The rows come first: from then on nobody deletes the files as unused.
        with self._catalog.write_transaction(FILES_LOCK) as connection:
            now = read_clock(connection)
            connection.execute(
                uploads.insert().values(
                    id=upload.id,
                    collection=upload.collection,
                    reader=self._reader,
                    options=dict(upload.options),
                    file_count=len(upload.files),
                    status=_RECEIVING,
                    created_at=now,
                    size=size,
                    due=now + compute_delay(size),
                )
            )
            connection.execute(upload_inputs.insert(), inputs)
        mine = uploads.update().where(uploads.c.id == upload.id)
        reader = self._reader if keep else ""
        try:
            wait_for_deletions(self._catalog, [file.sha256 for file in upload.files])
            store_files()
            with self._catalog.write_transaction(FILES_LOCK) as connection:
                now = read_clock(connection)
                held_until = now + self.lease_s if keep else 0.0
                values = {"status": "running", "reader": reader, "held_until": held_until}
                connection.execute(mine.values(**values, created_at=now))
        except BaseException:
            with suppress(StoreError):
                self.delete(upload.id)
            raise

    def take(
        self,
        *,
        only_small: bool = False,
        only_own: bool = False,
        skip: Collection[str] = (),
        due_before: float | None = None,
    ) -> AcceptedUpload | None:
        """Take the job that is due first: one that waits, or one whose holder is gone.

        `skip` are those that this process is reading; `only_own` leaves those of others alone.
        """
        reader = self._reader

        def find(now: float) -> Select[Any]:
            is_free: ColumnElement[bool] = uploads.c.reader == reader
            if not only_own:
                is_free = or_(is_free, uploads.c.held_until < now)
            found = select(uploads).where(
                uploads.c.status == "running",
                uploads.c.not_before <= now,
                is_free,
                uploads.c.id.not_in(list(skip)),
                uploads.c.size <= SMALL_BYTES if only_small else true(),
                uploads.c.due < due_before if due_before is not None else true(),
                ~_has_earlier_version(),
            )
            return found.order_by(uploads.c.due, uploads.c.id).limit(1)

        with self._catalog.read_transaction() as connection:  # it waits for nobody
            if connection.execute(find(read_clock(connection))).first() is None:
                return None
        with self._catalog.write_transaction(f"jobs:{reader}") as connection:
            now = read_clock(connection)
            locked = find(now).with_for_update(skip_locked=True, of=uploads)
            row = connection.execute(locked).first()
            if row is None:
                return None
            values = {"reader": reader, "held_until": now + self.lease_s, "started_at": now}
            mine = uploads.update().where(uploads.c.id == row.id)
            connection.execute(mine.values(**values, attempts=row.attempts + 1))
            files = tuple(_read_inputs(connection, row.id))
            for file in files:
                _delete_outcomes(connection, row.id, file.name)
        return AcceptedUpload(
            row.id, row.collection, files, row.options or {}, attempts=row.attempts + 1
        )

    def leave_untaken(self, upload_id: str) -> bool:
        """Let a job be tried again if no process has it, as nobody waits for it any more."""
        with self._write() as connection:
            query = select(uploads).where(uploads.c.id == upload_id, uploads.c.status == "running")
            row = connection.execute(query.with_for_update()).first()
            if row is None or _is_held(row, read_clock(connection)):
                return False
            mine = uploads.update().where(uploads.c.id == upload_id)
            connection.execute(mine.values(options={**(row.options or {}), "retry": True}))
            return True

    def extend_leases(self) -> set[str]:
        """Extend the leases of this process; return the jobs that it still holds."""
        mine = (uploads.c.reader == self._reader, uploads.c.status == "running")
        with self._write() as connection:
            held_until = read_clock(connection) + self.lease_s
            connection.execute(uploads.update().where(*mine).values(held_until=held_until))
            return set(connection.scalars(select(uploads.c.id).where(*mine)))

    def save_stages(self, upload_id: str, stages: dict[str, dict[str, Any]]) -> None:
        """Store what happens to each file now, for those who follow the upload elsewhere."""
        with self._write() as connection:
            connection.execute(
                uploads.update()
                .where(uploads.c.id == upload_id, uploads.c.reader == self._reader)
                .values(stages=stages)
            )

    def record_outcomes(
        self, upload_id: str, outcomes: Sequence[IngestedFile], read: Sequence[str]
    ) -> None:
        """Add outcomes, and remove the files `read` from those that are unread."""
        last = select(func.coalesce(func.max(upload_files.c.position), -1))
        with self._catalog.write_transaction() as connection:
            self._check_lease(connection, upload_id, is_read=bool(read))
            here = upload_files.c.upload_id == upload_id
            first = int(connection.execute(last.where(here)).scalar_one()) + 1
            for position, outcome in enumerate(outcomes, start=first):
                values = {"upload_id": upload_id, "position": position, **asdict(outcome)}
                connection.execute(upload_files.insert().values(**values))
            for name in read:
                one = (upload_inputs.c.upload_id == upload_id, upload_inputs.c.name == name)
                for sha256 in list(connection.scalars(select(upload_inputs.c.sha256).where(*one))):
                    mark_unused(connection, sha256)
                connection.execute(upload_inputs.delete().where(*one))

    def _check_lease(
        self, connection: Connection, upload_id: str, *, is_read: bool = False
    ) -> None:
        """Refuse to store for a job that this process does not hold; else extend its lease.

        A whole file that is read will not be read again: the attempts are counted anew.
        """
        mine = (uploads.c.id == upload_id, uploads.c.reader == self._reader)
        held = {"held_until": read_clock(connection) + self.lease_s}
        if is_read:
            held["attempts"] = 1
        if connection.execute(uploads.update().where(*mine).values(**held)).rowcount == 0:
            raise LeaseLostError(
                "Another process reads this upload now, or its collection was deleted.",
                hint=f"Ask for the result: GET /v1/uploads/{upload_id}",
            )

    def finish(
        self,
        upload_id: str,
        status: str,
        *,
        error: str | None = None,
        keep_unread: bool = False,
    ) -> None:
        """End a job. With `keep_unread` its files stay, so that it can be tried again."""
        with self._catalog.write_transaction() as connection:
            self._check_lease(connection, upload_id)
            if not keep_unread:
                _delete_inputs(connection, upload_id)
            connection.execute(
                uploads.update()
                .where(uploads.c.id == upload_id)
                .values(status=status, finished_at=time.time(), error=error, stages=None)
            )

    def postpone(self, upload_id: str, *, error: str, delay_s: float) -> None:
        """Give a job back after a failure; anybody takes it after a while."""
        with self._write() as connection:
            now = read_clock(connection)
            connection.execute(
                uploads.update()
                .where(uploads.c.id == upload_id, uploads.c.reader == self._reader)
                .values(**_FREE, not_before=now + delay_s, error=error)
            )

    def release(self, reader: str) -> int:
        """Let others take the jobs of a process that is gone; return how many there are."""
        mine = uploads.c.reader == reader
        with self._catalog.read_transaction() as connection:
            half = select(uploads.c.id).where(mine, uploads.c.status == _RECEIVING)
            partial = list(connection.scalars(half))
        for upload_id in partial:
            self.delete(upload_id)
        with self._catalog.write_transaction(f"jobs:{reader}") as connection:
            running = uploads.update().where(mine, uploads.c.status == "running")
            return int(connection.execute(running.values(**_FREE)).rowcount)

    def release_own(self) -> None:
        """Let others take the jobs of this process, which stops: that is not an attempt."""
        mine = (uploads.c.reader == self._reader, uploads.c.status == "running")
        with self._write() as connection:
            connection.execute(uploads.update().where(*mine).values(**_FREE, attempts=0))

    def delete(self, upload_id: str) -> None:
        """Delete an upload and the files of it that are not read."""
        with self._catalog.write_transaction() as connection:
            _delete_inputs(connection, upload_id)
            connection.execute(upload_files.delete().where(upload_files.c.upload_id == upload_id))
            connection.execute(uploads.delete().where(uploads.c.id == upload_id))

    def restart(self, upload_id: str) -> None:
        """Try a failed job again; raise an error if its files are gone."""
        with self._catalog.write_transaction() as connection:
            row = connection.execute(select(uploads).where(uploads.c.id == upload_id)).first()
            if row is None:
                raise upload_not_found(upload_id)
            if row.status != "failed" or not list(_read_inputs(connection, upload_id)):
                raise InputError(
                    f"The upload '{upload_id}' cannot be tried again: it has no unread files.",
                    hint="List those that can: ragstone jobs --failed",
                )
            if newer := sorted(set(connection.scalars(_select_newer_names(row)))):
                raise InputError(
                    f"The upload '{upload_id}' cannot be tried again: newer versions of its files "
                    f"came since ({', '.join(newer[:_MAX_NAMED])}).",
                    hint=f"Delete it with: ragstone jobs delete {upload_id}; send the rest again.",
                )
            values = {"not_before": 0.0, "attempts": 0, "finished_at": None, "error": None}
            failed = uploads.update().where(uploads.c.id == upload_id)
            connection.execute(failed.values(status="running", **_FREE, **values))

    def list_unfinished(self, *, failed: bool = False, limit: int = 1000) -> list[dict[str, Any]]:
        """List jobs by the time they are due: unfinished ones, or those that failed for good."""
        unread = select(func.count()).select_from(upload_inputs)
        unread_count = unread.where(upload_inputs.c.upload_id == uploads.c.id).scalar_subquery()
        wanted = uploads.c.status == "running"
        if failed:
            wanted = and_(uploads.c.status == "failed", unread_count > 0)
        query = select(uploads, unread_count.label("unread")).where(wanted)
        with self._catalog.read_transaction() as connection:
            now = read_clock(connection)
            found = connection.execute(query.order_by(uploads.c.due).limit(limit))
            return [{**row._asdict(), "state": _name_state(row, now)} for row in found]

    def delete_expired(self, *, before: float) -> None:
        """Delete what was received in part, and failed jobs of before a time."""
        half = and_(
            uploads.c.status == _RECEIVING, uploads.c.created_at < time.time() - _RECEIVING_S
        )
        has_files = exists().where(upload_inputs.c.upload_id == uploads.c.id)
        failed = and_(uploads.c.status == "failed", uploads.c.finished_at < before, has_files)
        with self._catalog.read_transaction() as connection:
            found = list(connection.scalars(select(uploads.c.id).where(or_(half, failed))))
        for upload_id in found:
            self.delete(upload_id)


def compute_delay(size: int) -> float:
    """Return the seconds after which a job is due: the larger, the more overtake it."""
    return min(_MAX_DELAY_S, size / _BYTES_PER_SECOND)


def _has_earlier_version() -> ColumnElement[bool]:
    """Tell whether an earlier upload of a same name into the collection is not read yet."""
    other, mine, theirs = uploads.alias(), upload_inputs.alias(), upload_inputs.alias()
    is_earlier = or_(
        other.c.created_at < uploads.c.created_at,
        and_(other.c.created_at == uploads.c.created_at, other.c.id < uploads.c.id),
    )
    return exists().where(
        mine.c.upload_id == uploads.c.id,
        theirs.c.name == mine.c.name,
        theirs.c.upload_id == other.c.id,
        other.c.collection == uploads.c.collection,
        other.c.status == "running",
        is_earlier,
    )


def _select_newer_names(row: Any) -> Select[Any]:
    """Select the unread files of a failed upload that a later one has stored, or still may."""
    mine, later, unread, outcome = (
        table.alias() for table in (upload_inputs, uploads, upload_inputs, upload_files)
    )
    start = func.substr(outcome.c.name, 1, func.length(mine.c.name) + 1)
    is_stored = exists().where(
        outcome.c.upload_id == later.c.id,
        outcome.c.outcome != "failed",
        or_(outcome.c.name == mine.c.name, start == mine.c.name + "/"),
    )
    is_waiting = and_(
        later.c.status.in_(["running", _RECEIVING]),
        exists().where(unread.c.upload_id == later.c.id, unread.c.name == mine.c.name),
    )
    came_later = and_(later.c.collection == row.collection, later.c.created_at > row.created_at)
    found = select(mine.c.name).select_from(mine).join(later, came_later)
    return found.where(mine.c.upload_id == row.id, or_(is_stored, is_waiting))


def _name_state(row: Any, now: float) -> str:
    if row.status == "failed":
        return "failed"
    if row.not_before > now:
        return "waiting for a retry"
    return "running" if _is_held(row, now) else "waiting"


def _is_held(row: Any, now: float) -> bool:
    return row.started_at is not None and row.held_until >= now


def _read_inputs(connection: Connection, upload_id: str) -> Iterator[ReceivedFile]:
    query = select(upload_inputs).where(upload_inputs.c.upload_id == upload_id)
    for row in connection.execute(query.order_by(upload_inputs.c.position)):
        yield ReceivedFile(row.name, row.sha256, row.size)


def _delete_inputs(connection: Connection, upload_id: str) -> None:
    for file in list(_read_inputs(connection, upload_id)):
        mark_unused(connection, file.sha256)
    connection.execute(upload_inputs.delete().where(upload_inputs.c.upload_id == upload_id))


def delete_collection_jobs(connection: Connection, collection: str) -> None:
    """Delete the uploads of a collection; those who read them can store nothing any more."""
    ids = list(connection.scalars(select(uploads.c.id).where(uploads.c.collection == collection)))
    for upload_id in ids:
        _delete_inputs(connection, upload_id)
        connection.execute(upload_files.delete().where(upload_files.c.upload_id == upload_id))
    connection.execute(uploads.delete().where(uploads.c.collection == collection))


def _delete_outcomes(connection: Connection, upload_id: str, name: str) -> None:
    """Delete the outcomes of a file that was not read to its end: its members among them."""
    inside = name + "/"
    connection.execute(
        upload_files.delete().where(
            upload_files.c.upload_id == upload_id,
            (upload_files.c.name == name)
            | (func.substr(upload_files.c.name, 1, len(inside)) == inside),
        )
    )
