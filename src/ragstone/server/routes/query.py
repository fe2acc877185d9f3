"""`POST /v1/query` and the history behind it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from ragstone.engine import Engine
from ragstone.server.schemas import Problem, QueryReply, QueryRequest

router = APIRouter(prefix="/v1", tags=["query"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": Problem, "description": "The request cannot be used."},
}


def engine_of(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


@router.post("/query", responses=_PROBLEMS)
async def query(body: QueryRequest, request: Request) -> QueryReply:
    """Answer a question from the documents of a collection, with citations."""
    answer = await engine_of(request).ask(
        body.query,
        collection=body.collection,
        upload_id=body.upload_id,
        method=body.method,
        filters=body.filters,
        top_k=body.top_k,
        mmr_lambda=body.mmr_lambda,
        temperature=body.temperature,
        request_id=request.state.request_id,
    )
    return QueryReply.of(answer)


@router.get("/queries")
async def queries(
    request: Request,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> list[dict[str, Any]]:
    """Past queries, newest first."""
    return engine_of(request).catalog.queries(skip=skip, limit=limit)


@router.get("/queries/{query_id}", responses={404: {"model": Problem}})
async def one_query(query_id: str, request: Request) -> dict[str, Any]:
    """One query in full, with its trace."""
    return engine_of(request).catalog.query(query_id)
