"""Convert between the types of `ragstone.types` and the catalog's rows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from functools import lru_cache
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, bindparam, func, select
from sqlalchemy.dialects import sqlite

from ragstone.blocks import LineBox
from ragstone.catalog import lookup
from ragstone.catalog.schema import (
    changes,
    chunk_vectors,
    chunks,
    counters,
    documents,
    page_lines,
    sources,
)
from ragstone.filters import CHUNK_FIELDS, Filter, combine_filters, match_any, reduce_filter
from ragstone.protocols import Change, NewDocument, Vectors
from ragstone.types import Chunk, Document, Query, StoredUnit

columns_without_text = [column for column in documents.c if column.name != "text"]
_FILTER_FIELDS = ("id", "name", "media_type", "upload_id", "created_at", "metadata")
filter_columns = [documents.c[n] for n in (*_FILTER_FIELDS, "first_key", "chunk_count")]

any_source = (
    select(func.min(sources.c.source))
    .where(sources.c.document_id == documents.c.id)
    .scalar_subquery()
    .label("source")
)

_UNREAD_OF_CHUNK = {"embedding", "checksum", "vector_checksum"}
select_chunks = select(
    *[column for column in chunks.c if column.name not in _UNREAD_OF_CHUNK],
    documents.c.name.label("document_name"),
).join(documents, documents.c.id == chunks.c.document_id)
# Built once: a question reads thirty chunks, and building the statement took longer than that.
select_chunks_by_key = select_chunks.where(chunks.c.key.in_(bindparam("keys", expanding=True)))
_PLAIN_QUERY = str(select_chunks.compile(dialect=sqlite.dialect()))
_PLAIN_COLUMNS = [column.name for column in select_chunks.selected_columns]
PASSAGE_QUERY = "SELECT substr(text, ?, ?) FROM documents WHERE id = ?"
select_passage = select(
    func.substr(documents.c.text, bindparam("first"), bindparam("length"))
).where(documents.c.id == bindparam("document_id"))


@lru_cache(maxsize=512)
def write_chunk_query(count: int) -> str:
    """Write the statement that reads so many chunks by key, for the driver of SQLite."""
    return f"{_PLAIN_QUERY} WHERE chunks.key IN ({','.join('?' * count)})"


def name_columns(row: Sequence[Any]) -> Any:
    """Return a row of that statement with the columns by name, as SQLAlchemy returns it."""
    named = dict(zip(_PLAIN_COLUMNS, row, strict=True))
    named["heading_path"] = json.loads(named["heading_path"])
    return SimpleNamespace(**named)


def to_document(row: Any) -> Document:
    return Document(
        id=row.id,
        collection=row.collection,
        source=row.source or "",
        name=row.name,
        media_type=row.media_type,
        sha256=row.sha256,
        status=row.status,
        text=getattr(row, "text", ""),
        chunk_count=row.chunk_count,
        metadata=row.metadata,
        upload_id=row.upload_id,
        error=row.error,
        created_at=row.created_at,
    )


def to_chunk(row: Any) -> Chunk:
    return Chunk(
        document_id=row.document_id,
        index=row.position,
        text=row.text,
        start=row.start,
        end=row.end,
        document_name=row.document_name,
        page=row.page,
        heading_path=tuple(row.heading_path),
        content_type=row.content_type,
        key=row.key,
        passage=None if row.passage_start is None else (row.passage_start, row.passage_end),
        table_header=row.table_header or "",
        context=row.context or "",
        units=tuple(StoredUnit(*unit) for unit in json.loads(row.units or "[]")),
    )


def to_vector(blob: bytes) -> Vectors:
    return np.frombuffer(blob, dtype="<f2").astype(np.float32)


# The rows of a long document take several times the memory of its text.
_ROWS_PER_INSERT = 1000


def insert_document(
    connection: Connection, new: NewDocument, *, has_second_vectors: bool = False
) -> None:
    """Insert a document and its chunks under new consecutive keys, and log the change.

    With `has_second_vectors` its vectors go to the table of the second generation.
    """
    document, count = new.document, len(new.chunks)
    first_key = _reserve_keys(connection, count)
    row = {
        "id": document.id,
        "collection": document.collection,
        "name": document.name,
        "media_type": document.media_type,
        "sha256": document.sha256,
        "status": document.status,
        "text": document.text,
        "metadata": dict(document.metadata),
        "upload_id": document.upload_id,
        "error": document.error,
        "created_at": document.created_at,
        "first_key": first_key,
        "chunk_count": count,
    }
    connection.execute(documents.insert().values(**row, checksum=sum_document(row)))
    if new.lines:
        values = {"document_id": document.id, "lines": pack_lines(new.lines)}
        connection.execute(page_lines.insert().values(**values))
    paths = (chunk.heading_path for chunk in new.chunks)
    lookup.insert_lookups(connection, SimpleNamespace(**row), paths)
    if count:
        stored = _to_chunk_rows(new, first_key)
        while batch := list(islice(stored, _ROWS_PER_INSERT)):
            if has_second_vectors:
                connection.execute(chunk_vectors.insert(), [_move_vector(row) for row in batch])
            connection.execute(chunks.insert(), batch)
        log_change(connection, document.collection, Change(0, "add", document.id, first_key, count))


def _to_chunk_rows(new: NewDocument, first_key: int) -> Iterator[dict[str, Any]]:
    for offset, (chunk, vector) in enumerate(zip(new.chunks, new.vectors, strict=True)):
        embedding = vector.astype("<f2").tobytes()
        row = {
            "key": first_key + offset,
            "document_id": chunk.document_id,
            "position": chunk.index,
            "start": chunk.start,
            "end": chunk.end,
            "text": chunk.text,
            "page": chunk.page,
            "heading_path": list(chunk.heading_path),
            "content_type": chunk.content_type,
            "passage_start": chunk.passage and chunk.passage[0],
            "passage_end": chunk.passage and chunk.passage[1],
            "table_header": chunk.table_header or None,
            "context": chunk.context or None,
            "units": json.dumps(chunk.units, separators=(",", ":")) if chunk.units else None,
            "embedding": embedding,
        }
        yield {**row, "checksum": sum_chunk(row), "vector_checksum": zlib.crc32(row["embedding"])}


def _move_vector(row: dict[str, Any]) -> dict[str, Any]:
    """Take the vector out of a chunk's row, and return it as a row of its own."""
    own = {"key": row["key"], "embedding": row["embedding"], "checksum": row["vector_checksum"]}
    row |= {"embedding": b"", "vector_checksum": zlib.crc32(b"")}
    return own


def pack_lines(lines: Iterable[LineBox]) -> bytes:
    return zlib.compress(json.dumps([astuple(line) for line in lines]).encode())


def unpack_lines(packed: bytes) -> list[LineBox]:
    return [LineBox(*line) for line in json.loads(zlib.decompress(packed))]


# Rounding to half precision makes some unit vectors a little longer.
_MAX_LENGTH = 1.01
_SUMMED_OF_DOCUMENT = [c.name for c in documents.c if c.name not in {"retired_at", "checksum"}]
_SUMMED_OF_CHUNK = [c.name for c in chunks.c if c.name not in {*_UNREAD_OF_CHUNK, "units"}]


def sum_document(row: Mapping[str, Any]) -> int:
    """Return the checksum of a document's row: of everything but the time of its replacement."""
    return _sum_values(row[name] for name in _SUMMED_OF_DOCUMENT)


def sum_chunk(row: Mapping[str, Any]) -> int:
    """Return the checksum of a chunk's row without its vector."""
    return _sum_values(row[name] for name in _SUMMED_OF_CHUNK)


def is_sound_vector(blob: bytes, checksum: int | None) -> bool:
    """Return whether a stored vector matches its checksum and has at most the length 1."""
    if len(blob) % 2 or checksum not in (None, zlib.crc32(blob)):
        return False
    return float(np.linalg.norm(to_vector(blob))) < _MAX_LENGTH  # False for NaN


def _sum_values(values: Iterable[Any]) -> int:
    content = json.dumps(list(values), sort_keys=True, separators=(",", ":"))
    return zlib.crc32(content.encode())


def _reserve_keys(connection: Connection, count: int) -> int:
    """Reserve `count` keys and return the first.

    On PostgreSQL in a transaction of its own: the row's lock would make the writers of all
    collections wait for each other. A transaction that fails leaves a gap, which is harmless.
    """
    reserve = (
        counters.update()
        .where(counters.c.name == "chunk_key")
        .values(value=counters.c.value + count)
        .returning(counters.c.value)
    )
    if connection.dialect.name == "sqlite":
        return int(connection.execute(reserve).scalar_one()) - count + 1
    with connection.engine.begin() as own:
        return int(own.execute(reserve).scalar_one()) - count + 1


def find_document_id(connection: Connection, collection: str, source: str) -> str | None:
    """Return the id of a source's current document."""
    return connection.scalar(
        select(sources.c.document_id).where(
            sources.c.collection == collection, sources.c.source == source
        )
    )


def set_source(connection: Connection, collection: str, source: str, document_id: str) -> None:
    """Set the current document of a source."""
    here = (sources.c.collection == collection, sources.c.source == source)
    connection.execute(sources.delete().where(*here))
    connection.execute(
        sources.insert().values(collection=collection, source=source, document_id=document_id)
    )


def is_current(connection: Connection, document_id: str) -> bool:
    """Return whether a document exists, was read without error and is not replaced."""
    query = select(documents.c.id).where(
        documents.c.id == document_id,
        documents.c.status == "indexed",
        documents.c.retired_at.is_(None),
    )
    return connection.execute(query).first() is not None


def log_change(connection: Connection, collection: str, change: Change) -> None:
    """Append to a collection's changes; the database sets `seq`."""
    fields = {name: value for name, value in asdict(change).items() if name != "seq"}
    connection.execute(changes.insert().values(collection=collection, **fields))


def log_removals(connection: Connection, *conditions: ColumnElement[bool]) -> list[Any]:
    """Log the removal of the current documents among those that match; return all matches."""
    found = connection.execute(select(*columns_without_text).where(*conditions)).all()
    for row in found:
        if row.retired_at is None:
            lookup.delete_lookups(connection, row)
        if row.retired_at is None and row.chunk_count:
            change = Change(0, "remove", row.id, row.first_key, row.chunk_count)
            log_change(connection, row.collection, change)
    return list(found)


def build_filter(query: Query) -> Filter | None:
    """Join all limits of a query into one filter."""
    return combine_filters(
        match_any("upload_id", [query.upload_id]) if query.upload_id is not None else None,
        match_any("document_id", query.document_ids) if query.document_ids else None,
        query.filter,
    )


def find_allowed_keys(connection: Connection, collection: str, given: Filter) -> tuple[range, ...]:
    """Return ascending ranges of the chunk keys that pass a filter."""
    clause, is_exact = lookup.translate_filter(given, collection)
    # An expression hides the index of the collection from the planner, which would read it whole.
    is_selective = clause is not None and lookup.is_selective(given)
    place = documents.c.collection.concat("") if is_selective else documents.c.collection
    allowed = [
        place == collection,
        documents.c.retired_at.is_(None),
        documents.c.chunk_count > 0,
        *([] if clause is None else [clause]),
    ]
    by_key = documents.c.first_key
    ranges: list[range] = []
    if is_exact:
        found = select(by_key, documents.c.chunk_count).where(*allowed).order_by(by_key)
        pairs = connection.execute(found)
        return tuple(join_ranges(range(first, first + count) for first, count in pairs))
    for row in connection.execute(select(*filter_columns).where(*allowed).order_by(by_key)):
        result = reduce_filter(given, to_filter_fields(row))
        if result is True:
            ranges.append(range(row.first_key, row.first_key + row.chunk_count))
        elif result is not False:
            ranges.extend(_find_allowed_chunks(connection, row.id, result))
    return tuple(join_ranges(ranges))


def to_filter_fields(row: Any) -> Mapping[str, Any]:
    """Return the fields of a document for filters; its own fields hide equal metadata names."""
    return {
        **{name: value for name, value in row.metadata.items() if name not in CHUNK_FIELDS},
        "document_id": row.id,
        "document_name": row.name,
        "upload_id": row.upload_id,
        "media_type": row.media_type,
        "created_at": row.created_at,
    }


def _find_allowed_chunks(connection: Connection, document_id: str, rest: Filter) -> Iterable[range]:
    query = select(chunks.c.key, chunks.c.page, chunks.c.content_type).where(
        chunks.c.document_id == document_id
    )
    for row in connection.execute(query.order_by(chunks.c.key)):
        if reduce_filter(rest, {"page": row.page, "content_type": row.content_type}) is True:
            yield range(row.key, row.key + 1)


def join_ranges(ranges: Iterable[range]) -> list[range]:
    """Join neighbouring and overlapping ranges of an ascending list."""
    result: list[range] = []
    for one in ranges:
        if result and result[-1].stop >= one.start:
            result[-1] = range(result[-1].start, max(result[-1].stop, one.stop))
        else:
            result.append(one)
    return result
