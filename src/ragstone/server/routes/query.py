"""`POST /v1/query` and the history behind it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from ragstone.engine import Engine
from ragstone.server.auth import Caller, CallerDep
from ragstone.server.schemas import Problem, QueryReply, QueryRequest
from ragstone.stores.journal import no_query

router = APIRouter(prefix="/v1", tags=["query"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": Problem, "description": "The request cannot be used."},
}


def engine_of(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def readable_query(engine: Engine, caller: Caller, query_id: str) -> dict[str, Any]:
    """An entry of the history; that one exists which they may not read is not told."""
    entry = engine.catalog.query(query_id)
    if not caller.may_read(entry["collection"]):
        raise no_query(query_id)
    return entry


@router.post("/query", responses=_PROBLEMS)
async def query(body: QueryRequest, request: Request, caller: CallerDep) -> QueryReply:
    """Answer a question from the documents of a collection, with citations."""
    caller.require_read(body.collection)
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
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> list[dict[str, Any]]:
    """Past queries, newest first."""
    entries = engine_of(request).catalog.queries(skip=skip, limit=limit)
    return [entry for entry in entries if caller.may_read(entry["collection"])]


@router.get("/queries/{query_id}", responses={404: {"model": Problem}})
async def one_query(query_id: str, request: Request, caller: CallerDep) -> dict[str, Any]:
    """One query in full, with its trace."""
    return readable_query(engine_of(request), caller, query_id)
