"""Create the tables of a new catalog, and add to one of an older version what it lacks.

`schema.py` is the only statement of the tables. A new version of the schema adds tables, indexes,
and columns that may be empty or have a default, so one rule serves every older version: add what is
missing. Only values that must be computed from stored rows need a step of their own.
"""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.schema import CreateColumn

from ragstone.catalog.lookup import insert_lookups
from ragstone.catalog.schema import (
    alembic_version,
    chunks,
    counters,
    documents,
    queries,
    tables,
    uploads,
)
from ragstone.errors import StoreError
from ragstone.types import LOCAL_OWNER

# Raise it with every change of `schema.py`.
HEAD = "0017"
_VERSIONS = frozenset(f"{number:04}" for number in range(1, int(HEAD) + 1))


def is_schema_current(connection: Connection, *, location: str) -> bool:
    """Return whether the schema is up to date; raise a StoreError if it is newer than ours."""
    version = _read_version(connection)
    if version and version not in _VERSIONS:  # on PostgreSQL it may be another program's
        raise StoreError(
            f"The catalog {location} was written by a newer Ragstone (schema {version}).",
            hint="Install that version or newer, or choose another data directory.",
        )
    return version == HEAD


def upgrade_schema(connection: Connection, *, location: str) -> None:
    """Bring the tables up to date, in the transaction of the connection."""
    if is_schema_current(connection, location=location):
        return
    version = _read_version(connection)
    if not version:
        _refuse_other_tables(connection, location)
    _add_missing(connection)
    if not version:
        connection.execute(counters.insert().values(name="chunk_key", value=0))
    if version < "0003":  # so that an index knows which catalog it follows
        connection.execute(counters.insert().values(name="identity", value=secrets.randbits(62)))
    if version < "0006":
        connection.execute(queries.update().values(owner=LOCAL_OWNER))
    if version < "0011":  # until then the files of an upload that was interrupted were not kept
        running = uploads.update().where(uploads.c.status == "running")
        connection.execute(running.values(status="failed"))
    if version < "0012":
        _fill_lookups(connection)
    connection.execute(alembic_version.delete())
    connection.execute(alembic_version.insert().values(version_num=HEAD))


def _read_version(connection: Connection) -> str:
    """Return the version of the schema; empty for a database without tables."""
    if not inspect(connection).has_table(alembic_version.name):
        return ""
    return str(connection.scalar(select(alembic_version.c.version_num)) or "")


def _refuse_other_tables(connection: Connection, location: str) -> None:
    """Refuse a database where another program has tables of our names: they would be changed."""
    known = inspect(connection)
    names = sorted(name for name in tables.tables if known.has_table(name))
    if names:
        raise StoreError(
            f"The catalog {location} cannot be created: the database has tables of another "
            f"program ({', '.join(names)}).",
            hint="Give Ragstone a database of its own.",
        )


def _add_missing(connection: Connection) -> None:
    known = inspect(connection)
    old = [table for table in tables.sorted_tables if known.has_table(table.name)]
    tables.create_all(connection, checkfirst=bool(old))
    for table in old:
        existing = {column["name"] for column in known.get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {definition}"))
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _fill_lookups(connection: Connection) -> None:
    names = ("id", "collection", "status", "metadata", "chunk_count")
    current = select(*(documents.c[name] for name in names)).where(documents.c.retired_at.is_(None))
    for row in connection.execute(current).all():
        paths = select(chunks.c.heading_path).where(chunks.c.document_id == row.id)
        insert_lookups(connection, row, connection.scalars(paths).all())
