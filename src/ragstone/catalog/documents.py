"""Store documents, chunks with their vectors, changes and the journal in a SQL database."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, func, literal, select, text, tuple_

from ragstone.catalog import journal, lookup, rows
from ragstone.catalog.database import Database
from ragstone.catalog.schema import (
    changes,
    chunks,
    collections,
    counters,
    documents,
    page_lines,
    sources,
    split_batches,
)
from ragstone.catalog.vectors import (
    OtherEmbedderError,
    Place,
    delete_chunks,
    read_place,
    read_vector,
    select_vectors,
)
from ragstone.errors import NotFoundError
from ragstone.filters import ANY_QUERY, HistoryFilter, SearchScope
from ragstone.protocols import Catalog, CatalogCounts, Change, NewDocument, Vectors
from ragstone.types import LOCAL_OWNER, Answer, Chunk, Document, Query

_MAX_CACHED = 1000
# The result changes when documents or collections are added or removed; `seq` is never reused.
_STATE_QUERY = (
    "SELECT (SELECT max(seq) FROM changes), (SELECT count(*) FROM collections), "
    "(SELECT max(created_at) FROM collections)"
)


# A dump that is restored has the old identity, but its tables are new. The log of an older state
# that goes on under the numbers of changes which an index has seen already must not be followed.
_POSTGRES_PLACE = (
    "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()), "
    "'changes'::regclass::oid FROM pg_control_system()"
)


class SqlCatalog:
    """Implement `Catalog` on SQLite or PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._cache: tuple[object, dict[tuple[str, str], Any]] = (None, {})

    @classmethod
    def in_directory(cls, directory: Path) -> SqlCatalog:
        """Open the SQLite catalog of a data directory."""
        return cls(Database.in_directory(directory))

    @property
    def waits(self) -> bool:
        """True for databases behind a network."""
        return not self.database.is_sqlite

    def add(self, batch: Sequence[NewDocument], *, embedder: str) -> None:
        # Usually one collection; its lock orders its changes and not those of others.
        names = ",".join(sorted({new.document.collection for new in batch}))
        with self.database.write_transaction(lock_of(names)) as connection:
            for new in batch:
                document = new.document
                place = _claim_collection(connection, document.collection, embedder)
                _remove_source(connection, document.collection, document.source, keep=document.id)
                _delete_document(connection, document.id)
                is_second = place == "vectors"
                rows.insert_document(connection, new, has_second_vectors=is_second)
                rows.set_source(connection, document.collection, document.source, document.id)

    def add_failure(self, document: Document) -> None:
        """Record a file that could not be read; its source keeps its current document."""
        with self.database.write_transaction(lock_of(document.collection)) as connection:
            if rows.is_current(connection, document.id):
                return  # the same bytes were read without error before
            _delete_document(connection, document.id)
            rows.insert_document(
                connection, NewDocument(document, (), np.empty((0, 0), np.float32))
            )
            if rows.find_document_id(connection, document.collection, document.source) is None:
                rows.set_source(connection, document.collection, document.source, document.id)

    def add_source(self, collection: str, source: str, document_id: str) -> bool:
        with self.database.write_transaction(lock_of(collection)) as connection:
            if not rows.is_current(connection, document_id):
                return False
            _remove_source(connection, collection, source, keep=document_id)
            rows.set_source(connection, collection, source, document_id)
        return True

    def remove_source(self, collection: str, source: str) -> None:
        with self.database.write_transaction(lock_of(collection)) as connection:
            _remove_source(connection, collection, source)

    def write_transaction(self, lock: str = "catalog") -> AbstractContextManager[Connection]:
        return self.database.write_transaction(lock)

    def read_transaction(self) -> AbstractContextManager[Connection]:
        return self.database.read_transaction()

    def erase_deleted(self) -> None:
        self.database.erase_deleted()

    def delete(self, document_id: str) -> None:
        with self.database.write_transaction(
            lock_of(self.document(document_id).collection)
        ) as connection:
            if not _delete_document(connection, document_id):
                raise document_not_found(document_id)
            connection.execute(sources.delete().where(sources.c.document_id == document_id))

    def document(self, document_id: str) -> Document:
        query = select(documents, rows.any_source).where(documents.c.id == document_id)
        with self.database.read_transaction() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise document_not_found(document_id)
        return rows.to_document(row)

    def documents(
        self, collection: str, *, skip: int = 0, limit: int | None = None, after: str = ""
    ) -> list[Document]:
        query = (
            select(*rows.columns_without_text, rows.any_source)
            .where(*_current_in(collection))
            .order_by(documents.c.name, documents.c.id)
        )
        if limit is not None:
            query = query.offset(skip).limit(limit)
        if after:
            before = self.document(after)
            place = tuple_(literal(before.name), literal(before.id))
            query = query.where(tuple_(documents.c.name, documents.c.id) > place)
        with self.database.read_transaction() as connection:
            return [rows.to_document(row) for row in connection.execute(query)]

    def document_count(self, collection: str) -> int:
        with self.database.read_transaction() as connection:
            indexed, failed, _ = lookup.read_counts(connection, collection)
        return indexed + failed

    def find_by_source(self, collection: str, source: str) -> Document | None:
        query = (
            select(*rows.columns_without_text, sources.c.source)
            .join(sources, sources.c.document_id == documents.c.id)
            .where(sources.c.collection == collection, sources.c.source == source)
        )
        with self.database.read_transaction() as connection:
            row = connection.execute(query).first()
        return None if row is None else rows.to_document(row)

    def identity(self) -> int:
        query = select(counters.c.value).where(counters.c.name == "identity")
        with self.database.read_transaction() as connection:
            stored = int(connection.execute(query).scalar_one())
            if self.database.is_sqlite:
                return stored  # `restore_backup` changes it
            place = connection.execute(text(_POSTGRES_PLACE)).one()
        digest = hashlib.sha256(repr((stored, *place)).encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 2

    def collections(self) -> list[str]:
        with self.database.read_transaction() as connection:
            return list(connection.scalars(select(collections.c.name).order_by("name")))

    def embedder_of(self, collection: str) -> str | None:
        embedder: str | None = self._read_cached("embedder", collection, _read_embedder)
        return embedder

    def chunks(self, keys: Iterable[int]) -> dict[int, Chunk]:
        wanted = list(dict.fromkeys(keys))
        found: dict[int, Chunk] = {}
        for part in split_batches(wanted):
            found |= self._read_chunks(part)
        return {key: found[key] for key in wanted if key in found}

    def _read_chunks(self, keys: Sequence[int]) -> dict[int, Chunk]:
        """Read few chunks, as fast as the database allows: every question does."""
        plain = self.database.read_fast(rows.write_chunk_query(len(keys)), keys)
        if plain is not None:
            read = map(rows.to_chunk, map(rows.name_columns, plain))
            return {chunk.key: chunk for chunk in read}
        with self.database.read_transaction() as connection:
            stored = connection.execute(rows.select_chunks_by_key, {"keys": keys})
            return {row.key: rows.to_chunk(row) for row in stored}

    def read_passage(self, document_id: str, start: int, end: int) -> str:
        values = {"first": start + 1, "length": end - start, "document_id": document_id}
        if plain := self.database.read_fast(rows.PASSAGE_QUERY, tuple(values.values())):
            return str(plain[0][0] or "")
        with self.database.read_transaction() as connection:
            return connection.scalar(rows.select_passage, values) or ""

    def resolve_scope(self, query: Query) -> SearchScope | None:
        given = rows.build_filter(query)
        if given is None:
            return None

        def find_ranges() -> tuple[range, ...]:
            with self.database.read_transaction() as connection:
                return rows.find_allowed_keys(connection, query.collection, given)

        return SearchScope(given, find_ranges)

    def document_fields(self, document_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        with self.database.read_transaction() as connection:
            for part in split_batches(list(document_ids)):
                query = select(*rows.columns_without_text).where(documents.c.id.in_(part))
                for row in connection.execute(query):
                    found[row.id] = rows.to_filter_fields(row)
        return found

    def counts(self, collection: str) -> CatalogCounts:
        with self.database.read_transaction() as connection:
            count, _, chunk_count = lookup.read_counts(connection, collection)
            return CatalogCounts(count, chunk_count, read_last_change(connection, collection))

    def is_empty(self, collection: str) -> bool:
        return not self._read_cached("has documents", collection, _has_indexed_documents)

    def last_change(self, collection: str) -> int:
        return int(self._read_cached("last change", collection, read_last_change))

    def _read_cached(
        self, name: str, collection: str, read: Callable[[Connection, str], Any]
    ) -> Any:
        """Return a value that every question needs; read it again after any process's change."""
        state = self.database.read_fast(_STATE_QUERY)
        cached_state, values = self._cache
        if state is None or state != cached_state or len(values) > _MAX_CACHED:
            # A new dictionary: a thread that is still reading fills the old one.
            values = {}
            self._cache = (state, values)
        if (name, collection) not in values:
            with self.database.read_transaction() as connection:
                values[name, collection] = read(connection, collection)
        return values[name, collection]

    def changes(self, collection: str, *, after: int, limit: int) -> list[Change]:
        query = (
            select(changes)
            .where(changes.c.collection == collection, changes.c.seq > after)
            .order_by(changes.c.seq)
            .limit(limit)
        )
        with self.database.read_transaction() as connection:
            return [
                Change(row.seq, row.kind, row.document_id, row.first_key, row.chunk_count)
                for row in connection.execute(query)
            ]

    def chunks_with_vectors(
        self, ranges: Sequence[range], *, dimension: int, embedder: str = ""
    ) -> tuple[list[Chunk], Vectors]:
        found: list[Chunk] = []
        vectors: list[Vectors] = []
        select_all = select_vectors(embedder).order_by(chunks.c.key)
        with self.database.read_transaction() as connection:
            for keys in ranges:
                query = select_all.where(chunks.c.key.between(keys.start, keys.stop - 1))
                for row in connection.execute(query):
                    found.append(rows.to_chunk(row))
                    vectors.append(read_vector(row))
        if not found:
            return [], np.empty((0, dimension), np.float32)
        return found, np.stack(vectors)

    def record(
        self,
        answer: Answer,
        *,
        query_log: str,
        owner: str = LOCAL_OWNER,
        session_id: str | None = None,
        upload_id: str | None = None,
    ) -> None:
        if query_log == "off":
            return
        entry = journal.build_entry(
            answer, query_log=query_log, owner=owner, session_id=session_id, upload_id=upload_id
        )
        with self.database.write_transaction(journal.LOCK) as connection:
            journal.write_entries(connection, [entry])

    def delete_queries(
        self, *, older_than_days: int = 0, wanted: HistoryFilter | None = None
    ) -> int:
        if wanted is None and not older_than_days:
            return 0
        old = HistoryFilter(before=time.time() - 86_400 * older_than_days)
        with self.database.write_transaction(journal.LOCK) as connection:
            return journal.delete_queries(connection, old if wanted is None else wanted)

    def delete_query(self, query_id: str) -> None:
        with self.database.write_transaction(journal.LOCK) as connection:
            journal.delete_query(connection, query_id)

    def queries(
        self, *, skip: int = 0, limit: int = 20, wanted: HistoryFilter = ANY_QUERY
    ) -> list[dict[str, Any]]:
        with self.database.read_transaction() as connection:
            return journal.list_queries(connection, skip=skip, limit=limit, wanted=wanted)

    def query(self, query_id: str) -> dict[str, Any]:
        with self.database.read_transaction() as connection:
            return journal.read_query(connection, query_id)

    def close(self) -> None:
        self.database.close()


def lock_of(collection: str) -> str:
    """Return the lock of the transactions that add to a collection's changes."""
    return f"collection:{collection}"


def refuse_other_embedder(catalog: Catalog, collection: str, embedder: str) -> None:
    """Raise a StoreError if a collection has vectors of another embedder: they never mix."""
    _check_embedder(collection, catalog.embedder_of(collection), embedder)


def _check_embedder(collection: str, stored: str | None, embedder: str) -> None:
    if stored is not None and stored != embedder:
        raise OtherEmbedderError(
            f"The collection '{collection}' was embedded with '{stored}', not with '{embedder}'.",
            hint="Set the embedder that made it (EMBEDDING_MODEL), or embed its chunks again with: "
            f"ragstone reindex --embed --collection {shlex.quote(collection)}",
        )


def _read_embedder(connection: Connection, collection: str) -> str | None:
    return connection.scalar(select(collections.c.embedder).where(collections.c.name == collection))


def read_last_change(connection: Connection, collection: str) -> int:
    last = select(func.coalesce(func.max(changes.c.seq), 0))
    return int(connection.execute(last.where(changes.c.collection == collection)).scalar_one())


def _claim_collection(connection: Connection, name: str, embedder: str) -> Place:
    """Create a collection for the embedder of its first document; return where vectors go."""
    stored = _read_embedder(connection, name)
    _check_embedder(name, stored, embedder)
    if stored is None:
        values = {"name": name, "embedder": embedder, "created_at": time.time()}
        connection.execute(collections.insert().values(**values))
    return read_place(connection, name, embedder)


def _remove_source(connection: Connection, collection: str, source: str, *, keep: str = "") -> None:
    """Remove a source, unless its document is `keep`; retire a document without any source."""
    old = rows.find_document_id(connection, collection, source)
    if old is None or old == keep:
        return
    connection.execute(
        sources.delete().where(sources.c.collection == collection, sources.c.source == source)
    )
    if connection.execute(select(sources).where(sources.c.document_id == old)).first() is None:
        for row in rows.log_removals(connection, documents.c.id == old):
            delete_chunks(connection, row)
        connection.execute(
            documents.update().where(documents.c.id == old).values(retired_at=time.time())
        )


def _current_in(collection: str) -> tuple[ColumnElement[bool], ...]:
    return documents.c.collection == collection, documents.c.retired_at.is_(None)


def _has_indexed_documents(connection: Connection, collection: str) -> bool:
    found = select(documents.c.id).where(
        *_current_in(collection), documents.c.status == "indexed", documents.c.chunk_count > 0
    )
    return connection.scalar(found.limit(1)) is not None


def _delete_document(connection: Connection, document_id: str) -> bool:
    """Delete a document and its chunks; return False if it does not exist."""
    found = rows.log_removals(connection, documents.c.id == document_id)
    if not found:
        return False
    for row in found:
        delete_chunks(connection, row)
    connection.execute(page_lines.delete().where(page_lines.c.document_id == document_id))
    connection.execute(documents.delete().where(documents.c.id == document_id))
    return True


def document_not_found(document_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no document with the id '{document_id}'.",
        hint="List the documents: ragstone documents",
    )
