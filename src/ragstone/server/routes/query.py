"""`POST /v1/query`: a question, answered in one reply or as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request

from ragstone.engine import Engine
from ragstone.query.options import QueryOptions
from ragstone.server.auth import Caller, CallerDep
from ragstone.server.schemas import (
    CitationReply,
    ClaimReply,
    Problem,
    QueryReply,
    QueryRequest,
    SourceReply,
)
from ragstone.server.sse import EVENTS, EventStream, begun, wants_events, while_here
from ragstone.stores.journal import no_query
from ragstone.types import Event, Finished, SourcesFound, Token

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
