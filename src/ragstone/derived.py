"""Keep values that were computed from documents, in a SQLite file that all processes share.

key and owner → bytes. The owner of a value is the document that it was computed from. The file may
be lost at any time: a value that is missing or damaged is computed again. Each value has a
checksum; a file that SQLite cannot read is replaced by an empty one.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeVar

from ragstone.files import OwnConnection
from ragstone.protocols import Catalog

log = logging.getLogger(__name__)

T = TypeVar("T")
FILE_NAME = "derived.db"
# Another process may write; a reader computes the value itself rather than wait for long.
_BUSY_TIMEOUT_S = 0.5
# What was deleted must go: a deletion waits for the writer.
_DELETE_TIMEOUT_S = 5.0
_MAPPED_BYTES = 256_000_000
_MAX_WAITING = 256
_MAX_BOUND_VALUES = 500
_EVICTED_SHARE = 0.1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS derived (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, owner TEXT NOT NULL,
    checksum INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS derived_by_owner ON derived (owner);
"""
_ANSWERS_OF = "answers of "
Value = tuple[bytes, str, bytes]
"""Key, owner, content."""


class DerivedStore:
    """Read and write values by key; the oldest go when there are too many. Safe for threads."""

    def __init__(self, path: Path, *, max_bytes: int = 512_000_000) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="derived")
        self._waiting = 0
        self._undeleted: set[str] = set()

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values that are stored and whole."""
        if not keys or (self._connection is None and not self._path.exists()):
            return {}
        found: dict[bytes, bytes] = {}

        def read(connection: sqlite3.Connection) -> None:
            for begin in range(0, len(keys), _MAX_BOUND_VALUES):
                part = keys[begin : begin + _MAX_BOUND_VALUES]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, checksum, content FROM derived WHERE key IN ({marks})"  # noqa: S608  marks only
                found.update(
                    (key, content)
                    for key, checksum, content in connection.execute(query, part)
                    if checksum == _sum(key, content)
                )

        self._use(read)
        return found

    def put_later(self, values: Callable[[], Iterable[Value]]) -> None:
        """Write values in another thread, soon; `values` is called there. When too many wait, the
        values are dropped."""
        with self._lock:
            if self._waiting >= _MAX_WAITING:
                return
            self._waiting += 1
        with suppress(RuntimeError):  # the store was closed meanwhile
            self._writer.submit(self._put, values)

    def _put(self, values: Callable[[], Iterable[Value]]) -> None:
        with self._lock:
            self._waiting -= 1
        try:
            self.put_many(list(values()))
        except Exception as error:  # noqa: BLE001  nobody waits: the value is computed again
            log.warning("a derived value was not kept: %s", type(error).__name__)

    def put_many(self, values: Sequence[Value]) -> None:
        """Write values, and delete the oldest ones when the file has become too large."""
        rows = [(key, owner, _sum(key, content), content) for key, owner, content in values]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO derived (key, owner, checksum, content)"
                    " VALUES (?, ?, ?, ?)",
                    rows,
                )
                if self._measure_bytes(connection) > self._max_bytes:
                    _delete_oldest(connection)

        self._use(write)

    def delete_missing(self, catalog: Catalog) -> None:
        """Delete the values of documents that are not in the catalog any more, as after a kill;
        answers may rest on them and go too."""
        rows = self._use(lambda c: c.execute("SELECT DISTINCT owner FROM derived").fetchall())
        owners = {owner for (owner,) in rows or ()}
        answers = {owner for owner in owners if owner.startswith(_ANSWERS_OF)}
        missing = owners - answers - catalog.document_fields(owners - answers).keys()
        if missing:
            self.delete_owners([*missing, *answers])

    def delete_owners(self, owners: Sequence[str]) -> None:
        """Delete the values of owners, also those that wait to be written. What a busy file does
        not let go is deleted with the next ones."""
        if not owners:
            return
        self.flush()
        with self._lock:
            wanted, self._undeleted = self._undeleted | set(owners), set()
        if not self._path.exists():
            return
        try:
            # A connection of its own: readers do not wait as long as a deletion does.
            with closing(self._connect(_DELETE_TIMEOUT_S)) as connection:
                _delete(connection, wanted)
        except sqlite3.OperationalError as error:  # locked, or the disk is full
            log.warning("derived values of %d owners are deleted later: %s", len(wanted), error)
            with self._lock:
                self._undeleted |= wanted
        except sqlite3.DatabaseError as error:
            with self._lock:
                self._replace(error)

    def flush(self) -> None:
        """Wait until everything that was put is written."""
        with suppress(RuntimeError):  # the store was closed, and everything is written
            done: Future[None] = self._writer.submit(lambda: None)
            done.result()

    def close(self) -> None:
        self.delete_owners(list(self._undeleted))
        self._writer.shutdown(wait=True)
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Call `work` with the open file; None when the file is busy or had to be replaced."""
        with self._lock:
            try:
                return work(self._open())
            except sqlite3.OperationalError as error:  # locked, or the disk is full
                log.debug("derived values cannot be used now: %s", error)
            except sqlite3.DatabaseError as error:
                self._replace(error)
            return None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect(_BUSY_TIMEOUT_S)
        return self._connection

    def _connect(self, timeout_s: float) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=timeout_s, check_same_thread=False, factory=OwnConnection
        )
        try:
            for name, value in (
                ("journal_mode", "wal"),
                ("synchronous", "normal"),
                ("secure_delete", "on"),
                ("mmap_size", _MAPPED_BYTES),
            ):
                connection.execute(f"PRAGMA {name}={value}")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        log.warning("the file %s is damaged and starts anew: %s", self._path.name, error)
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        remove_files(self._path)

    def _measure_bytes(self, connection: sqlite3.Connection) -> int:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)


def name_answers(collection: str) -> str:
    """Return the owner of the answers from a collection; no document has this name."""
    return _ANSWERS_OF + collection


def remove_files(path: Path) -> None:
    """Delete a SQLite file with its log."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            path.with_name(path.name + suffix).unlink()


def _delete(connection: sqlite3.Connection, owners: Iterable[str]) -> None:
    with connection:
        connection.executemany(
            "DELETE FROM derived WHERE owner = ?", [(owner,) for owner in owners]
        )
    # Overwritten pages also leave the write-ahead log.
    is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise sqlite3.OperationalError("another process still reads the write-ahead log")


def _delete_oldest(connection: sqlite3.Connection) -> None:
    first, last = connection.execute("SELECT min(id), max(id) FROM derived").fetchone()
    limit = first + max(1, int(_EVICTED_SHARE * (last - first)))
    connection.execute("DELETE FROM derived WHERE id <= ?", (limit,))


def _sum(key: bytes, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(key))


def build_key(*parts: object) -> bytes:
    """Return the key of a value: a hash of everything that it depends on."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


@cache
def hash_modules(*names: str) -> str:
    """Return a hash of the source of modules: a value that other code made is not used."""
    digest = hashlib.sha256()
    for name in names:
        package, _, module = name.rpartition(".")
        file = resources.files(package).joinpath(f"{module}.py")
        digest.update(file.read_bytes() if file.is_file() else name.encode())
    return digest.hexdigest()[:16]
