"""Test the schema versions of the catalog's database."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.catalog import database
from ragstone.catalog.documents import SqlCatalog
from ragstone.errors import StoreError


def test_head_is_the_newest_migration() -> None:
    versions = Path(database.__file__).parent / "migrations" / "versions"
    numbers = [path.name.partition("_")[0] for path in versions.glob("[0-9]*.py")]
    assert max(numbers) == database.HEAD


def test_a_catalog_from_the_future_is_refused(tmp_path: Path) -> None:
    catalog = SqlCatalog.in_directory(tmp_path)
    with catalog.database.write_transaction() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    catalog.close()
    with pytest.raises(StoreError, match="newer version"):
        SqlCatalog.in_directory(tmp_path)
