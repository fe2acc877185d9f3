"""Create, list and delete collections, and list their documents without reading their texts."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, or_, select

from ragstone.catalog import journal, lookup, rows, sessions
from ragstone.catalog.jobs import delete_collection_jobs
from ragstone.catalog.originals import mark_unused
from ragstone.catalog.schema import (
    chunks,
    collections,
    document_counts,
    documents,
    files,
    generations,
    page_lines,
    queries,
    sources,
    uploads,
)
from ragstone.catalog.vectors import delete_chunks
from ragstone.errors import InputError, NotFoundError
from ragstone.filters import reduce_filter
from ragstone.outline import DocumentEntry
from ragstone.protocols import Catalog
from ragstone.types import Query

_MAX_NAMES_IN_HINT = 10
_MAX_CHUNKS_FOR_HEADINGS = 5000


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """Describe a collection; replaced versions are not counted."""

    name: str
    embedder: str
    created_at: float
    documents: int = 0
    failed: int = 0
    chunks: int = 0


class SqlCollections:
    """Read and write the collections of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def list_all(self) -> list[CollectionInfo]:
        """List all collections by name."""
        with self._catalog.read_transaction() as connection:
            counts = _count_documents(connection)
            found = connection.execute(select(collections).order_by(collections.c.name)).all()
            return [CollectionInfo(**row._asdict(), **counts.get(row.name, {})) for row in found]

    def get(self, name: str) -> CollectionInfo:
        with self._catalog.read_transaction() as connection:
            row = connection.execute(select(collections).where(collections.c.name == name)).first()
            if row is None:
                raise collection_not_found(name)
            counts = _count_documents(connection, name)
            return CollectionInfo(**row._asdict(), **counts.get(name, {}))

    def create(self, name: str, *, embedder: str) -> None:
        with self._catalog.write_transaction(f"collection:{name}") as connection:
            if _exists(connection, name):
                raise InputError(
                    f"The collection '{name}' exists already.", hint="Choose another name."
                )
            values = {"name": name, "embedder": embedder, "created_at": time.time()}
            connection.execute(collections.insert().values(**values))

    def delete(self, name: str) -> list[str]:
        """Delete a collection with its documents, uploads, sessions and queries; return the ids of
        the documents."""
        with self._catalog.write_transaction(f"collection:{name}") as connection:
            if not _exists(connection, name):
                raise collection_not_found(name)
            hashes = select(files.c.sha256).where(files.c.collection == name)
            deleted = _delete_documents(connection, name)
            unused = {*(row.sha256 for row in deleted), *connection.scalars(hashes)}
            with self._catalog.write_transaction():  # as all who mark files
                for sha256 in unused:
                    mark_unused(connection, sha256)
                delete_collection_jobs(connection, name)
            for table in (files, sources, queries, generations):
                connection.execute(table.delete().where(table.c.collection == name))
            sessions.delete_collection_sessions(connection, name)
            connection.execute(collections.delete().where(collections.c.name == name))
        # On its own: while the documents are deleted, no question shall wait for the journal.
        with self._catalog.write_transaction(journal.LOCK) as connection:
            journal.delete_orphans(connection)
        return [row.id for row in deleted]

    def headings(self, name: str) -> list[tuple[str, ...]]:
        """List distinct heading paths of a collection, from its first chunks."""
        query = (
            select(chunks.c.heading_path)
            .join(documents, documents.c.id == chunks.c.document_id)
            .where(documents.c.collection == name)
            .order_by(chunks.c.key)
            .limit(_MAX_CHUNKS_FOR_HEADINGS)
        )
        with self._catalog.read_transaction() as connection:
            return list(dict.fromkeys(map(tuple, connection.scalars(query))))

    def find_headings(self, name: str, prefix: str, *, limit: int) -> list[str]:
        """Return headings of a collection that begin with a prefix, or have a word that does."""
        if "\0" in prefix:
            return []  # no stored text has it, and a database refuses it
        with self._catalog.read_transaction() as connection:
            return lookup.find_headings(connection, name, prefix, limit=limit)


def refuse_unknown_collection(
    catalog: Catalog, name: str, can_read: Callable[[str], bool] | None = None
) -> None:
    """Raise a NotFoundError if no collection has the name; the hint names a similar one.

    A catalog without any collection accepts every name: its collections are all empty. With
    `can_read` (over HTTP) the other collections do not exist, neither here nor in the hint.
    """
    if catalog.embedder_of(name) is not None:
        return
    known = [one for one in catalog.collections() if can_read is None or can_read(one)]
    if not known or name in known or _has_uploads(catalog, name):
        return
    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.6):
        raise NotFoundError(f"There is no collection '{name}'.", hint=f"Did you mean '{close[0]}'?")
    if can_read is not None:
        raise collection_not_found(name)
    more_count = len(known) - _MAX_NAMES_IN_HINT
    more = f" and {more_count:,} more" if more_count > 0 else ""
    names = ", ".join(known[:_MAX_NAMES_IN_HINT])
    raise NotFoundError(
        f"There is no collection '{name}'.",
        hint=f"There are: {names}{more}. Choose one with --collection.",
    )


def collection_not_found(name: str) -> NotFoundError:
    return NotFoundError(
        f"There is no collection '{name}'.", hint="List the collections: GET /v1/collections"
    )


def _has_uploads(catalog: Catalog, name: str) -> bool:
    """Tell whether documents were accepted for a collection: the first one read creates it."""
    with catalog.read_transaction() as connection:
        query = select(uploads.c.id).where(uploads.c.collection == name).limit(1)
        return connection.execute(query).first() is not None


def _exists(connection: Connection, name: str) -> bool:
    query = select(collections.c.name).where(collections.c.name == name)
    return connection.execute(query).first() is not None


def _count_documents(connection: Connection, name: str | None = None) -> dict[str, dict[str, Any]]:
    query = select(document_counts)
    if name is not None:
        query = query.where(document_counts.c.collection == name)
    return {
        row.collection: {"documents": row.documents, "failed": row.failed, "chunks": row.chunks}
        for row in connection.execute(query)
    }


def _delete_documents(connection: Connection, name: str) -> list[Any]:
    """Delete every document and its versions, log the changes, and return the rows."""
    found = rows.log_removals(connection, documents.c.collection == name)
    for row in found:
        delete_chunks(connection, row)
        connection.execute(page_lines.delete().where(page_lines.c.document_id == row.id))
    connection.execute(documents.delete().where(documents.c.collection == name))
    return found


# More documents are only found by the words of their names and titles.
MAX_LISTED = 5_000
# Fields of the metadata that say what a document is or is about.
_DESCRIBES = (
    "subject",
    "keywords",
    "category",
    "categories",
    "type",
    "kind",
    "content_type",
    "tags",
)
_MAX_LABEL_CHARS = 300


def list_entries(
    catalog: Catalog, query: Query, words: Sequence[str] = (), *, limit: int = MAX_LISTED
) -> tuple[list[DocumentEntry], int]:
    """List the documents that a query may use, by name, and count them all.

    Of a collection with more than `limit` documents those are listed whose name or title holds one
    of the words.
    """
    title = func.lower(func.coalesce(documents.c.metadata["title"].as_string(), ""))
    statement = select(*rows.filter_columns).where(
        documents.c.collection == query.collection,
        documents.c.retired_at.is_(None),
        documents.c.chunk_count > 0,
    )
    if query.document_ids:
        statement = statement.where(documents.c.id.in_(query.document_ids))
    if query.upload_id is not None:
        statement = statement.where(documents.c.upload_id == query.upload_id)
    with catalog.read_transaction() as connection:
        total = connection.scalar(select(func.count()).select_from(statement.subquery())) or 0
        if total > limit and words:
            name = func.lower(documents.c.name)
            held = [
                or_(name.contains(w, autoescape=True), title.contains(w, autoescape=True))
                for w in words
            ]
            statement = statement.where(or_(*held))
        found = connection.execute(statement.order_by(documents.c.name).limit(limit)).all()
    if query.filter is not None:
        # A condition on pages or kinds of chunks is decided later, chunk by chunk.
        found = [
            row
            for row in found
            if reduce_filter(query.filter, rows.to_filter_fields(row)) is not False
        ]
        total = len(found)
    return [_to_entry(row) for row in found], int(total)


def _to_entry(row: Any) -> DocumentEntry:
    metadata: Mapping[str, Any] = row.metadata
    said = " ".join(str(metadata[name]) for name in _DESCRIBES if metadata.get(name))
    title = str(metadata.get("title") or "")
    return DocumentEntry(
        row.id,
        row.name,
        " ".join(title.split()),
        said[:_MAX_LABEL_CHARS],
        row.first_key,
        row.chunk_count,
    )
