"""Run the conformance suite of catalogs against real databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select, text

from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.schema import documents
from ragstone.protocols import Catalog
from ragstone.testing.catalogs import CatalogConformance
from ragstone.testing.conformance import EMBEDDER, make_document


class TestSqlite(CatalogConformance):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        catalog = SqlCatalog.in_directory(tmp_path)
        yield catalog
        catalog.close()


class TestPostgres(CatalogConformance):
    @pytest.fixture
    def catalog(self, postgres_url: str) -> Iterator[Catalog]:
        catalog = SqlCatalog(Database.at_url(empty_database(postgres_url)))
        yield catalog
        catalog.close()

    def test_a_snapshot_does_not_see_what_is_committed_meanwhile(self, catalog: SqlCatalog) -> None:
        count = select(func.count()).select_from(documents)
        with catalog.database.read_transaction(is_snapshot=True) as connection:
            assert connection.scalar(count) == 0
            catalog.add([make_document("n1", ["wind"])], embedder=EMBEDDER)
            assert connection.scalar(count) == 0
        with catalog.database.read_transaction(is_snapshot=True) as connection:
            assert connection.scalar(count) == 1


def empty_database(url: str) -> str:
    """Empty the server's database and return its URL."""
    engine = create_engine(url.replace("postgresql://", "postgresql+pg8000://"))
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return url
