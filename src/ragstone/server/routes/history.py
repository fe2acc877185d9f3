"""Read and delete the history of queries, and what is computed from it: `/v1/queries`,
`/v1/analytics`, `/v1/suggestions`; share one answer by a link: `/v1/queries/{id}/share`,
`/v1/shared/{token}`.

A link shows the question, the answer and what it quotes, and nothing else. It needs a key where the
server does, but not one for the collection: who shares it answers for that. It ends when the owner
of the answer can no longer read the collection.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from ragstone.catalog.keys import KeyRing, SqlShares, share_not_found
from ragstone.engine import Engine
from ragstone.filters import HistoryFilter
from ragstone.server.auth import Caller
from ragstone.server.deps import CallerDep, EngineDep, base_url_of, find_query, wait_for_history
from ragstone.server.openapi import NOT_FOUND, PAGED, TOTAL_HEADER
from ragstone.server.schemas import CitationReply, ClaimReply
from ragstone.threads import run_in_thread

router = APIRouter(prefix="/v1", tags=["history"], dependencies=[Depends(wait_for_history)])

_DAY_S = 86_400


def limit_to_caller(engine: Engine, caller: Caller, collection: str | None = None) -> HistoryFilter:
    """Build a filter for the queries that a caller can see: an admin all of them, others their own
    about collections that they can read."""
    owner = None if caller.is_admin else caller.owner
    if collection is not None:
        caller.require_read(collection)
        return HistoryFilter(owner=owner, collections=(collection,))
    if caller.is_admin:
        return HistoryFilter()
    names = engine.history.queried_collections(owner)
    return HistoryFilter(owner=owner, collections=[n for n in names if caller.can_read(n)])


@router.get("/queries", responses=PAGED)
async def list_queries(
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    upload_id: Annotated[str | None, Query(description="Only those about this upload.")] = None,
    session_id: Annotated[str | None, Query(description="Only those of this session.")] = None,
    collection: Annotated[
        str | None, Query(description="Only those about this collection.")
    ] = None,
) -> list[dict[str, Any]]:
    """List past queries, newest first, without their traces."""
    base = await run_in_thread("store", limit_to_caller, engine, caller, collection)
    wanted = HistoryFilter(base.owner, base.collections, upload_id, session_id)
    history = engine.history
    response.headers[TOTAL_HEADER] = str(
        await run_in_thread("store", history.count_queries, wanted)
    )
    return await run_in_thread("store", history.queries, skip=skip, limit=limit, wanted=wanted)


@router.get("/queries/{query_id}", responses=NOT_FOUND)
async def get_query(query_id: str, engine: EngineDep, caller: CallerDep) -> dict[str, Any]:
    """Return one query in full, with its trace."""
    return await run_in_thread("store", find_query, engine, caller, query_id)


@router.delete("/queries/{query_id}", responses=NOT_FOUND, status_code=204)
async def delete_query(query_id: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete one query."""
    await run_in_thread("store", find_query, engine, caller, query_id)
    await run_in_thread("store", engine.history.delete_query, query_id)


@router.delete("/queries")
async def delete_queries(
    engine: EngineDep,
    caller: CallerDep,
    session_id: Annotated[str | None, Query(description="Only those of this session.")] = None,
    owner: Annotated[str | None, Query(description="Another owner; admins only.")] = None,
) -> dict[str, int]:
    """Delete the queries of the caller; an admin can name another owner."""
    wanted = HistoryFilter(owner=caller.choose_owner(owner), session_id=session_id)
    return {"deleted": await run_in_thread("store", engine.history.delete_queries, wanted)}


class Volume(BaseModel):
    total: int
    small_talk: int
    answered: int
    unanswered: int
    ungrounded: int


class Day(BaseModel):
    day: str
    queries: int
    unanswered: int


class Spread(BaseModel):
    count: int
    mean: float
    p50: float
    p95: float
    p99: float


class Latency(BaseModel):
    total: Spread
    stages: dict[str, Spread]


class AskedQuestion(BaseModel):
    query_id: str
    query: str | None
    collection: str
    created_at: float
    count: int = 1


class SlowQuestion(AskedQuestion):
    total_ms: float


class UsedDocument(BaseModel):
    document_id: str
    name: str
    answers: int


class Tokens(BaseModel):
    input: int
    output: int


class FeedbackFigures(BaseModel):
    count: int
    up: int
    down: int
    comments: int
    mean_rating: float | None = Field(description="Of those with a rating from 1 to 5.")


class AnalyticsReply(BaseModel):
    since: float | None
    complete: bool
    queries: Volume
    per_day: list[Day]
    latency_ms: Latency
    unanswered: list[AskedQuestion]
    ungrounded: list[AskedQuestion]
    slow: list[SlowQuestion]
    documents: list[UsedDocument]
    degraded: dict[str, int]
    tokens: Tokens
    cost_usd: float | None
    feedback: FeedbackFigures


class SuggestionReply(BaseModel):
    text: str
    kind: str
    collection: str


class SuggestionsReply(BaseModel):
    suggestions: list[SuggestionReply]


@router.get("/analytics")
async def get_analytics(
    engine: EngineDep,
    caller: CallerDep,
    collection: Annotated[
        str | None, Query(description="Only queries about this collection.")
    ] = None,
    days: Annotated[float, Query(gt=0, le=36_500, description="How far back.")] = 30,
) -> AnalyticsReply:
    """Count queries and measure them: latency per stage, unanswered, ungrounded and slow questions,
    cited documents, tokens, cost, ratings. An admin sees everybody's queries, others their own."""
    wanted = await run_in_thread("store", limit_to_caller, engine, caller, collection)
    wanted = dataclasses.replace(wanted, since=time.time() - days * _DAY_S)
    figures: dict[str, Any] = await run_in_thread("store", engine.history.analytics, wanted)
    return AnalyticsReply(**figures)


@router.get("/suggestions")
async def suggest_questions(
    engine: EngineDep,
    caller: CallerDep,
    prefix: Annotated[str, Query(max_length=1000, description="The text typed so far.")] = "",
    collection: Annotated[str | None, Query(description="Only from this collection.")] = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 8,
) -> SuggestionsReply:
    """Suggest the caller's own answered questions and headings of documents, from collections that
    the caller can read."""
    visible = await run_in_thread("store", limit_to_caller, engine, caller, collection)
    wanted = dataclasses.replace(visible, owner=caller.owner)
    names = engine.catalog.collections() if collection is None else [collection]
    found = await run_in_thread(
        "store",
        engine.history.suggestions,
        prefix,
        wanted=wanted,
        collections=names,
        limit=limit,
        may_offer=caller.can_read,
    )
    return SuggestionsReply(suggestions=[SuggestionReply(**dataclasses.asdict(s)) for s in found])


class ShareReply(BaseModel):
    token: str
    url: str


class SharedAnswer(BaseModel):
    query_id: str
    owner: str | None
    created_at: float
    query: str | None
    answer: str | None
    status: str
    citations: list[CitationReply]
    claims: list[ClaimReply] = []
    short_answer: str = ""
    highlights: list[tuple[int, int]] = []
    detected_intent: str = "question"
    confidence: float
    degraded: list[str] = []


@router.put("/queries/{query_id}/share", responses=NOT_FOUND)
async def share_query(
    query_id: str, request: Request, engine: EngineDep, caller: CallerDep
) -> ShareReply:
    """Create a link that shows this answer and its sources, read-only; the same one every time."""
    await run_in_thread("store", find_query, engine, caller, query_id)
    token = await run_in_thread("store", SqlShares(engine.catalog).create, query_id)
    return ShareReply(token=token, url=f"{base_url_of(request)}/#/shared/{token}")


@router.delete("/queries/{query_id}/share", responses=NOT_FOUND, status_code=204)
async def unshare_query(query_id: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete the link of an answer."""
    await run_in_thread("store", find_query, engine, caller, query_id)
    await run_in_thread("store", SqlShares(engine.catalog).delete, query_id)


@router.get("/shared/{token}", responses=NOT_FOUND)
async def get_shared_answer(token: str, request: Request, engine: EngineDep) -> SharedAnswer:
    """Return the answer that a link shows, with its citations."""
    keys: KeyRing = request.app.state.keys
    return SharedAnswer(**await run_in_thread("store", _find_shared, engine, keys, token))


def _find_shared(engine: Engine, keys: KeyRing, token: str) -> dict[str, Any]:
    entry = SqlShares(engine.catalog).find_query(token)
    if not _can_owner_read(keys, entry["owner"], entry["collection"]):
        raise share_not_found()
    return {name: entry[name] for name in SharedAnswer.model_fields if name in entry}


def _can_owner_read(keys: KeyRing, owner: str | None, collection: str) -> bool:
    """Return whether a key of the owner still reads the collection."""
    if not keys.has_keys():
        return True
    return any(
        Caller(key.owner, key.role, key.collections).can_read(collection)
        for key in keys.list()
        if key.owner == owner and key.state == "active"
    )
