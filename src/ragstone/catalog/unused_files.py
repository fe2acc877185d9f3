"""Delete stored files that nothing needs any more, without a lock while a store is asked.

Whatever stops using a file marks it, in its own commit. Later a process claims marked files for a
while, deletes them, and removes the marks. An upload of the same bytes waits for the end of such a
claim before it stores them: nobody deletes what was just stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select, text
from sqlalchemy.dialects import postgresql, sqlite

from ragstone.catalog.schema import documents, files, unused_files, upload_inputs
from ragstone.errors import StoreBusyError
from ragstone.protocols import Catalog

FILES_LOCK = "originals"
"""Held by those who begin to use a stored file, and by the one who claims unused ones."""
UPLOAD_SCHEME = "upload:"
"""Begins the source of every document that was uploaded, before its name."""

_MAX_BOUND_VALUES = 500
# A process that does not finish in this time has ended; it begins no deletion in its second half.
_CLAIM_S = 60.0
_POLL_S = 0.1


def read_clock(connection: Connection) -> float:
    """Return the time of the database: the clocks of several machines differ."""
    if connection.dialect.name == "sqlite":
        return time.time()
    clock = text("SELECT extract(epoch FROM clock_timestamp())")
    return float(connection.execute(clock).scalar_one())


def mark_unused(connection: Connection, sha256: str) -> None:
    """Note, in the same commit, that a stored file may be needed no more."""
    if not sha256:
        return
    is_sqlite = connection.dialect.name == "sqlite"
    insert: Any = (sqlite if is_sqlite else postgresql).insert(unused_files)
    # The count tells the one who is deleting it that it was marked again.
    again = {"marks": unused_files.c.marks + 1}
    connection.execute(
        insert.values(sha256=sha256, marks=1).on_conflict_do_update(
            index_elements=["sha256"], set_=again
        )
    )


def delete_unused(catalog: Catalog, remove: Callable[[str], None], *, keep_read: bool) -> None:
    """Call `remove` for files that nothing needs any more, and forget their marks."""
    with catalog.read_transaction() as connection:
        if connection.execute(select(unused_files.c.sha256).limit(1)).first() is None:
            return
    begun = time.monotonic()
    claimed = _claim(catalog, keep_read=keep_read)
    removed: list[Any] = []
    try:
        for row in claimed:
            if time.monotonic() - begun > _CLAIM_S / 2:
                break
            remove(row.sha256)
            removed.append(row)
    finally:
        if claimed:
            _end_claim(catalog, claimed, removed)


def _claim(catalog: Catalog, *, keep_read: bool) -> Sequence[Any]:
    """Claim marked files that nothing uses; forget the marks of those that are in use."""
    users = [select(upload_inputs.c.sha256)]
    if keep_read:
        # An archive has no document of its own.
        is_uploaded = func.substr(files.c.path, 1, len(UPLOAD_SCHEME)) == UPLOAD_SCHEME
        users += [select(documents.c.sha256), select(files.c.sha256).where(is_uploaded)]
    # Nobody begins to use a file between the question and the claim: uploads take this lock.
    with catalog.write_transaction(FILES_LOCK) as connection:
        now = read_clock(connection)
        # Rows that are marked at this moment are left for the next time.
        free = select(unused_files).where(unused_files.c.deleting_until < now)
        marked = connection.execute(
            free.limit(_MAX_BOUND_VALUES).with_for_update(skip_locked=True)
        ).all()
        is_used = {
            row.sha256
            for row in marked
            for users_of in users
            if connection.execute(
                users_of.where(users_of.selected_columns.sha256 == row.sha256).limit(1)
            ).first()
        }
        claimed = [row for row in marked if row.sha256 not in is_used]
        connection.execute(unused_files.delete().where(unused_files.c.sha256.in_(is_used)))
        here = unused_files.c.sha256.in_([row.sha256 for row in claimed])
        connection.execute(unused_files.update().where(here).values(deleting_until=now + _CLAIM_S))
    return claimed


def _end_claim(catalog: Catalog, claimed: Sequence[Any], removed: Sequence[Any]) -> None:
    """Forget the marks of deleted files, unless they were marked again; free the others."""
    with catalog.write_transaction(FILES_LOCK) as connection:
        same = [
            and_(unused_files.c.sha256 == row.sha256, unused_files.c.marks == row.marks)
            for row in removed
        ]
        if same:
            connection.execute(unused_files.delete().where(or_(*same)))
        here = unused_files.c.sha256.in_([row.sha256 for row in claimed])
        connection.execute(unused_files.update().where(here).values(deleting_until=0.0))


def wait_for_deletions(catalog: Catalog, hashes: Sequence[str]) -> None:
    """Wait until nobody is deleting files with these hashes, which must be in use by now."""
    end = time.monotonic() + 2 * _CLAIM_S
    while time.monotonic() < end:
        with catalog.read_transaction() as connection:
            now = read_clock(connection)
            if not any(
                connection.execute(
                    select(unused_files.c.sha256).where(
                        unused_files.c.sha256.in_(hashes[begin : begin + _MAX_BOUND_VALUES]),
                        unused_files.c.deleting_until >= now,
                    )
                ).first()
                for begin in range(0, len(hashes), _MAX_BOUND_VALUES)
            ):
                return
        time.sleep(_POLL_S)
    raise StoreBusyError(
        "An earlier file with the same content is still being deleted.", hint="Send it again."
    )
