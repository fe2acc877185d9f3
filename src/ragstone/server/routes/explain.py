"""`GET /v1/queries/{id}/explain`: what each stage said of any chunk, returned or not."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from fastapi import APIRouter, Request

from ragstone.server.auth import CallerDep
from ragstone.server.routes.query import engine_of, readable_query
from ragstone.server.schemas import Problem

router = APIRouter(prefix="/v1", tags=["query"])


@router.get("/queries/{query_id}/explain", responses={404: {"model": Problem}})
async def explain(
    query_id: str, request: Request, caller: CallerDep, chunk_id: str | None = None
) -> dict[str, Any]:
    """The waterfall of a past query; with `chunk_id` the way of that one chunk."""
    engine = engine_of(request)
    entry = await asyncio.to_thread(readable_query, engine, caller, query_id)
    if chunk_id is None:
        return {"query_id": query_id, **entry["trace"]["waterfall"]}
    found = await asyncio.to_thread(engine.explain_past, query_id, chunk_id)
    return {
        "query_id": query_id,
        "chunk_id": found.chunk.id,
        "document_name": found.chunk.document_name,
        "verdict": found.verdict,
        "steps": [dataclasses.asdict(step) for step in found.steps],
    }
