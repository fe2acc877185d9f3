"""Store uploaded files under their hash, and delete those that nothing needs any more.

A client's file name is never used as a path. Files are received into `spool/` of this machine and
moved to a `FileStore`: the folder `originals/`, or a bucket of an object store (`s3.py`) that
several machines share.

Whatever stops using a file marks it, in its own commit. Later a process claims marked files for a
while, deletes them without a lock, and removes the marks. An upload of the same bytes waits for the
end of such a claim before it stores them: nobody deletes what was just stored.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, and_, func, or_, select, text

from ragstone.catalog.schema import (
    MAX_BOUND_VALUES,
    documents,
    files,
    insert_into,
    split_batches,
    unused_files,
    upload_inputs,
)
from ragstone.errors import StoreBusyError
from ragstone.files import hash_file, hold_writer_lock, sync_file
from ragstone.protocols import Catalog, ReceivedFile
from ragstone.settings.services import OriginalsSettings
from ragstone.system import lock_file, remove_locked_file, sync_directory

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileStore(Protocol):
    """Store files under their SHA-256, in a folder or in an object store."""

    is_local: bool
    """Whether reading all files costs nothing but time."""

    def put(self, files: Mapping[str, Path]) -> None:
        """Store local files by their hashes; no kill loses them after this. The files are gone."""
        ...

    def find(self, sha256: str) -> Path | None:
        """Return a local file with these bytes, or None if the store has none."""
        ...

    def remove(self, sha256: str) -> None: ...
    def list_hashes(self) -> Iterator[str]: ...
    def delete_old_copies(self) -> None:
        """Delete what was only copied here to be read."""
        ...

    def close(self) -> None: ...


class FolderStore:
    """Implement `FileStore` on the folder `originals/` of a data directory."""

    is_local = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, files: Mapping[str, Path]) -> None:
        """Move received files in place; they survive a power cut."""
        folders = {self.path(sha256).parent for sha256 in files}
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for sha256, file in files.items():
            file.replace(self.path(sha256))
        for folder in {*folders, self._directory}:
            sync_directory(folder)

    def find(self, sha256: str) -> Path | None:
        path = self.path(sha256)
        return path if path.is_file() else None

    def remove(self, sha256: str) -> None:
        self.path(sha256).unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Return the place of a file with this hash, whether it exists or not."""
        assert _SHA256.fullmatch(sha256), f"not a SHA-256 hash: {sha256!r}"
        return self._directory / sha256[:2] / sha256

    def list_hashes(self) -> Iterator[str]:
        """Yield the hash of every stored file, by its name."""
        if not self._directory.exists():
            return
        for folder in sorted(self._directory.iterdir()):  # `glob` skips what it may not read
            for path in sorted(folder.iterdir()) if len(folder.name) == 2 else ():
                if _SHA256.fullmatch(path.name):
                    yield path.name

    def delete_old_copies(self) -> None:
        """Do nothing: files are read where they are."""

    def close(self) -> None:
        """Do nothing: it holds no connection."""


class Originals:
    """Receive files into `spool/` of the data directory, and store them under their hashes."""

    def __init__(self, directory: Path, files: FileStore | None = None) -> None:
        self._root = directory
        self.files: FileStore = files or FolderStore(directory / "originals")
        self.spool = Spool(directory / "spool")

    @classmethod
    def from_settings(cls, directory: Path, options: OriginalsSettings) -> Originals:
        """Open the bucket that the settings name, or the folder in the data directory."""
        if not options.bucket:
            return cls(directory)
        from ragstone.catalog.s3 import S3Store

        return cls(directory, S3Store(options, directory / "copies"))

    def new_path(self) -> Path:
        """Return an unused path for a file that is being received."""
        return self.spool.new_path()

    def receive(self, name: str, file: Path) -> ReceivedFile:
        """Make a received file durable and return its hash; it is not in the store yet."""
        sync_file(file)
        return ReceivedFile(name, hash_file(file), file.stat().st_size)

    @contextmanager
    def keep_all(self, *, timeout_s: float) -> Iterator[None]:
        """Let no process remove a file meanwhile: a backup needs all that its catalog names."""
        with hold_writer_lock(self._root, timeout_s=timeout_s, name="files.lock"):
            yield


_LOCK_SUFFIX = ".lock"


class Spool:
    """Manage `spool/` of a data directory: one locked folder per process, created when needed."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._descriptor = -1

    @property
    def name(self) -> str:
        """The name of this process's folder; it stays locked as long as the process lives."""
        return self._open_folder().name

    def new_path(self) -> Path:
        """Return an unused path for a file that is being received."""
        return self._open_folder() / uuid.uuid4().hex

    def clear_abandoned(self) -> Iterator[str]:
        """Yield the names of ended processes, then delete what they had received only in part."""
        for lock in sorted(self._root.glob(f"*{_LOCK_SUFFIX}")):
            descriptor = lock_file(lock)
            if descriptor is None:
                continue
            yield lock.stem
            # The lock file is deleted last: after a kill here, the next start finds the rest.
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            remove_locked_file(lock, descriptor)

    def close(self, *, is_finished: bool = True) -> None:
        """Release the folder; the next process takes over what is not finished."""
        with self._lock:
            if self._folder is None:
                return
            shutil.rmtree(self._folder, ignore_errors=True)
            if is_finished:
                remove_locked_file(self._folder.with_suffix(_LOCK_SUFFIX), self._descriptor)
            else:
                os.close(self._descriptor)
            self._folder = None

    def _open_folder(self) -> Path:
        with self._lock:
            while self._folder is None:
                self._root.mkdir(parents=True, exist_ok=True)
                lock = self._root / f"{uuid.uuid4().hex}{_LOCK_SUFFIX}"
                lock.touch()
                descriptor = lock_file(lock)
                if descriptor is None:  # another process cleared it between the two lines
                    continue
                self._descriptor, self._folder = descriptor, lock.with_suffix("")
                self._folder.mkdir()
            return self._folder


FILES_LOCK = "originals"
"""Held by those who begin to use a stored file, and by the one who claims unused ones."""
UPLOAD_SCHEME = "upload:"
"""Begins the source of every document that was uploaded, before its name."""

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
    # The count tells the one who is deleting it that it was marked again.
    again = {"marks": unused_files.c.marks + 1}
    connection.execute(
        insert_into(connection, unused_files)
        .values(sha256=sha256, marks=1)
        .on_conflict_do_update(index_elements=["sha256"], set_=again)
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
            free.limit(MAX_BOUND_VALUES).with_for_update(skip_locked=True)
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
                        unused_files.c.sha256.in_(part),
                        unused_files.c.deleting_until >= now,
                    )
                ).first()
                for part in split_batches(hashes)
            ):
                return
        time.sleep(_POLL_S)
    raise StoreBusyError(
        "An earlier file with the same content is still being deleted.", hint="Send it again."
    )
