"""Test the schema versions of the catalog's database."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from ragstone.catalog import upgrade
from ragstone.catalog.collections import SqlCollections
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.schema import tables
from ragstone.catalog.upgrade import HEAD
from ragstone.catalog.uploads import SqlIntakeRecords
from ragstone.errors import StoreError
from ragstone.testing.conformance import make_document
from ragstone.types import LOCAL_OWNER

FOLDER = Path(__file__).parent


def describe_tables(path: Path) -> dict[str, tuple[set[Any], set[Any]]]:
    """Return the columns and the indexes of each table."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            name: (
                {column[1:] for column in connection.execute(f"PRAGMA table_info({name})")},
                {index[1:3] for index in connection.execute(f"PRAGMA index_list({name})")},
            )
            for (name,) in found.fetchall()
        }


def test_a_catalog_of_an_older_schema_gets_what_it_lacks(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with closing(sqlite3.connect(old / "catalog.db")) as connection:
        connection.executescript((FOLDER / "schema_0002.sql").read_text("utf-8"))
        connection.executescript(
            """
            INSERT INTO collections VALUES ('default', 'model', 1.0);
            INSERT INTO documents VALUES ('d', 'default', 'a.md', 'text/markdown', 'x', 'indexed',
                'Rent: 900', '{"year": 2024}', NULL, NULL, 1.0, NULL, 1, 1);
            INSERT INTO chunks
                VALUES (1, 'd', 0, 0, 9, 'Rent: 900', NULL, '["Costs"]', 'text', x'');
            INSERT INTO queries VALUES ('q', 'default', 1.0, 'answered', 'Rent?', '900',
                '{"trace": {}}');
            INSERT INTO uploads VALUES ('u', 'default', 'running', 1, 1.0, NULL);
            """
        )
    catalog, fresh = SqlCatalog.in_directory(old), SqlCatalog.in_directory(new)
    assert catalog.counts("default").chunks == 1
    assert SqlCollections(catalog).find_headings("default", "cos", limit=5) == ["Costs"]
    assert catalog.query("q")["owner"] == LOCAL_OWNER
    assert SqlIntakeRecords(catalog).upload("u")["status"] == "failed"
    assert catalog.identity() != fresh.identity()
    catalog.close()
    fresh.close()
    assert describe_tables(old / "catalog.db") == describe_tables(new / "catalog.db")


def fill_tables(connection: sqlite3.Connection) -> None:
    """Insert a row into every table that has none."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in found:
        if connection.execute(f"SELECT 1 FROM {table}").fetchone() is None:
            types = [one[2] for one in connection.execute(f"PRAGMA table_info({table})")]
            values = ["{}" if kind == "JSON" else 1 for kind in types]
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)
    connection.commit()


@pytest.mark.parametrize("schema", sorted(FOLDER.glob("schema_*.sql")), ids=lambda one: one.stem)
def test_an_older_catalog_gets_the_tables_of_a_new_one(tmp_path: Path, schema: Path) -> None:
    """A column that must not be empty and has no default cannot be added to a table with rows."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    with closing(sqlite3.connect(tmp_path / "old" / "catalog.db")) as connection:
        connection.executescript(schema.read_text("utf-8"))
        fill_tables(connection)
    for name in ("old", "new"):
        SqlCatalog.in_directory(tmp_path / name).close()
    old, new = (describe_tables(tmp_path / name / "catalog.db") for name in ("old", "new"))
    assert old == new


def test_an_upgrade_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FOLDER / "schema_0002.sql").read_text("utf-8"))
    before = describe_tables(path)

    def fail(_connection: Connection) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(upgrade, "_fill_lookups", fail)
        with pytest.raises(OSError, match="killed"):
            SqlCatalog.in_directory(tmp_path)
    assert describe_tables(path) == before
    catalog = SqlCatalog.in_directory(tmp_path)
    assert catalog.identity()
    catalog.close()


def test_a_change_of_the_tables_is_a_new_version() -> None:
    """Raise `upgrade.HEAD` with every change of `schema.py`, then change the digest here.

    `schema_0017.sql` has the tables of a released version: they must become the new ones.
    """
    columns = [
        (table.name, column.name, str(column.type), column.nullable, column.primary_key)
        for table in tables.sorted_tables
        for column in table.columns
    ]
    indexes = sorted(str(index.name) for table in tables.sorted_tables for index in table.indexes)
    digest = hashlib.sha256(repr((columns, indexes)).encode()).hexdigest()[:8]
    assert (HEAD, digest) == ("0017", "fc74fae6")


@pytest.mark.parametrize("version", ["9999", "000d3f9a1b2c"])  # the second is another program's
def test_a_catalog_of_an_unknown_version_is_refused(tmp_path: Path, version: str) -> None:
    catalog = SqlCatalog.in_directory(tmp_path)
    with catalog.database.write_transaction() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
    catalog.close()
    with pytest.raises(StoreError, match="newer Ragstone"):
        SqlCatalog.in_directory(tmp_path)


def test_an_empty_catalog_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    with pytest.raises(StoreError, match="is empty: its content is lost") as raised:
        SqlCatalog.in_directory(tmp_path)
    assert "Restore a backup" in raised.value.hint
    assert (tmp_path / "catalog.db").read_bytes() == b""


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is the database of another program"):
        SqlCatalog.in_directory(tmp_path)
    assert path.read_bytes() == before


def test_a_new_catalog_ignores_the_log_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "catalog.db-wal").write_bytes(b"what a killed process left")
    (tmp_path / ".catalog.db.new").write_bytes(b"what a killed start left")
    catalog = SqlCatalog.in_directory(tmp_path)
    assert catalog.collections() == []
    catalog.close()
    assert not (tmp_path / ".catalog.db.new").exists()


def test_no_file_of_no_length_is_ever_seen(tmp_path: Path) -> None:
    """Two processes may start in a new directory at once."""
    catalogs: list[SqlCatalog] = []
    start = threading.Barrier(4)

    def open_catalog() -> None:
        start.wait()
        catalogs.append(SqlCatalog.in_directory(tmp_path))

    threads = [threading.Thread(target=open_catalog) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({catalog.identity() for catalog in catalogs}) == 1
    assert len(catalogs) == 4
    for catalog in catalogs:
        catalog.close()


def test_a_transaction_sees_its_own_chunks_and_passages(tmp_path: Path) -> None:
    catalog = SqlCatalog.in_directory(tmp_path)
    new = make_document("a", ["The gate is green."])
    with catalog.database.write_transaction():
        catalog.add([new], embedder="test")
        inside = catalog.chunks(range(10)), catalog.read_passage(new.document.id, 4, 8)
    after = catalog.chunks(range(10)), catalog.read_passage(new.document.id, 4, 8)
    catalog.close()
    assert inside == after
    assert [chunk.text for chunk in after[0].values()] == ["The gate is green."]
    assert after[1] == "gate"
