"""Test that damage in SQLite's log is noticed, and that an unfinished transaction is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.errors import StoreError
from ragstone.testing.conformance import EMBEDDER, make_document


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a data directory as a kill leaves it, with five documents in the log alone."""
    (tmp_path / "data").mkdir()
    catalog = SqlCatalog.in_directory(tmp_path / "data")
    catalog.erase_deleted()  # what was written so far moves to the database
    for number in range(5):
        catalog.add([make_document(f"n{number}", ["wind", "rain"])], embedder=EMBEDDER)
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    catalog.close()
    assert (tmp_path / "killed" / "catalog.db-wal").stat().st_size
    return tmp_path / "killed"


def flip(path: Path, byte: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 4
    path.write_bytes(content)


def list_names(directory: Path) -> list[str]:
    catalog = SqlCatalog.in_directory(directory)
    try:
        return [document.name for document in catalog.documents("c")]
    finally:
        catalog.close()


def test_a_log_that_is_intact_is_read(killed: Path) -> None:
    assert list_names(killed) == [f"n{number}" for number in range(5)]
    assert list_names(killed) == [f"n{number}" for number in range(5)]


@pytest.mark.parametrize("byte", [3, 17, 25, 32 + 9, 5_000], ids=str)
def test_damage_that_loses_transactions_is_refused_until_somebody_decides(
    killed: Path, byte: int
) -> None:
    flip(killed / "catalog.db-wal", byte)
    for _ in range(2):  # SQLite has deleted its log at the second time
        with pytest.raises(StoreError, match="its last changes are lost") as raised:
            list_names(killed)
    assert "catalog.db-wal.damaged" in raised.value.hint
    (killed / "catalog.db-wal.damaged").unlink()
    assert list_names(killed) == []


def test_a_transaction_that_was_cut_off_is_left_out(
    killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = killed / "catalog.db-wal"
    path.write_bytes(path.read_bytes()[:-1])
    assert list_names(killed) == [f"n{number}" for number in range(4)]
    assert "damaged" not in caplog.text


def test_a_damaged_last_transaction_is_said(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    flip(killed / "catalog.db-wal", -1)
    assert list_names(killed) == [f"n{number}" for number in range(4)]
    assert "the last transaction in the log of the catalog is incomplete" in caplog.text


def test_a_catalog_that_is_open_elsewhere_can_be_opened(tmp_path: Path) -> None:
    first = SqlCatalog.in_directory(tmp_path)
    for number in range(3):
        first.add([make_document(f"n{number}", ["wind"])], embedder=EMBEDDER)
        assert len(list_names(tmp_path)) == number + 1
        if number == 1:
            first.erase_deleted()
    first.close()
