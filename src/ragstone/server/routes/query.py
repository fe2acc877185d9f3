"""`POST /v1/query`: a question, answered in one reply or as a stream of events."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from typing import Any, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.catalog.journal import no_query
from ragstone.engine import Engine
from ragstone.errors import InputError
from ragstone.events import Event, Finished, SourcesFound, Token
from ragstone.query.request import QueryOptions
from ragstone.server.auth import Caller, CallerDep
from ragstone.server.schemas import (
    CitationReply,
    ClaimReply,
    Problem,
    QueryReply,
    QueryRequest,
    SourceReply,
    Text,
)
from ragstone.server.sse import EVENTS, EventStream, begun, wants_events, while_here
from ragstone.types import Claim, Grounding

router = APIRouter(prefix="/v1", tags=["query"])

_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; with `Accept: text/event-stream` the events that lead to it: "
        "`sources`, then `token` (not yet verified) as they are written, then `claims` with the "
        "verdicts, then `done` with the whole reply. A failure after the first is an `error`.",
        "content": {
            EVENTS: {
                "schema": {"type": "string"},
                "example": 'data: {"type": "sources", "sources": []}\n\n'
                'data: {"type": "token", "content": "Six months.", "verified": false}\n\n'
                'data: {"type": "claims", "answer": "Six months.", "claims": [], "citations": []}'
                '\n\ndata: {"type": "done", "query_id": "…", "answer": "Six months."}\n\n',
            }
        },
    },
    422: {"model": Problem, "description": "The request cannot be used."},
}


def engine_of(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


def readable_query(engine: Engine, caller: Caller, query_id: str) -> dict[str, Any]:
    """An entry of the history; that one exists which they may not read is not told."""
    entry = engine.catalog.query(query_id)
    if not (caller.may_see(entry["owner"]) and caller.may_read(entry["collection"])):
        raise no_query(query_id)
    return entry


@router.post("/query", responses=_REPLIES, response_model=QueryReply)
async def query(
    body: QueryRequest, request: Request, caller: CallerDep
) -> QueryReply | EventStream:
    """Answer a question from the documents of a collection, with citations."""
    caller.require_read(body.collection)
    options = _options(body, request, caller)
    engine = engine_of(request)
    if wants_events(request):
        events = await begun(request, engine.stream(body.query, **options))
        return EventStream(request, _events(events))
    return QueryReply.of(await while_here(request, engine.ask(body.query, **options)))


def _options(body: QueryRequest, request: Request, caller: Caller) -> QueryOptions:
    return QueryOptions(
        collection=body.collection,
        upload_id=body.upload_id,
        method=body.method,
        filters=body.filters,
        top_k=body.top_k,
        mmr_lambda=body.mmr_lambda,
        temperature=body.temperature,
        session_id=body.session_id,
        owner=caller.owner,
        request_id=request.state.request_id,
    )


async def _events(events: AsyncGenerator[Event, None]) -> AsyncGenerator[dict[str, Any], None]:
    async for event in events:
        if isinstance(event, SourcesFound):
            sources = [SourceReply.of(source).model_dump() for source in event.sources]
            yield {"type": "sources", "sources": sources}
        elif isinstance(event, Token):
            yield {"type": "token", "content": event.text, "verified": event.verified}
        elif isinstance(event, Finished):
            answer = event.answer
            yield {
                "type": "claims",
                "answer": answer.text,
                "claims": [ClaimReply.of(claim).model_dump() for claim in answer.claims],
                "citations": [CitationReply.of(one).model_dump() for one in answer.citations],
            }
            yield {"type": "done", **QueryReply.of(answer).model_dump(mode="json")}


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


check_router = APIRouter(prefix="/v1", tags=["check"])

# Every sentence is held against every fact, and this cannot be stopped half way: 47 s of one core
# for 8e10 (100,000 characters against 800,000).
_MOST_WORK = 2e10


class CheckRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"answer": "The gate is red.", "facts": ["The gate is green."]}]
        },
    )

    answer: str = Field(description="What is to be checked.", max_length=100_000)
    facts: list[Text] = Field(
        description="Texts that the answer should rest on.", min_length=1, max_length=200
    )
    citation_threshold: float = Field(
        0.6, ge=0, le=1, description="From this score on a fact supports a claim."
    )


class CheckedClaim(BaseModel):
    text: str
    start: int
    end: int
    verdict: str
    score: float
    cited: list[int]
    reasons: list[str]

    @classmethod
    def of(cls, claim: Claim) -> Self:
        return cls(
            text=claim.text,
            start=claim.start,
            end=claim.end,
            verdict=claim.verdict,
            score=claim.score,
            cited=list(claim.citations),
            reasons=list(claim.reasons),
        )


class CheckReply(BaseModel):
    support_score: float
    claims: list[CheckedClaim]
    cited_facts: list[int] = Field(description="Numbers of the facts that support a claim, from 1.")

    @classmethod
    def of(cls, found: Grounding) -> Self:
        claims = [CheckedClaim.of(claim) for claim in found.claims]
        return cls(
            support_score=found.support_score, claims=claims, cited_facts=list(found.cited_facts)
        )


@check_router.post("/check-grounding")
async def check_grounding(body: CheckRequest, request: Request) -> CheckReply:
    """Say of each sentence of an answer whether the facts support, contradict or ignore it."""
    _refuse_too_much(body)
    found = await engine_of(request).check(
        body.answer, body.facts, threshold=body.citation_threshold
    )
    return CheckReply.of(found)


def _refuse_too_much(body: CheckRequest) -> None:
    facts = sum(map(len, body.facts))
    if len(body.answer) * facts > _MOST_WORK:
        raise InputError(
            f"{len(body.answer)} characters of answer against {facts} of facts are too much.",
            hint="Send the answer in parts, or only the facts that it should rest on.",
        )
