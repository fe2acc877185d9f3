"""List the documents of a collection as the catalog knows them, without reading their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, or_, select

from ragstone.catalog import rows
from ragstone.catalog.schema import documents
from ragstone.filters import reduce_filter
from ragstone.outline import DocumentEntry
from ragstone.protocols import Catalog
from ragstone.types import Query

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
_COLUMNS = ("id", "name", "media_type", "upload_id", "created_at", "metadata")


def list_entries(
    catalog: Catalog, query: Query, words: Sequence[str] = (), *, limit: int = MAX_LISTED
) -> tuple[list[DocumentEntry], int]:
    """List the documents that a query may use, by name, and count them all.

    Of a collection with more than `limit` documents those are listed whose name or title holds one
    of the words.
    """
    title = func.lower(func.coalesce(documents.c.metadata["title"].as_string(), ""))
    statement = select(
        *[documents.c[name] for name in (*_COLUMNS, "first_key", "chunk_count")]
    ).where(
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
