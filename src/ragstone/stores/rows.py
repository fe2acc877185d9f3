"""Between the nouns and the catalog's rows: how each is written and read back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, func, select

from ragstone.stages import Change, NewDocument, Vectors
from ragstone.stores.schema import changes, chunks, counters, documents, sources
from ragstone.types import Chunk, Document

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
