"""Test the schema versions of the catalog's database."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from ragstone.catalog import database
from ragstone.catalog.documents import SqlCatalog
from ragstone.errors import StoreError
from ragstone.testing.conformance import make_document


def test_head_is_the_newest_migration() -> None:
    versions = Path(database.__file__).parent / "migrations" / "versions"
    numbers = [path.name.partition("_")[0] for path in versions.glob("[0-9]*.py")]
    assert max(numbers) == database.HEAD


def test_a_catalog_from_the_future_is_refused(tmp_path: Path) -> None:
    catalog = SqlCatalog.in_directory(tmp_path)
    with catalog.database.write_transaction() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
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
