"""Test the deep check: what was changed on the disk is found, and the named command repairs it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.integrity import check_content
from ragstone.catalog.originals import FolderStore, Originals
from ragstone.catalog.schema import files
from ragstone.testing.conformance import EMBEDDER, make_document

from ..cli.run import call


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog.in_directory(tmp_path)
    catalog.add([make_document("a", ["wind", "rain"])], embedder=EMBEDDER)
    catalog.add([make_document("b", ["snow"])], embedder=EMBEDDER)
    yield catalog
    catalog.close()


def find(catalog: SqlCatalog, tmp_path: Path, *, keeps_originals: bool = True) -> dict[str, str]:
    found = check_content(catalog.database, Originals(tmp_path), keeps_originals=keeps_originals)
    return {one.subject: one.detail for one in found if one.state == "wrong"}


def change(catalog: SqlCatalog, sql: str) -> None:
    with catalog.write_transaction() as connection:
        assert connection.exec_driver_sql(sql).rowcount


def test_sound_content_has_no_findings(catalog: SqlCatalog, tmp_path: Path) -> None:
    assert find(catalog, tmp_path) == {}


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE documents SET text = replace(text, 'w', 'v')", "its text or its fields"),
        ("UPDATE documents SET metadata = '{\"x\": 1}'", "its text or its fields"),
        ("UPDATE documents SET metadata = '{'", "it cannot be read"),
        ("UPDATE documents SET chunk_count = 9", "it has 2 of 9 chunks"),
        ("UPDATE chunks SET text = 'wild' WHERE text = 'wind'", "damaged chunks: 1"),
        ("UPDATE chunks SET start = start + 1", "damaged chunks: 2"),
        ("UPDATE chunks SET text = CAST(x'ff80' AS TEXT)", "it cannot be read"),
        ("UPDATE chunks SET document_id = 'x' WHERE text = 'wind'", "it has 1 of 2 chunks"),
        ("DELETE FROM chunks", "it has 0 of 2 chunks"),
        ("INSERT INTO page_lines VALUES ('c-a-1', x'00')", "it cannot be read"),
    ],
)
def test_a_changed_row_is_found(catalog: SqlCatalog, tmp_path: Path, sql: str, said: str) -> None:
    change(catalog, sql)
    found = find(catalog, tmp_path)
    assert any(said in detail and "; run: ragstone " in detail for detail in found.values()), found


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE changes SET first_key = first_key + 1", "the change log"),
        ("UPDATE changes SET kind = 'adt'", "the change log"),
        ("UPDATE document_counts SET chunks = 7", "the numbers of chunks"),
        ("UPDATE counters SET value = 0 WHERE name = 'chunk_key'", "the counter of keys"),
    ],
)
def test_a_changed_record_is_found(
    catalog: SqlCatalog, tmp_path: Path, sql: str, said: str
) -> None:
    change(catalog, sql)
    assert f"damaged: {said};" in find(catalog, tmp_path)["records"]


def test_changes_and_deletions_are_no_damage(catalog: SqlCatalog, tmp_path: Path) -> None:
    catalog.add([make_document("x", ["rain"]), make_document("d", ["snow"])], embedder=EMBEDDER)
    catalog.add([make_document("x", ["fog", "hail"], version=2)], embedder=EMBEDDER)
    catalog.delete("c-d-1")
    assert find(catalog, tmp_path) == {}


def test_a_changed_vector_is_found(catalog: SqlCatalog, tmp_path: Path) -> None:
    change(catalog, "UPDATE chunks SET embedding = zeroblob(length(embedding)) WHERE key = 2")
    assert find(catalog, tmp_path) == {
        "vectors of c": "1 damaged; run: ragstone reindex --embed --collection c"
    }


def test_rows_without_checksums_are_sound(catalog: SqlCatalog, tmp_path: Path) -> None:
    change(catalog, "UPDATE documents SET checksum = NULL")
    change(catalog, "UPDATE chunks SET checksum = NULL, vector_checksum = NULL")
    assert find(catalog, tmp_path) == {}


def test_a_missing_and_a_changed_original_are_found(catalog: SqlCatalog, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"as it came").hexdigest()
    row = {"collection": "c", "path": "upload:letter.txt", "size": 10, "mtime_ns": 0}
    row |= {"sha256": sha256, "fingerprint": "", "status": "indexed", "chunk_count": 1}
    with catalog.write_transaction() as connection:
        connection.execute(files.insert().values(**row))
    assert "is the disk mounted?" in find(catalog, tmp_path)["originals"]
    other = FolderStore(tmp_path / "originals").path(hashlib.sha256(b"unused").hexdigest())
    other.parent.mkdir(parents=True)
    other.write_bytes(b"unused")
    assert "is missing; upload 'letter.txt' again" in find(catalog, tmp_path)["original"]
    assert find(catalog, tmp_path, keeps_originals=False) == {}
    path = FolderStore(tmp_path / "originals").path(sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"as it came")
    assert find(catalog, tmp_path) == {}
    path.write_bytes(b"as it went")
    assert "is damaged; upload 'letter.txt' again" in find(catalog, tmp_path)["original"]


def test_the_named_commands_repair_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate of the observatory is painted green.")
    assert call("ingest", "gate.txt", "-d", "data", cwd=tmp_path).returncode == 0
    assert call("doctor", "--deep", "-d", "data", cwd=tmp_path).returncode == 0
    with closing(sqlite3.connect(tmp_path / "data" / "catalog.db")) as connection, connection:
        connection.execute("UPDATE chunks SET embedding = zeroblob(768)")
    done = call("doctor", "--deep", "--json", "-d", "data", cwd=tmp_path)
    assert done.returncode == 1
    wrong = [one for one in json.loads(done.stdout) if one["state"] == "wrong"]
    assert [one["subject"] for one in wrong] == ["vectors of default"]
    command = wrong[0]["detail"].partition("run: ragstone ")[2].split()
    done = call(*command, "-d", "data", cwd=tmp_path)
    assert "damaged vectors embedded again: 1" in done.stdout
    assert call("doctor", "--deep", "-d", "data", cwd=tmp_path).returncode == 0

    with closing(sqlite3.connect(tmp_path / "data" / "catalog.db")) as connection, connection:
        connection.execute("UPDATE chunks SET text = replace(text, 'green', 'black')")
    done = call("doctor", "--deep", "--json", "-d", "data", cwd=tmp_path)
    wrong = [one for one in json.loads(done.stdout) if one["state"] == "wrong"]
    command = wrong[0]["detail"].partition("run: ragstone ")[2].split()
    assert call(*command, "-d", "data", cwd=tmp_path).returncode == 0
    assert call("doctor", "--deep", "-d", "data", cwd=tmp_path).returncode == 0
