"""`/v1/queries`: what was asked, newest first; one in full; and how it is forgotten."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from ragstone.server.auth import Caller, CallerDep
from ragstone.server.routes.query import engine_of, readable_query
from ragstone.server.schemas import PAGED, TOTAL, Problem
from ragstone.types import HistoryFilter

router = APIRouter(prefix="/v1", tags=["history"])

_NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "Nothing has that id."}
}


def visible(request: Request, caller: Caller, collection: str | None = None) -> HistoryFilter:
    """The queries that a caller may see: an admin all of them, others their own, and of these
    only what is about collections that they may read."""
    owner = None if caller.is_admin else caller.owner
    if collection is not None:
        caller.require_read(collection)
        return HistoryFilter(owner=owner, collections=(collection,))
    if caller.is_admin:
        return HistoryFilter()
    names = engine_of(request).history.collections_asked(owner)
    return HistoryFilter(owner=owner, collections=[n for n in names if caller.may_read(n)])


@router.get("/queries", responses=PAGED)
async def queries(
    request: Request,
    response: Response,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    upload_id: Annotated[str | None, Query(description="Only those limited to it.")] = None,
    session_id: Annotated[str | None, Query(description="Only those of this session.")] = None,
    collection: Annotated[str | None, Query(description="Only those about it.")] = None,
) -> list[dict[str, Any]]:
    """Past queries, newest first, each without its trace."""
    base = await asyncio.to_thread(visible, request, caller, collection)
    wanted = HistoryFilter(base.owner, base.collections, upload_id, session_id)
    history = engine_of(request).history
    response.headers[TOTAL] = str(await asyncio.to_thread(history.query_count, wanted))
    return await asyncio.to_thread(history.queries, skip=skip, limit=limit, wanted=wanted)


@router.get("/queries/{query_id}", responses=_NOT_FOUND)
async def one_query(query_id: str, request: Request, caller: CallerDep) -> dict[str, Any]:
    """One query in full, with its trace."""
    return readable_query(engine_of(request), caller, query_id)


@router.delete("/queries/{query_id}", responses=_NOT_FOUND, status_code=204)
async def forget_query(query_id: str, request: Request, caller: CallerDep) -> None:
    """Forget one query."""
    engine = engine_of(request)
    readable_query(engine, caller, query_id)
    await asyncio.to_thread(engine.history.delete_query, query_id)


@router.delete("/queries")
async def forget_queries(
    request: Request,
    caller: CallerDep,
    session_id: Annotated[str | None, Query(description="Only those of this session.")] = None,
    owner: Annotated[str | None, Query(description="Whose; others' only for an admin.")] = None,
) -> dict[str, int]:
    """Forget the caller's own queries; an admin may name somebody else."""
    if owner is not None and not caller.may_see(owner):
        caller.require_admin()
    wanted = HistoryFilter(owner=owner or caller.owner, session_id=session_id)
    gone = await asyncio.to_thread(engine_of(request).history.delete_queries, wanted)
    return {"deleted": gone}
