"""Is everything as it should be? What is derived is repaired; what is not is only reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import text

from ragstone.errors import RagstoneError
from ragstone.stages import Catalog, Embedder, Index
from ragstone.stores.database import Database

State: TypeAlias = Literal["ok", "repaired", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    state: State
    detail: str


def examine(
    catalog: Catalog, database: Database, index: Index, embedder: Embedder, *, repair: bool
) -> Iterator[Finding]:
    """Look at the catalog, the model, and the index of every collection."""
    yield _database(database)
    yield _embedder(embedder)
    for collection in catalog.collections():
        held = catalog.embedder_of(collection)
        if held != embedder.name:
            yield Finding(
                f"collection {collection}", "wrong",
                f"embedded with '{held}', but '{embedder.name}' is in use",
            )  # fmt: skip
            continue
        yield _collection(catalog, index, collection, repair=repair)


def _database(database: Database) -> Finding:
    if not database.is_sqlite:
        with database.reading() as connection:
            connection.execute(text("SELECT 1"))
        return Finding("catalog", "ok", f"PostgreSQL answers at {database.where}")
    with database.reading() as connection:
        verdict = str(connection.execute(text("PRAGMA quick_check(1)")).scalar())
    if verdict == "ok":
        return Finding("catalog", "ok", f"{database.where} is sound")
    return Finding("catalog", "wrong", f"{database.where}: {verdict}; restore a backup")


def _embedder(embedder: Embedder) -> Finding:
    try:
        vectors = embedder.embed(["Is anybody there?"])
    except RagstoneError as error:
        return Finding("embedder", "wrong", str(error))
    if vectors.shape == (1, embedder.dimension):
        return Finding("embedder", "ok", f"{embedder.name}, {embedder.dimension} dimensions")
    return Finding("embedder", "wrong", f"{embedder.name} gave {vectors.shape[1]} dimensions")


def _collection(catalog: Catalog, index: Index, collection: str, *, repair: bool) -> Finding:
    subject = f"collection {collection}"
    index.refresh(collection)
    kept = catalog.counts(collection)
    found = index.counts(collection)
    what = f"{kept.documents:,} documents, {kept.chunks:,} chunks"
    if (found.dense, found.keyword) == (kept.chunks, kept.chunks):
        return Finding(subject, "ok", what)
    lacking = f"the index has {found.dense:,} vectors and {found.keyword:,} texts"
    if not repair:
        return Finding(subject, "wrong", f"{what}, but {lacking}")
    index.rebuild(collection)
    return Finding(subject, "repaired", f"{what}; {lacking} and was built again")
