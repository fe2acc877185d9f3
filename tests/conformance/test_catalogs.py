"""Run the conformance suite of catalogs against real databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, func, inspect, select, text

from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.schema import documents
from ragstone.catalog.uploads import SqlIntakeRecords
from ragstone.errors import StoreError
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


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("sessions (id INTEGER PRIMARY KEY, note TEXT)", r"another program \(sessions\)"),
        ("alembic_version AS SELECT '000d3f9a1b2c' AS version_num", "newer Ragstone"),
    ],
)
def test_tables_of_another_program_are_refused_and_left_alone(
    postgres_url: str, table: str, reason: str
) -> None:
    engine = create_engine(
        empty_database(postgres_url).replace("postgresql:", "postgresql+pg8000:")
    )
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {table}")
    before = describe_database(engine)
    with pytest.raises(StoreError, match=reason):
        Database.at_url(postgres_url)
    assert describe_database(engine) == before
    engine.dispose()


def test_an_older_catalog_on_postgres_is_upgraded_once_by_all_who_open_it(
    postgres_url: str,
) -> None:
    old = (Path(__file__).parents[1] / "catalog" / "schema_0002.sql").read_text("utf-8")
    old = old.replace("INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "BIGSERIAL PRIMARY KEY")
    old = old.replace("BLOB", "BYTEA")
    for name in ('"key"', "first_key", "value", "size", "mtime_ns"):
        old = old.replace(f"{name} INTEGER", f"{name} BIGINT")
    engine = create_engine(
        empty_database(postgres_url).replace("postgresql:", "postgresql+pg8000:")
    )
    with engine.begin() as connection:
        for statement in old.partition("\n")[2].split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        connection.exec_driver_sql("INSERT INTO uploads VALUES ('u', 'c', 'running', 1, 1.0)")
    with ThreadPoolExecutor(4) as pool:
        opened = [SqlCatalog(one) for one in pool.map(Database.at_url, [postgres_url] * 4)]
    assert len({catalog.identity() for catalog in opened}) == 1
    assert SqlIntakeRecords(opened[0]).upload("u")["status"] == "failed"
    for catalog in opened:
        catalog.close()
    upgraded = describe_database(engine)
    Database.at_url(empty_database(postgres_url)).close()
    assert upgraded == describe_database(engine)
    engine.dispose()


def describe_database(engine: Engine) -> dict[str, tuple[set[Any], set[Any]]]:
    """Return the columns and the indexes of each table."""
    known = inspect(engine)
    return {
        name: (
            {
                (one["name"], str(one["type"]), one["nullable"], one["default"])
                for one in known.get_columns(name)
            },
            {(one["name"], *one["column_names"]) for one in known.get_indexes(name)},
        )
        for name in known.get_table_names()
    }


def empty_database(url: str) -> str:
    """Empty the server's database and return its URL."""
    engine = create_engine(url.replace("postgresql://", "postgresql+pg8000://"))
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return url
