"""The catalog in SQL: documents, chunks with their vectors, changes and journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, func, select

from ragstone.catalog import journal, rows
from ragstone.catalog import rows as scope
from ragstone.catalog.database import Database
from ragstone.catalog.schema import changes, chunks, collections, counters, documents, sources
from ragstone.errors import NotFoundError, StoreError
from ragstone.protocols import Catalog, CatalogCounts, Change, NewDocument, Vectors, Within
from ragstone.types import ANY_QUERY, LOCAL_OWNER, Answer, Chunk, Document, HistoryFilter, Query

_MOST_BOUND = 500
_MOST_LOOKED_UP = 1000
# Changes when documents come or go, or a collection does; numbers of changes are never used again.
_STATE = (
    "SELECT (SELECT max(seq) FROM changes), (SELECT count(*) FROM collections), "
    "(SELECT max(created_at) FROM collections)"
)


class SqlCatalog:
    """A catalog in a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._looked_up: tuple[object, dict[tuple[str, str], Any]] = (None, {})

    @classmethod
    def in_directory(cls, directory: Path) -> SqlCatalog:
        """The SQLite catalog of a data directory."""
        return cls(Database.in_directory(directory))

    @property
    def waits(self) -> bool:
        """Every look at a server is a journey."""
        return not self.database.is_sqlite

    def add(self, batch: Sequence[NewDocument], *, embedder: str) -> None:
        with self.database.writing() as connection:
            for new in batch:
                document = new.document
                _claim_collection(connection, document.collection, embedder)
                _release(connection, document.collection, document.source, unless=document.id)
                _purge(connection, document.id)
                rows.insert_document(connection, new)
                rows.point(connection, document.collection, document.source, document.id)

    def add_failure(self, document: Document) -> None:
        """Remember that a file could not be read. What its source held before stays in place."""
        with self.database.writing() as connection:
            if _is_living(connection, document.id):
                return  # the same bytes were read well before; that this time failed is only said
            _purge(connection, document.id)
            rows.insert_document(
                connection, NewDocument(document, (), np.empty((0, 0), np.float32))
            )
            if rows.held_by(connection, document.collection, document.source) is None:
                rows.point(connection, document.collection, document.source, document.id)

    def attach(self, collection: str, source: str, document_id: str) -> bool:
        with self.database.writing() as connection:
            if not _is_living(connection, document_id):
                return False
            _release(connection, collection, source, unless=document_id)
            rows.point(connection, collection, source, document_id)
        return True

    def release(self, collection: str, source: str) -> None:
        with self.database.writing() as connection:
            _release(connection, collection, source, unless="")

    def transaction(self) -> AbstractContextManager[Connection]:
        """One transaction, for the tables that stand beside the documents."""
        return self.database.writing()

    def reading(self) -> AbstractContextManager[Connection]:
        """The same for those who only look; it waits for nobody."""
        return self.database.reading()

    def scrub(self) -> None:
        """Let nothing that was deleted stand in the files any longer."""
        self.database.scrub()

    def delete(self, document_id: str) -> None:
        with self.database.writing() as connection:
            if not _purge(connection, document_id):
                raise no_document(document_id)
            connection.execute(sources.delete().where(sources.c.document_id == document_id))

    def document(self, document_id: str) -> Document:
        query = select(documents, rows.any_source).where(documents.c.id == document_id)
        with self.database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise no_document(document_id)
        return rows.document(row)

    def documents(
        self, collection: str, *, skip: int = 0, limit: int | None = None
    ) -> list[Document]:
        query = (
            select(*rows.without_text, rows.any_source)
            .where(*_living_in(collection))
            .order_by(documents.c.name, documents.c.id)
        )
        if limit is not None:
            query = query.offset(skip).limit(limit)
        with self.database.reading() as connection:
            return [rows.document(row) for row in connection.execute(query)]

    def document_count(self, collection: str) -> int:
        with self.database.reading() as connection:
            return connection.scalar(select(func.count()).where(*_living_in(collection))) or 0

    def current(self, collection: str, source: str) -> Document | None:
        query = (
            select(*rows.without_text, sources.c.source)
            .join(sources, sources.c.document_id == documents.c.id)
            .where(sources.c.collection == collection, sources.c.source == source)
        )
        with self.database.reading() as connection:
            row = connection.execute(query).first()
        return None if row is None else rows.document(row)

    def identity(self) -> int:
        query = select(counters.c.value).where(counters.c.name == "identity")
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def collections(self) -> list[str]:
        with self.database.reading() as connection:
            return list(connection.scalars(select(collections.c.name).order_by("name")))

    def embedder_of(self, collection: str) -> str | None:
        found: str | None = self._look_up("embedder", collection, _embedder_of)
        return found

    def chunks(self, keys: Iterable[int]) -> dict[int, Chunk]:
        wanted = list(dict.fromkeys(keys))
        found: dict[int, Chunk] = {}
        with self.database.reading() as connection:
            for begin in range(0, len(wanted), _MOST_BOUND):
                part = wanted[begin : begin + _MOST_BOUND]
                for row in connection.execute(rows.chunks_by_key, {"keys": part}):
                    found[row.key] = rows.chunk(row)
        return {key: found[key] for key in wanted if key in found}

    def passage(self, document_id: str, start: int, end: int) -> str:
        span = func.substr(documents.c.text, start + 1, end - start)
        with self.database.reading() as connection:
            return connection.scalar(select(span).where(documents.c.id == document_id)) or ""

    def keys_within(self, query: Query) -> Within | None:
        given = scope.filter_of(query)
        if given is None:
            return None
        with self.database.reading() as connection:
            return Within(given, scope.allowed_keys(connection, query.collection, given))

    def document_fields(self, document_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        wanted = list(document_ids)
        found: dict[str, Mapping[str, Any]] = {}
        with self.database.reading() as connection:
            for begin in range(0, len(wanted), _MOST_BOUND):
                part = documents.c.id.in_(wanted[begin : begin + _MOST_BOUND])
                for row in connection.execute(select(*rows.without_text).where(part)):
                    found[row.id] = scope.document_fields(row)
        return found

    def counts(self, collection: str) -> CatalogCounts:
        figures = select(func.count(), func.coalesce(func.sum(documents.c.chunk_count), 0)).where(
            *_living_in(collection), documents.c.status == "indexed"
        )
        last = select(func.coalesce(func.max(changes.c.seq), 0)).where(
            changes.c.collection == collection
        )
        with self.database.reading() as connection:
            count, chunk_count = connection.execute(figures).one()
            return CatalogCounts(count, chunk_count, connection.execute(last).scalar_one())

    def last_change(self, collection: str) -> int:
        return int(self._look_up("last change", collection, _last_change))

    def _look_up(self, what: str, collection: str, read: Callable[[Connection, str], Any]) -> Any:
        """What every question asks first: read once, and again after anybody's change."""
        state = self.database.glance(_STATE)
        held, known = self._looked_up
        if state is None or state != held or len(known) > _MOST_LOOKED_UP:
            # A new dictionary: a thread that is still reading fills the old one.
            known = {}
            self._looked_up = (state, known)
        if (what, collection) not in known:
            with self.database.reading() as connection:
                known[what, collection] = read(connection, collection)
        return known[what, collection]

    def changes(self, collection: str, *, after: int, limit: int) -> list[Change]:
        query = (
            select(changes)
            .where(changes.c.collection == collection, changes.c.seq > after)
            .order_by(changes.c.seq)
            .limit(limit)
        )
        with self.database.reading() as connection:
            return [
                Change(row.seq, row.kind, row.document_id, row.first_key, row.chunk_count)
                for row in connection.execute(query)
            ]

    def indexable(self, ranges: Sequence[range], *, dimension: int) -> tuple[list[Chunk], Vectors]:
        found: list[Chunk] = []
        vectors: list[Vectors] = []
        with self.database.reading() as connection:
            for keys in ranges:
                query = rows.select_chunks.add_columns(chunks.c.embedding).where(
                    chunks.c.key.between(keys.start, keys.stop - 1)
                )
                for row in connection.execute(query.order_by(chunks.c.key)):
                    found.append(rows.chunk(row))
                    vectors.append(rows.vector(row.embedding))
        if not found:
            return [], np.empty((0, dimension), np.float32)
        return found, np.stack(vectors)

    def record(
        self, answer: Answer, *, query_log: str, owner: str = LOCAL_OWNER,
        session_id: str | None = None, upload_id: str | None = None,
    ) -> None:  # fmt: skip
        if query_log == "off":
            return
        entry = journal.entry(
            answer, query_log=query_log, owner=owner, session_id=session_id, upload_id=upload_id
        )
        with self.database.writing() as connection:
            journal.write(connection, [entry])

    def forget_queries(
        self, *, older_than_days: int = 0, wanted: HistoryFilter | None = None
    ) -> int:
        if wanted is None and not older_than_days:
            return 0
        old = HistoryFilter(before=time.time() - 86_400 * older_than_days)
        with self.database.writing() as connection:
            return journal.forget(connection, old if wanted is None else wanted)

    def forget_query(self, query_id: str) -> None:
        with self.database.writing() as connection:
            journal.forget_one(connection, query_id)

    def queries(
        self, *, skip: int = 0, limit: int = 20, wanted: HistoryFilter = ANY_QUERY
    ) -> list[dict[str, Any]]:
        with self.database.reading() as connection:
            return journal.queries(connection, skip=skip, limit=limit, wanted=wanted)

    def query(self, query_id: str) -> dict[str, Any]:
        with self.database.reading() as connection:
            return journal.query(connection, query_id)

    def close(self) -> None:
        self.database.close()


def refuse_other_embedder(catalog: Catalog, collection: str, embedder: str) -> None:
    """Vectors of two embedders never mix, neither in a collection nor in a search of it."""
    held = catalog.embedder_of(collection)
    if held is not None and held != embedder:
        raise _other_embedder(collection, held, embedder)


def _other_embedder(collection: str, held: str, given: str) -> StoreError:
    return StoreError(
        f"The collection '{collection}' was embedded with '{held}', not with '{given}'.",
        hint=f"Use '{held}', or ingest the documents into a new collection.",
    )


def _embedder_of(connection: Connection, collection: str) -> str | None:
    return connection.scalar(select(collections.c.embedder).where(collections.c.name == collection))


def _last_change(connection: Connection, collection: str) -> int:
    last = select(func.coalesce(func.max(changes.c.seq), 0))
    return int(connection.execute(last.where(changes.c.collection == collection)).scalar_one())


def _claim_collection(connection: Connection, name: str, embedder: str) -> None:
    """A collection belongs to the embedder of its first document."""
    held = _embedder_of(connection, name)
    if held is None:
        values = {"name": name, "embedder": embedder, "created_at": time.time()}
        connection.execute(collections.insert().values(**values))
    elif held != embedder:
        raise _other_embedder(name, held, embedder)


def _release(connection: Connection, collection: str, source: str, *, unless: str) -> None:
    """Let go of what a source held; a document that no source holds leaves the search."""
    old = rows.held_by(connection, collection, source)
    if old is None or old == unless:
        return
    connection.execute(
        sources.delete().where(sources.c.collection == collection, sources.c.source == source)
    )
    if connection.execute(select(sources).where(sources.c.document_id == old)).first() is None:
        _log_removal(connection, old)
        connection.execute(chunks.delete().where(chunks.c.document_id == old))
        connection.execute(
            documents.update().where(documents.c.id == old).values(retired_at=time.time())
        )


def _living_in(collection: str) -> tuple[ColumnElement[bool], ...]:
    return documents.c.collection == collection, documents.c.retired_at.is_(None)


def _is_living(connection: Connection, document_id: str) -> bool:
    """Whether a document is there, read well and not replaced."""
    query = select(documents.c.id).where(
        documents.c.id == document_id,
        documents.c.status == "indexed",
        documents.c.retired_at.is_(None),
    )
    return connection.execute(query).first() is not None


def _purge(connection: Connection, document_id: str) -> bool:
    """Remove a document with its chunks; False when there was none."""
    if not _log_removal(connection, document_id):
        return False
    connection.execute(chunks.delete().where(chunks.c.document_id == document_id))
    connection.execute(documents.delete().where(documents.c.id == document_id))
    return True


def _log_removal(connection: Connection, document_id: str) -> bool:
    row = connection.execute(
        select(*rows.without_text).where(documents.c.id == document_id)
    ).first()
    if row is None:
        return False
    if row.retired_at is None and row.chunk_count:
        change = Change(0, "remove", document_id, row.first_key, row.chunk_count)
        rows.log(connection, row.collection, change)
    return True


def no_document(document_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no document with the id '{document_id}'.",
        hint="List the documents with: ragstone documents",
    )
