"""A filter → the keys of the chunks that it lets through.

Documents settle most filters by themselves; only where a condition on pages or content types is
left are the document's chunks looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select

from ragstone.filters import CHUNK_FIELDS, Filter, all_of, decide, is_in
from ragstone.stores.schema import chunks, documents
from ragstone.types import Query


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
