"""The database under the catalog: SQLite in a data directory, or PostgreSQL by URL.

SQLite runs in WAL mode with full synchronisation: what a transaction has written survives a kill
and a power cut, and readers never wait for a writer. A transaction that will write says so at its
beginning, because one that begins by reading may find that it can no longer write.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError

from ragstone.errors import InputError, SettingsError, StoreBusyError, StoreError
from ragstone.files import writing

# The newest step in migrations/versions; a test compares the two.
HEAD = "0007"


def is_current(connection: Connection, *, where: str) -> bool:
    """Whether nothing is to be done; a schema from the future is refused."""
    revision = _revision(connection)
    if revision is not None and revision not in _known():
        raise StoreError(
            f"The catalog {where} was written by a newer version of Ragstone (schema {revision}).",
            hint="Install that version or newer, or choose another data directory.",
        )
    return revision == HEAD


def upgrade(connection: Connection, *, where: str) -> None:
    """Run the missing steps. Alembic is only imported when there are any."""
    if is_current(connection, where=where):
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _known() -> set[str]:
    versions = Path(__file__).parent / "migrations" / "versions"
    return {path.name.partition("_")[0] for path in versions.glob("[0-9]*.py")}


_SQLITE_HEAD = b"SQLite format 3\x00"
_BUSY_SECONDS = 30
_SCRUB_MS = 2000
_CONNECT_SECONDS = 10
# Any number will do, as long as every Ragstone takes the same one.
_WRITER_LOCK = 727_424_663


class Database:
    """Connections to one database whose schema is this version's."""

    def __init__(self, url: str | URL, *, where: str, directory: Path | None = None) -> None:
        self.where = where
        self._directory = directory
        self._engine = _engine(url)
        self._prepare_schema()
        self._looker = self._engine.raw_connection() if self.is_sqlite else None
        self._looking = threading.Lock()

    @classmethod
    def in_directory(cls, directory: Path) -> Database:
        path = directory / "catalog.db"
        _refuse_other_file(path)
        url = URL.create("sqlite", database=str(path))  # a path may hold ? and #
        return cls(url, where=f"'{path}'", directory=directory)

    @classmethod
    def at_url(cls, url: str) -> Database:
        shown = make_url_or_refuse(url).render_as_string(hide_password=True)
        return cls(url, where=f"'{shown}'")

    @property
    def is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view; takes no lock."""
        with self._explained(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, committed as a whole or not at all."""
        engine = self._engine.execution_options(ragstone_writes=True)
        with self._explained(), engine.begin() as connection:
            if not self.is_sqlite:
                # One writer at a time, as in SQLite: the numbers of changes must become visible
                # in their order, or an index would read past one that is not there yet.
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})"))
            yield connection

    def glance(self, sql: str) -> tuple[Any, ...] | None:
        """One row by the shortest way (6 µs, against 300 µs for a read); None where there is none:
        on PostgreSQL every look is a journey."""
        with self._looking:
            if self._looker is None:
                return None
            try:
                found: tuple[Any, ...] = self._looker.cursor().execute(sql).fetchone()
            except sqlite3.Error:  # a read meets it again, and has words for it
                return None
        return found

    def scrub(self) -> None:
        """Let nothing that was deleted stand in the files any longer.

        SQLite keeps the last transactions in a log of its own until they are checkpointed. While
        somebody reads what they have replaced this waits a little; the next deletion or the end of
        the process then does it. PostgreSQL sees to it by itself (autovacuum).
        """
        if not self.is_sqlite:
            return
        with self._explained(), closing(self._engine.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {_SCRUB_MS}")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")

    def close(self) -> None:
        with self._looking:
            if self._looker is not None:
                self._looker.close()
                self._looker = None
        self._engine.dispose()

    def _prepare_schema(self) -> None:
        with self.reading() as connection:
            if is_current(connection, where=self.where):
                return
        with self._one_at_a_time(), self.writing() as connection:
            upgrade(connection, where=self.where)

    def _one_at_a_time(self) -> AbstractContextManager[None]:
        if self._directory is None:
            return nullcontext()
        return writing(self._directory, timeout_s=_BUSY_SECONDS)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The database's own failures as sentences."""
        try:
            yield
        except UnicodeEncodeError as error:
            raise _unstorable("half of a character (a lone surrogate)") from error
        except OperationalError as error:
            raise _operational(str(error.orig), self.where) from error
        except DBAPIError as error:
            raise StoreError(
                f"The catalog {self.where} cannot be read: {_first_line(error.orig)}.",
                hint="If it is damaged, restore a backup or move it away and ingest again.",
            ) from error


def _refuse_nul(
    _connection: Connection, _cursor: Any, _statement: str, parameters: Any, _context: Any,
    many: bool,
) -> None:  # fmt: skip
    """PostgreSQL stores no NUL, and ends with an error of its own at one that only asks for it.
    Every string on its way to the database passes here, on SQLite as well: what can be stored
    must not depend on where."""
    for row in parameters if many else (parameters,):
        for value in row.values() if isinstance(row, Mapping) else row:
            if isinstance(value, str) and "\0" in value:
                raise _unstorable("the character NUL")


def _unstorable(what: str) -> InputError:
    return InputError(
        f"A name, an id or a text holds {what}, which cannot be stored.", hint="Leave it out."
    )


def _refuse_other_file(path: Path) -> None:
    """SQLite takes a file of a few bytes for an empty database and would write over it."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE_HEAD))
    except OSError:
        return  # none yet, or one that SQLite itself will complain of
    if head and head != _SQLITE_HEAD:
        raise StoreError(
            f"The catalog '{path}' is not a database.",
            hint="Restore a backup, or move the file away and ingest again.",
        )


def make_url_or_refuse(url: str | URL) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise SettingsError(
            "The setting RAGSTONE_DATABASE_URL is no database address.",
            hint="Write postgresql://USER:PASSWORD@HOST:5432/DATABASE.",
        ) from error


def _engine(url: str | URL) -> Engine:
    address = make_url_or_refuse(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+pg8000")
    if address.get_backend_name() == "sqlite":
        engine = create_engine(address, connect_args={"timeout": _BUSY_SECONDS})
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "before_cursor_execute", _refuse_nul)
        return engine
    try:
        engine = create_engine(
            address, pool_pre_ping=True, connect_args={"timeout": _CONNECT_SECONDS}
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise SettingsError(
            f"No driver for {address.get_backend_name()} is installed.",
            hint="Try: pip install 'ragstone[postgres]'",
        ) from error
    event.listen(engine, "connect", _configure_postgres)
    event.listen(engine, "before_cursor_execute", _refuse_nul)
    return engine


def _configure_postgres(connection: Any, _record: object) -> None:
    # The limit was for connecting; a statement may wait longer for its turn.
    sock = getattr(connection, "_usock", None)
    if sock is not None:
        sock.settimeout(None)


def _configure_sqlite(connection: Any, _record: object) -> None:
    # Transactions are begun below, not by the driver's guess.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    # What is deleted is written over; some builds of SQLite leave it in free pages.
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("ragstone_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _operational(reason: str, where: str) -> StoreError:
    if "locked" in reason or "busy" in reason:
        return StoreBusyError(
            f"Another process has been writing to the catalog {where} for {_BUSY_SECONDS} s.",
            hint="Wait for it to end and try again.",
        )
    if "full" in reason:
        return StoreError(
            f"The disk of the catalog {where} is full.",
            hint="Free some space and run the same command again; nothing stored is lost.",
        )
    if "readonly" in reason or "read-only" in reason:
        return StoreError(
            f"The catalog {where} cannot be written.",
            hint="Check its permissions, or choose another directory with --data.",
        )
    return StoreError(
        f"The catalog {where} cannot be used: {_first_line(reason)}.",
        hint="Check that it exists, can be reached and can be written.",
    )


def _first_line(reason: object) -> str:
    return str(reason).strip().partition("\n")[0].rstrip(".")
