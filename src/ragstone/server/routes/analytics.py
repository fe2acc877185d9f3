"""`/v1/analytics` and `/v1/suggestions`: what is asked, and what one might ask."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from ragstone.server.auth import CallerDep
from ragstone.server.routes.history import visible
from ragstone.server.routes.query import engine_of

router = APIRouter(prefix="/v1", tags=["history"])

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
