"""Between the nouns and the catalog's rows: how each is written and read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, func, select

from ragstone.catalog.schema import changes, chunks, counters, documents, sources
from ragstone.filters import CHUNK_FIELDS, Filter, all_of, decide, is_in
from ragstone.protocols import Change, NewDocument, Vectors
from ragstone.types import Chunk, Document, Query

without_text = [column for column in documents.c if column.name != "text"]

any_source = (
    select(func.min(sources.c.source))
    .where(sources.c.document_id == documents.c.id)
    .scalar_subquery()
    .label("source")
)

select_chunks = select(
    *[column for column in chunks.c if column.name != "embedding"],
    documents.c.name.label("document_name"),
).join(documents, documents.c.id == chunks.c.document_id)
# Put together once: a question reads thirty chunks, and building this anew took longer than they.
chunks_by_key = select_chunks.where(chunks.c.key.in_(bindparam("keys", expanding=True)))


def document(row: Any) -> Document:
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


def chunk(row: Any) -> Chunk:
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
    )


def vector(blob: bytes) -> Vectors:
    return np.frombuffer(blob, dtype="<f2").astype(np.float32)


def insert_document(connection: Connection, new: NewDocument) -> None:
    """Write a document with its chunks under fresh consecutive keys, and log it."""
    given, count = new.document, len(new.chunks)
    first_key = _take_keys(connection, count)
    connection.execute(
        documents.insert().values(
            id=given.id,
            collection=given.collection,
            name=given.name,
            media_type=given.media_type,
            sha256=given.sha256,
            status=given.status,
            text=given.text,
            metadata=dict(given.metadata),
            upload_id=given.upload_id,
            error=given.error,
            created_at=given.created_at,
            first_key=first_key,
            chunk_count=count,
        )
    )
    if count:
        connection.execute(chunks.insert(), list(_chunk_rows(new, first_key)))
        log(connection, given.collection, Change(0, "add", given.id, first_key, count))


def _chunk_rows(new: NewDocument, first_key: int) -> Iterator[dict[str, Any]]:
    embeddings = new.vectors.astype("<f2")
    for offset, (given, embedding) in enumerate(zip(new.chunks, embeddings, strict=True)):
        yield {
            "key": first_key + offset,
            "document_id": given.document_id,
            "position": given.index,
            "start": given.start,
            "end": given.end,
            "text": given.text,
            "page": given.page,
            "heading_path": list(given.heading_path),
            "content_type": given.content_type,
            "passage_start": given.passage and given.passage[0],
            "passage_end": given.passage and given.passage[1],
            "embedding": embedding.tobytes(),
        }


def _take_keys(connection: Connection, count: int) -> int:
    """Reserve `count` keys and return the first; the row's lock orders concurrent writers."""
    taken = connection.execute(
        counters.update()
        .where(counters.c.name == "chunk_key")
        .values(value=counters.c.value + count)
        .returning(counters.c.value)
    ).scalar_one()
    return int(taken) - count + 1


def held_by(connection: Connection, collection: str, source: str) -> str | None:
    """The document that a source holds."""
    return connection.scalar(
        select(sources.c.document_id).where(
            sources.c.collection == collection, sources.c.source == source
        )
    )


def point(connection: Connection, collection: str, source: str, document_id: str) -> None:
    """Let a source hold a document."""
    here = (sources.c.collection == collection, sources.c.source == source)
    connection.execute(sources.delete().where(*here))
    connection.execute(
        sources.insert().values(collection=collection, source=source, document_id=document_id)
    )


def log(connection: Connection, collection: str, change: Change) -> None:
    """Add a step to a collection's history; its `seq` is given by the database."""
    fields = {name: value for name, value in asdict(change).items() if name != "seq"}
    connection.execute(changes.insert().values(collection=collection, **fields))


def filter_of(query: Query) -> Filter | None:
    """All limits of a query as one filter."""
    return all_of(
        is_in("upload_id", [query.upload_id]) if query.upload_id is not None else None,
        is_in("document_id", query.document_ids) if query.document_ids else None,
        query.filter,
    )


def allowed_keys(connection: Connection, collection: str, given: Filter) -> tuple[range, ...]:
    """Ascending spans of keys, neighbours joined."""
    living = select(
        documents.c.id, documents.c.name, documents.c.media_type, documents.c.upload_id,
        documents.c.created_at, documents.c.metadata, documents.c.first_key,
        documents.c.chunk_count,
    ).where(
        documents.c.collection == collection,
        documents.c.retired_at.is_(None),
        documents.c.chunk_count > 0,
    )  # fmt: skip
    spans: list[range] = []
    for row in connection.execute(living.order_by(documents.c.first_key)):
        result = decide(given, document_fields(row))
        if result is True:
            spans.append(range(row.first_key, row.first_key + row.chunk_count))
        elif result is not False:
            spans.extend(_allowed_chunks(connection, row.id, result))
    return tuple(joined(spans))


def document_fields(row: Any) -> Mapping[str, Any]:
    """What a filter can ask of a document; its own fields hide metadata of the same name."""
    return {
        **{name: value for name, value in row.metadata.items() if name not in CHUNK_FIELDS},
        "document_id": row.id,
        "document_name": row.name,
        "upload_id": row.upload_id,
        "media_type": row.media_type,
        "created_at": row.created_at,
    }


def _allowed_chunks(connection: Connection, document_id: str, rest: Filter) -> Iterable[range]:
    query = select(chunks.c.key, chunks.c.page, chunks.c.content_type).where(
        chunks.c.document_id == document_id
    )
    for row in connection.execute(query.order_by(chunks.c.key)):
        if decide(rest, {"page": row.page, "content_type": row.content_type}) is True:
            yield range(row.key, row.key + 1)


def joined(spans: Iterable[range]) -> list[range]:
    """Ascending spans with those that touch made one."""
    found: list[range] = []
    for span in spans:
        if found and found[-1].stop == span.start:
            found[-1] = range(found[-1].start, span.stop)
        else:
            found.append(span)
    return found
