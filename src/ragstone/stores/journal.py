"""The journal: one line for every query, with as much of it as QUERY_LOG allows."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlalchemy import Connection, select

from ragstone.errors import NotFoundError
from ragstone.stores.schema import queries as table
from ragstone.types import Answer, Citation, Source


def record(connection: Connection, answer: Answer, *, query_log: str) -> None:
    """Write an answer down; with `metadata` without any text of question, answer or document."""
    if query_log == "off":
        return
    full = query_log == "full"
    connection.execute(
        table.insert().values(
            id=answer.query_id,
            collection=answer.collection,
            created_at=answer.trace["started_at"],
            status=answer.status,
            question=answer.question if full else None,
            answer=answer.text if full else None,
            record={
                "citations": [_citation(citation, full=full) for citation in answer.citations],
                "used_chunks": [used_chunk(source) for source in answer.sources],
                "confidence": answer.confidence,
                "is_grounded": answer.is_grounded,
                "groundedness_score": answer.groundedness_score,
                "degraded": list(answer.degraded),
                "provider": answer.provider,
                "model": answer.model,
                "trace": answer.trace,
            },
        )
    )


def forget(connection: Connection, *, before: float) -> None:
    connection.execute(table.delete().where(table.c.created_at < before))


def queries(connection: Connection, *, skip: int, limit: int) -> list[dict[str, Any]]:
    """Newest first."""
    newest = table.c.created_at.desc(), table.c.id
    rows = connection.execute(select(table).order_by(*newest).offset(skip).limit(limit))
    return [_entry(row) for row in rows]


def query(connection: Connection, query_id: str) -> dict[str, Any]:
    row = connection.execute(select(table).where(table.c.id == query_id)).first()
    if row is None:
        raise no_query(query_id)
    return _entry(row)


def no_query(query_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no query with the id '{query_id}'.",
        hint="List the queries with: ragstone history",
    )


def used_chunk(source: Source) -> dict[str, Any]:
    return {
        "chunk_id": source.hit.chunk.id,
        "relevance_score": source.hit.score,
        "retrieval_method": source.hit.method,
    }


def _citation(citation: Citation, *, full: bool) -> dict[str, Any]:
    fields = dataclasses.asdict(citation)
    if not full:
        del fields["snippet"]
    return fields


def _entry(row: Any) -> dict[str, Any]:
    return {
        "query_id": row.id,
        "collection": row.collection,
        "created_at": row.created_at,
        "status": row.status,
        "query": row.question,
        "answer": row.answer,
        **row.record,
    }
