"""Collections as things of their own: listed with their counts, made, and removed completely."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Text, case, cast, func, select

from ragstone.catalog import rows, sessions
from ragstone.catalog.journal import drop_unused
from ragstone.catalog.schema import (
    chunks,
    collections,
    documents,
    files,
    page_lines,
    queries,
    sources,
    upload_files,
    uploads,
)
from ragstone.catalog.uploads import Transactions
from ragstone.errors import InputError, NotFoundError
from ragstone.protocols import Catalog, Change

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """What a collection holds now; replaced versions are not counted."""

    name: str
    embedder: str
    created_at: float
    documents: int = 0
    failed: int = 0
    chunks: int = 0


class SqlCollections:
    """The collections of a catalog."""

    def __init__(self, catalog: Transactions) -> None:
        self._catalog = catalog

    def listed(self) -> list[CollectionInfo]:
        """All of them by name."""
        with self._catalog.reading() as connection:
            counts = _counts(connection)
            found = connection.execute(select(collections).order_by(collections.c.name)).all()
            return [CollectionInfo(**row._asdict(), **counts.get(row.name, {})) for row in found]

    def get(self, name: str) -> CollectionInfo:
        with self._catalog.reading() as connection:
            row = connection.execute(select(collections).where(collections.c.name == name)).first()
            if row is None:
                raise no_collection(name)
            return CollectionInfo(**row._asdict(), **_counts(connection, name).get(name, {}))

    def create(self, name: str, *, embedder: str) -> None:
        with self._catalog.transaction() as connection:
            held = select(collections.c.name).where(collections.c.name == name)
            if connection.execute(held).first() is not None:
                raise InputError(
                    f"There is a collection named '{name}' already.", hint="Choose another name."
                )
            values = {"name": name, "embedder": embedder, "created_at": time.time()}
            connection.execute(collections.insert().values(**values))

    def delete(self, name: str) -> list[str]:
        """Remove a collection with everything in it, the conversations and queries about it too;
        the hashes of the files that no other collection has."""
        with self._catalog.transaction() as connection:
            held = select(collections.c.name).where(collections.c.name == name)
            if connection.execute(held).first() is None:
                raise no_collection(name)
            hashes = _purge_documents(connection, name)
            ids = select(uploads.c.id).where(uploads.c.collection == name)
            connection.execute(upload_files.delete().where(upload_files.c.upload_id.in_(ids)))
            for table in (uploads, files, sources, queries):
                connection.execute(table.delete().where(table.c.collection == name))
            drop_unused(connection)
            sessions.delete_of_collection(connection, name)
            connection.execute(collections.delete().where(collections.c.name == name))
            others = set(
                connection.scalars(
                    select(documents.c.sha256).where(documents.c.sha256.in_(hashes)).distinct()
                )
            )
        return [sha256 for sha256 in hashes if sha256 not in others]

    def headings(self, name: str) -> list[tuple[str, ...]]:
        """Every heading path of a collection, once."""
        # As text, because PostgreSQL cannot compare JSON.
        path = cast(chunks.c.heading_path, Text).label("path")
        query = (
            select(func.min(chunks.c.key).label("key"))
            .join(documents, documents.c.id == chunks.c.document_id)
            .where(documents.c.collection == name)
            .group_by(path)
        )
        with self._catalog.reading() as connection:
            keys = list(connection.scalars(query))
            found: list[tuple[str, ...]] = []
            for begin in range(0, len(keys), 500):
                part = chunks.c.key.in_(keys[begin : begin + 500])
                found += [
                    tuple(path)
                    for path in connection.scalars(select(chunks.c.heading_path).where(part))
                ]
        return found


def refuse_unknown_collection(catalog: Catalog, name: str) -> None:
    """Refuse a name that no collection has, with the one that was probably meant.

    Where there is no collection at all there is nothing to mistake it for: that one is empty.
    """
    known = catalog.collections()
    if not known or name in known:
        return
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    more = f" and {len(known) - _MOST_NAMED:,} more" if len(known) > _MOST_NAMED else ""
    raise NotFoundError(
        f"There is no collection '{name}'.",
        hint=f"Did you mean '{close[0]}'?" if close
        else f"There are: {', '.join(known[:_MOST_NAMED])}{more}. Choose one with --collection.",
    )  # fmt: skip


def no_collection(name: str) -> NotFoundError:
    return NotFoundError(
        f"There is no collection named '{name}'.", hint="List them with: GET /v1/collections"
    )


def _counts(connection: Connection, name: str | None = None) -> dict[str, dict[str, Any]]:
    indexed = documents.c.status == "indexed"
    query = (
        select(
            documents.c.collection,
            func.sum(case((indexed, 1), else_=0)),
            func.sum(case((documents.c.status == "failed", 1), else_=0)),
            func.coalesce(func.sum(documents.c.chunk_count), 0),
        )
        .where(documents.c.retired_at.is_(None))
        .group_by(documents.c.collection)
    )
    if name is not None:
        query = query.where(documents.c.collection == name)
    return {
        row[0]: {"documents": int(row[1]), "failed": int(row[2]), "chunks": int(row[3])}
        for row in connection.execute(query)
    }


def _purge_documents(connection: Connection, name: str) -> list[str]:
    """Take every document out, replaced versions too, and let the index know."""
    held = connection.execute(select(*rows.without_text).where(documents.c.collection == name))
    hashes = set()
    for row in held.all():
        if row.retired_at is None and row.chunk_count:
            change = Change(0, "remove", row.id, row.first_key, row.chunk_count)
            rows.log(connection, name, change)
        connection.execute(chunks.delete().where(chunks.c.document_id == row.id))
        connection.execute(page_lines.delete().where(page_lines.c.document_id == row.id))
        hashes.add(row.sha256)
    connection.execute(documents.delete().where(documents.c.collection == name))
    return sorted(hashes - {""})
