"""`/v1/queries`: what was asked, newest first; one in full; and how it is forgotten."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Annotated, Any, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from ragstone.catalog.sessions import no_session
from ragstone.server.auth import Caller, CallerDep
from ragstone.server.routes.query import engine_of, readable_query
from ragstone.server.schemas import PAGED, TOTAL, Problem
from ragstone.types import HistoryFilter, Session

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


sessions_router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

_NO_SESSION: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "The caller has no such session."}
}


class TurnReply(BaseModel):
    position: int
    query_id: str
    question: str
    answer: str
    status: str
    intent: str
    created_at: float


class SessionSummary(BaseModel):
    session_id: str
    collection: str
    title: str
    turn_count: int
    created_at: float
    updated_at: float

    @classmethod
    def of(cls, session: Session) -> Self:
        own = {name for name in cls.model_fields if name not in ("session_id", "turns")}
        fields = {name: getattr(session, name) for name in own}
        return cls(session_id=session.id, **fields)


class SessionReply(SessionSummary):
    summary: str
    turns: list[TurnReply] = []

    @classmethod
    def whole(cls, session: Session) -> Self:
        turns = [TurnReply(**dataclasses.asdict(turn)) for turn in session.turns]
        return cls.of(session).model_copy(update={"turns": turns})


class Forgotten(BaseModel):
    sessions: int
    queries: int


@sessions_router.get("", responses=PAGED)
async def sessions(
    request: Request,
    response: Response,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[SessionSummary]:
    """The caller's sessions, the one used last first."""
    history = engine_of(request).history
    about = await asyncio.to_thread(history.sessions.collections, caller.owner)
    readable = [name for name in about if caller.may_read(name)]
    found = await asyncio.to_thread(
        history.session_list, caller.owner, skip=skip, limit=limit, collections=readable
    )
    total = await asyncio.to_thread(history.session_count, caller.owner, readable)
    response.headers[TOTAL] = str(total)
    return [SessionSummary.of(one) for one in found]


@sessions_router.delete("")
async def forget_everything(
    request: Request,
    caller: CallerDep,
    owner: Annotated[str | None, Query(description="Whose; others' only for an admin.")] = None,
) -> Forgotten:
    """Forget all that the caller has ever asked: every session and every query. An admin may name
    somebody else."""
    if owner is not None and not caller.may_see(owner):
        caller.require_admin()
    history = engine_of(request).history
    sessions, queries = await asyncio.to_thread(history.delete_owner, owner or caller.owner)
    return Forgotten(sessions=sessions, queries=queries)


@sessions_router.get("/{session_id}", responses=_NO_SESSION)
async def one_session(session_id: str, request: Request, caller: CallerDep) -> SessionReply:
    """One session with its turns, and the summary of those that are no longer sent along."""
    return SessionReply.whole(await _own(request, caller, session_id))


@sessions_router.delete("/{session_id}", responses=_NO_SESSION, status_code=204)
async def delete_session(session_id: str, request: Request, caller: CallerDep) -> None:
    """Forget a session, and the queries that were asked in it."""
    await _own(request, caller, session_id)
    history = engine_of(request).history
    await asyncio.to_thread(history.delete_session, caller.owner, session_id)


async def _own(request: Request, caller: CallerDep, session_id: str) -> Session:
    history = engine_of(request).history
    found = await asyncio.to_thread(history.session, caller.owner, session_id)
    if not caller.may_read(found.collection):
        raise no_session(session_id)
    return found


_DAY_S = 86_400


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


class SuggestionReply(BaseModel):
    text: str
    kind: str
    collection: str


class SuggestionsReply(BaseModel):
    suggestions: list[SuggestionReply]


@router.get("/analytics")
async def analytics(
    request: Request,
    caller: CallerDep,
    collection: Annotated[str | None, Query(description="Only queries about it.")] = None,
    days: Annotated[float, Query(gt=0, le=36_500, description="How far back.")] = 30,
) -> AnalyticsReply:
    """Volume, latency per stage, questions that went unanswered, ungrounded or slow, the documents
    that answers cite, tokens and cost. An admin sees everybody's queries, others their own."""
    wanted = await asyncio.to_thread(visible, request, caller, collection)
    wanted = dataclasses.replace(wanted, since=time.time() - days * _DAY_S)
    found: dict[str, Any] = await asyncio.to_thread(engine_of(request).history.analytics, wanted)
    return AnalyticsReply(**found)


@router.get("/suggestions")
async def suggestions(
    request: Request,
    caller: CallerDep,
    prefix: Annotated[str, Query(max_length=1000, description="What was typed so far.")] = "",
    collection: Annotated[str | None, Query(description="Only from it.")] = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 8,
) -> SuggestionsReply:
    """The caller's own questions that were answered before, and headings of the documents, from
    collections that the caller may read."""
    engine = engine_of(request)
    seen = await asyncio.to_thread(visible, request, caller, collection)
    wanted = dataclasses.replace(seen, owner=caller.owner)
    names = engine.catalog.collections() if collection is None else [collection]
    found = await asyncio.to_thread(
        engine.history.suggestions, prefix, wanted=wanted, collections=names, limit=limit,
        may_offer=caller.may_read,
    )  # fmt: skip
    return SuggestionsReply(suggestions=[SuggestionReply(**dataclasses.asdict(s)) for s in found])
