"""Connect to the catalog's database: SQLite in a data directory, or PostgreSQL by URL.

SQLite runs in WAL mode with full synchronisation: a committed transaction survives a kill and a
power cut, and readers never wait for a writer. A writing transaction takes the lock when it
begins, because SQLite may refuse to turn a reading transaction into a writing one.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    create_engine,
    event,
    text,
)
from sqlalchemy.exc import (
    DBAPIError,
    InterfaceError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ragstone.catalog.address import parse_database_url, read_parameters
from ragstone.catalog.upgrade import is_schema_current, upgrade_schema
from ragstone.catalog.wal import DAMAGED_SUFFIX, refuse_damaged_log
from ragstone.errors import (
    InputError,
    SettingsError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreUnavailableError,
)
from ragstone.files import OwnConnection, hold_writer_lock
from ragstone.system import sync_directory

log = logging.getLogger(__name__)

_SQLITE_MAGIC = b"SQLite format 3\x00"
_LOCK_TIMEOUT_S = 30
_CHECKPOINT_TIMEOUT_MS = 2000
# A question must not wait long for a server that is away: each transaction begins with a ping.
_CONNECT_TIMEOUT_S = 1.5
_PING_TIMEOUT_S = 1.0
_READ_TIMEOUT_S = 15.0
_WRITE_TIMEOUT_S = 300.0  # it may wait for a lock
_POOL_TIMEOUT_S = 5.0
# A process that is frozen inside a transaction holds its locks no longer than this.
_SESSION = {"idle_in_transaction_session_timeout": "60s"}
# An arbitrary number; all versions of Ragstone must use the same one.
_WRITER_LOCK = 727_424_663


class Database:
    """Open transactions in one database with the current schema."""

    def __init__(self, url: str | URL, *, location: str, directory: Path | None = None) -> None:
        self.location = location
        self._directory = directory
        self._engine = _create_engine(url)
        self._local = threading.local()
        try:
            self._prepare_schema()
            self._fast_connection = self._engine.raw_connection() if self.is_sqlite else None
        except BaseException:
            self._engine.dispose()
            raise
        self._fast_lock = threading.Lock()

    @classmethod
    def in_directory(cls, directory: Path) -> Database:
        path = directory / "catalog.db"
        try:
            if not path.exists():
                _create_file(path)
        except sqlite3.Error as error:
            raise _explain_sqlite(error, f"'{path}'") from error
        except OSError:
            pass  # SQLite reports the same error
        refuse_damaged_log(path)  # first: whoever closes the database deletes the log
        _refuse_other_file(path)
        url = URL.create("sqlite", database=str(path))  # a path may contain ? and #
        return cls(url, location=f"'{path}'", directory=directory)

    @classmethod
    def at_url(cls, url: str) -> Database:
        # Without host, user and database: callers of the server see what an error says.
        return cls(url, location="on PostgreSQL")

    @property
    def is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def read_transaction(self, *, is_snapshot: bool = False) -> Iterator[Connection]:
        """Open a transaction that only reads, without a lock.

        In SQLite all its statements see one state; on PostgreSQL only with `is_snapshot`, which
        costs a round trip.
        """
        if (outer := self._get_open_connection()) is not None:
            yield outer
            return
        with self._translate_errors(), self._connect(self._engine) as connection:
            _set_timeout(connection, _READ_TIMEOUT_S)
            with connection.begin():
                if is_snapshot and not self.is_sqlite:
                    connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
                yield connection

    @contextmanager
    def write_transaction(self, lock: str = "catalog") -> Iterator[Connection]:
        """Open a transaction that may write; it is committed as a whole or not at all.

        Inside another one of the same thread it is a part of that one. On PostgreSQL those with the
        same `lock` follow each other, as all do in SQLite: changes of one collection must become
        visible in the order of their numbers, or an index would skip one that is committed later.
        """
        if (outer := self._get_open_connection()) is not None:
            self._lock(outer, lock)
            yield outer
            return
        engine = self._engine.execution_options(ragstone_writes=True)
        with (
            self._translate_errors(),
            self._connect(engine) as connection,
            connection.begin(),
        ):
            if not self.is_sqlite:
                _set_timeout(connection, _WRITE_TIMEOUT_S)
            self._lock(connection, lock)
            self._local.connection = connection
            try:
                yield connection
            finally:
                self._local.connection = None

    def _lock(self, connection: Connection, name: str) -> None:
        """Wait for the transactions with the same lock; it is held until this one ends."""
        if not self.is_sqlite:
            number = zlib.crc32(name.encode()) - 2**31  # a signed number of 32 bits
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK}, {number})"))

    def _get_open_connection(self) -> Connection | None:
        """Return the connection of this thread's writing transaction."""
        connection: Connection | None = getattr(self._local, "connection", None)
        return connection

    def read_fast(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]] | None:
        """Read rows without a transaction (6 µs, against 300 µs with one).

        None on PostgreSQL, where each statement costs a network round trip.
        """
        with self._fast_lock:
            # The transaction of this thread may have written what is to be read.
            if self._fast_connection is None or self._get_open_connection() is not None:
                return None
            try:
                found = self._fast_connection.cursor().execute(sql, values)
                rows: list[tuple[Any, ...]] = found.fetchall()
            except sqlite3.Error:  # the next transaction meets and explains the same error
                return None
        return rows

    def erase_deleted(self) -> None:
        """Overwrite deleted data on the disk.

        SQLite keeps the last transactions in its write-ahead log until a checkpoint. While another
        connection reads the old data, this waits a little; then the next deletion or the end of
        the process does it. PostgreSQL does it by itself (autovacuum).
        """
        if not self.is_sqlite:
            return
        with self._translate_errors(), closing(self._engine.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_TIMEOUT_MS}")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.execute(f"PRAGMA busy_timeout = {_LOCK_TIMEOUT_S * 1000}")

    def close(self) -> None:
        with self._fast_lock:
            if self._fast_connection is not None:
                self._fast_connection.close()
                self._fast_connection = None
        self._engine.dispose()

    def _prepare_schema(self) -> None:
        with self.read_transaction() as connection:
            if is_schema_current(connection, location=self.location):
                return
        lock: AbstractContextManager[None] = nullcontext()
        if self._directory is not None:
            lock = hold_writer_lock(self._directory, timeout_s=_LOCK_TIMEOUT_S)
        with lock, self.write_transaction() as connection:
            upgrade_schema(connection, location=self.location)

    def _connect(self, engine: Engine) -> Connection:
        """Open a connection; again if the pool had one that the server has closed."""
        try:
            return engine.connect()
        except TimeoutError:
            raise
        except OSError:
            return engine.connect()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn the database's errors into ours."""
        try:
            yield
        except (OSError, PoolTimeoutError) as error:
            if self.is_sqlite:
                raise
            raise _make_unavailable(error) from error
        except UnicodeEncodeError as error:
            raise _make_unstorable_error("half of a character (a lone surrogate)") from error
        except DBAPIError as error:
            if self.is_sqlite:
                raise _explain_sqlite(error.orig, self.location) from error
            raise _explain_postgres(error, self.location) from error


def _refuse_nul(
    _connection: Connection,
    _cursor: Any,
    _statement: str,
    parameters: Any,
    _context: Any,
    many: bool,
) -> None:
    """Refuse NUL in every string that goes to a database.

    PostgreSQL fails at one, also in a read; SQLite would store it. Both must accept the same.
    """
    for row in parameters if many else (parameters,):
        for value in row.values() if isinstance(row, Mapping) else row:
            if isinstance(value, str) and "\0" in value:
                raise _make_unstorable_error("the character NUL")


def _make_unstorable_error(content: str) -> InputError:
    return InputError(
        f"A name, id or text contains {content}, which cannot be stored.", hint="Remove it."
    )


def _create_file(path: Path) -> None:
    """Create an empty database under its name as a whole: no kill leaves a file of no length."""
    with hold_writer_lock(path.parent, timeout_s=_LOCK_TIMEOUT_S):
        if path.exists():  # another process was first
            return
        # SQLite would apply the log of an earlier catalog to this one.
        for suffix in ("-wal", "-shm", DAMAGED_SUFFIX):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        with closing(sqlite3.connect(temporary)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        temporary.replace(path)
        sync_directory(path.parent)


def _refuse_other_file(path: Path) -> None:
    """Refuse a file that is not a catalog, before SQLite writes to it."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_MAGIC))
    except OSError:
        return  # it does not exist yet, or SQLite reports the error
    if head == _SQLITE_MAGIC:
        problem = "is the database of another program" if _is_foreign(path) else ""
    else:
        problem = "is not a database" if head else "is empty: its content is lost"
    if problem:
        raise StoreError(
            f"The catalog '{path}' {problem}.",
            hint="Restore a backup, or move the file away and ingest again.",
        )


def _is_foreign(path: Path) -> bool:
    """Return whether a database has tables, but not those of the first schema."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            names = {name for (name,) in found}
    except sqlite3.Error:
        return False  # it is damaged or locked: the first transaction reports the error
    return bool(names) and not {"documents", "chunks", "changes", "counters"} <= names


def _create_engine(url: str | URL) -> Engine:
    address = parse_database_url(url)
    if address.get_backend_name() == "sqlite":
        own = {"timeout": _LOCK_TIMEOUT_S, "factory": OwnConnection}
        engine = create_engine(address, connect_args=own)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "before_cursor_execute", _refuse_nul)
        return engine
    parameters = read_parameters(address)
    try:
        engine = create_engine(
            address.set(query={}),
            pool_pre_ping=True,
            pool_timeout=_POOL_TIMEOUT_S,
            connect_args={
                "timeout": _CONNECT_TIMEOUT_S,
                "startup_params": _SESSION,
                **parameters,
            },
        )
    except ModuleNotFoundError as error:
        raise SettingsError(
            "The driver for PostgreSQL is not installed.",
            hint="Try: pip install 'ragstone[postgres]'",
        ) from error
    event.listen(engine, "checkin", _limit_next_ping)
    event.listen(engine, "handle_error", _discard_broken_connection)
    event.listen(engine, "before_cursor_execute", _refuse_nul)
    return engine


def _set_timeout(connection: Connection, timeout_s: float) -> None:
    if (sock := getattr(connection.connection.dbapi_connection, "_usock", None)) is not None:
        sock.settimeout(timeout_s)


def _limit_next_ping(connection: Any, _record: object) -> None:
    if (sock := getattr(connection, "_usock", None)) is not None:
        sock.settimeout(_PING_TIMEOUT_S)


def _discard_broken_connection(context: ExceptionContext) -> None:
    # The driver lets the errors of its socket through; the reply may still come to the next user.
    if isinstance(context.original_exception, OSError):
        context.is_disconnect = True


def _make_unavailable(error: object) -> StoreUnavailableError:
    reason = _first_line(error)
    log.warning("PostgreSQL does not answer: %s", reason)
    return StoreUnavailableError(
        "The database of the catalog (PostgreSQL) does not answer.",
        hint="Try again in a moment. If it stays so, check that it runs and "
        "RAGSTONE_DATABASE_URL; the log has the reason.",
        reason=reason,
    )


# Conflicts of transactions; no room or connections left; it starts or stops; its disk fails. Then:
# the standby during a failover, and a lock that is not available.
_UNABLE_CLASSES = ("40", "53", "57", "58")
_UNABLE_STATES = {"25006", "55P03"}


def _explain_postgres(error: DBAPIError, location: str) -> StoreError:
    """Explain a failure by its SQLSTATE: appendix A of PostgreSQL's manual lists them."""
    fields = _read_server_error(error)
    state, reason = fields.get("C", ""), _first_line(fields.get("M", error.orig))
    if state in {"XX001", "XX002"}:
        return StoreDamagedError(
            f"PostgreSQL reports damage in the catalog: {reason}.",
            hint="Restore a backup made with pg_dump.",
        )
    if state.startswith("28") or state in {"3D000", "42501"}:
        return StoreError(
            f"The database of the catalog (PostgreSQL) refuses access: {reason}.",
            hint="Check the user, the password and the database in RAGSTONE_DATABASE_URL.",
        )
    if state.startswith(_UNABLE_CLASSES) or state in _UNABLE_STATES:
        log.warning("PostgreSQL cannot work: %s (%s)", reason, state)
        return StoreUnavailableError(
            f"The database of the catalog (PostgreSQL) cannot work now: {reason}.",
            hint="Try again in a moment. If it stays so, its log has the details.",
        )
    is_lost = error.connection_invalidated or isinstance(error, InterfaceError)
    if is_lost or state.startswith("08"):
        return _make_unavailable(reason)
    return StoreError(
        f"The catalog {location} cannot be used: {reason}.",
        hint="The log of PostgreSQL has the details.",
    )


def _read_server_error(error: DBAPIError) -> dict[str, str]:
    """Return the fields of the server's message; {} if it sent none."""
    cause: BaseException | None = error.orig
    while cause is not None:  # the driver hides a refused login behind its failure to say goodbye
        if cause.args and isinstance(cause.args[0], dict):
            return cause.args[0]
        cause = cause.__context__
    return {}


def _configure_sqlite(connection: Any, _record: object) -> None:
    # `_begin_sqlite` begins transactions, not the driver.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    # Overwrite deleted data; some builds of SQLite leave it in free pages.
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("ragstone_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _explain_sqlite(error: BaseException | None, location: str) -> StoreError:
    """Explain a failure; only what SQLite itself calls damage is damage."""
    reason = str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # Text that is not UTF-8 has no code, and its message quotes it.
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} or "decode to UTF-8" in reason:
        problem = _first_line(reason).partition(" with text")[0]
        return StoreDamagedError(
            f"The catalog {location} cannot be read: {problem}.",
            hint="Restore a backup, or move it away and ingest again.",
        )
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreBusyError(
            f"Another process has been writing to the catalog {location} for {_LOCK_TIMEOUT_S} s.",
            hint="Wait for it to end and try again.",
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"The disk of the catalog {location} is full.",
            hint="Free some space and run the same command again; nothing stored is lost.",
        )
    if code == sqlite3.SQLITE_READONLY:
        return StoreError(
            f"The catalog {location} cannot be written.",
            hint="Check its permissions, or choose another directory with --data.",
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailableError(
            f"The disk of the catalog {location} reports an error: {_first_line(reason)}.",
            hint="Check the disk and its free space.",
        )
    return StoreError(
        f"The catalog {location} cannot be used: {_first_line(reason)}.",
        hint="Check that it exists, can be reached and can be written.",
    )


def _first_line(reason: object) -> str:
    return str(reason).strip().partition("\n")[0].rstrip(".")
