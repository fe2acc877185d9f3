"""Answer, explain and check: `/v1/query`, `/v1/queries/{id}/explain`, `/v1/check-grounding`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from ragstone.errors import InputError
from ragstone.query.check.worker import unpack_grounding
from ragstone.query.explain import find_closest_chunk
from ragstone.query.request import QueryOptions
from ragstone.server.auth import Caller
from ragstone.server.deps import (
    CallerDep,
    EngineDep,
    find_query,
    require_collection,
    wait_for_history,
)
from ragstone.server.errors import build_error_event
from ragstone.server.events import QuerySkin, shape_events
from ragstone.server.openapi import SEARCH_PROBLEMS, Replies
from ragstone.server.routes.documents import list_chunk_keys
from ragstone.server.schemas import (
    AS_TYPED,
    RAG_ENABLED,
    CheckReply,
    Problem,
    QueryReply,
    SourceReply,
    Text,
    forbid_other_fields,
)
from ragstone.server.sse import (
    EVENT_STREAM,
    EventStream,
    is_stream_wanted,
    run_until_disconnect,
    start_events,
)
from ragstone.server.work import WorkQueue
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, RetrievalMethod

router = APIRouter(prefix="/v1")

_REPLIES: Replies = {
    200: {
        "description": "The answer; with `Accept: text/event-stream` the events that lead to it: "
        "`sources`, then `token` (not yet verified) as they are written, with first `verdicts` on "
        "the sentences so far and `withheld` for those left out, then `claims` with all verdicts, "
        "then `done` with the whole reply. A failure after the first is an `error`.",
        "content": {
            EVENT_STREAM: {
                "schema": {"type": "string"},
                "example": 'data: {"type": "sources", "sources": []}\n\n'
                'data: {"type": "token", "content": "Six months.", "verified": false}\n\n'
                'data: {"type": "claims", "answer": "Six months.", "claims": [], "citations": []}'
                '\n\ndata: {"type": "done", "query_id": "…", "answer": "Six months."}\n\n',
            }
        },
    },
    **SEARCH_PROBLEMS,
}


class SearchOptions(BaseModel):
    """Say what to search, in every request of this module."""

    collection: str = Field(DEFAULT_COLLECTION, description="The collection to search.")
    upload_id: str | None = Field(None, description="Search only documents of this upload.")
    top_k: int | None = Field(None, ge=1, le=1000, description="How many sources to read.")
    method: RetrievalMethod | None = Field(None, description="Search method.")
    filters: dict[str, Any] | None = Field(
        None, description='Conditions on metadata: {"year": {"gte": 2020}, "tags": "lease"}.'
    )

    def build_options(self, request: Request, caller: Caller) -> QueryOptions:
        return QueryOptions(
            collection=self.collection,
            upload_id=self.upload_id,
            top_k=self.top_k,
            method=self.method,
            filters=self.filters,
            owner=caller.owner,
            request_id=request.state.request_id,
        )


class AnswerOptions(SearchOptions):
    rag_enabled: bool | None = Field(None, description=RAG_ENABLED)
    temperature: float | None = Field(None, ge=0, le=2, description="Temperature of the model.")

    def build_options(self, request: Request, caller: Caller) -> QueryOptions:
        options = super().build_options(request, caller)
        return {**options, "rag_enabled": self.rag_enabled, "temperature": self.temperature}


class QueryRequest(AnswerOptions):
    model_config = forbid_other_fields(
        {"query": "How long is the notice period?", "collection": "demo"}
    )

    query: str = Field(description="The question; 3 to 1,000 characters after trimming.")
    mmr_lambda: float | None = Field(
        None, ge=0, le=1, description="1: relevance alone; 0: diversity alone."
    )
    session_id: str | None = Field(
        None, description="The conversation to continue; an unknown id starts a new one."
    )
    model: str | None = Field(
        None, max_length=200, description="The model that writes: a `name` of `GET /v1/providers`."
    )
    as_typed: bool = Field(False, description=AS_TYPED)
    chat: bool = Field(
        False, description="A message of a chat: 1 to 32,000 characters, pasted text included."
    )

    def build_options(self, request: Request, caller: Caller) -> QueryOptions:
        return {
            **super().build_options(request, caller),
            "mmr_lambda": self.mmr_lambda,
            "session_id": self.session_id,
            "choice": self.model,
            "as_typed": self.as_typed,
            "is_chat": self.chat,
        }


@router.post("/query", responses=_REPLIES, response_model=QueryReply, tags=["query"])
async def answer_query(
    body: QueryRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> QueryReply | EventStream:
    """Answer a question from the documents of a collection, with citations."""
    await require_collection(engine, caller, body.collection, rag_enabled=body.rag_enabled)
    options = body.build_options(request, caller)
    if is_stream_wanted(request):
        options["mark_claims"] = True
        events = await start_events(request, engine.stream(body.query, **options))
        return EventStream(request, shape_events(events, QuerySkin()))
    return QueryReply.of(await run_until_disconnect(request, engine.ask(body.query, **options)))


class BatchRequest(AnswerOptions):
    model_config = forbid_other_fields({"queries": ["How long is the notice period?"]})

    queries: list[Text] = Field(description="1 to 100 questions.", min_length=1, max_length=100)


_NDJSON = "application/x-ndjson"


@router.post(
    "/query/batch",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One JSON object per line, in the order of the questions: `index`, "
            "`query`, and either `reply` (as that of `/v1/query`) or `error`.",
            "content": {_NDJSON: {"schema": {"type": "string"}}},
        },
        **SEARCH_PROBLEMS,
    },
    tags=["query"],
)
async def answer_batch(
    body: BatchRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> StreamingResponse:
    """Answer up to 100 questions, each on its own; a line is sent as soon as its turn has come."""
    await require_collection(engine, caller, body.collection, rag_enabled=body.rag_enabled)
    options = body.build_options(request, caller)

    async def write_lines() -> AsyncGenerator[str, None]:
        items = engine.ask_many(body.queries, **options)
        async with aclosing(items):
            async for item in items:
                line: dict[str, Any] = {"index": item.index, "query": item.question}
                if item.answer is not None:
                    line["reply"] = QueryReply.of(item.answer).model_dump(mode="json")
                if item.error is not None:
                    line["error"] = build_error_event(request, item.error)
                yield json.dumps(line, ensure_ascii=False) + "\n"

    return StreamingResponse(write_lines(), media_type=_NDJSON)


class ContextRequest(SearchOptions):
    model_config = forbid_other_fields({"query": "What is the rent?", "max_tokens": 1500})

    query: str = Field(description="The question.")
    max_tokens: int | None = Field(
        None, ge=16, le=2_000_000, description="The budget. Default: RAG_MAX_CONTEXT_TOKENS."
    )


class ContextReply(BaseModel):
    context: str = Field(description="The sources, each under its header `[Source N]`.")
    tokens: int
    sources: list[SourceReply]
    notes: list[str]
    degraded: list[str]


@router.post("/context", responses=SEARCH_PROBLEMS, tags=["query"])
async def get_context(
    body: ContextRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> ContextReply:
    """Return the finished context of a question, for a model of your own; nothing is written."""
    await require_collection(engine, caller, body.collection)
    options = body.build_options(request, caller)
    work = engine.context(body.query, max_tokens=body.max_tokens, **options)
    found = await run_until_disconnect(request, work)
    return ContextReply(
        context=found.text,
        tokens=found.tokens,
        sources=[SourceReply.of(source) for source in found.sources],
        notes=list(found.notes),
        degraded=list(found.degraded),
    )


@router.get(
    "/queries/{query_id}/explain",
    responses={404: {"model": Problem}},
    tags=["query"],
    dependencies=[Depends(wait_for_history)],
)
async def explain_query(
    query_id: str,
    engine: EngineDep,
    caller: CallerDep,
    chunk_id: str | None = None,
    document_id: str | None = None,
) -> dict[str, Any]:
    """Show the waterfall of a past query; with `chunk_id` what each stage did with that chunk, with
    `document_id` the same for the chunk of a document that came closest."""
    entry = await run_in_thread("store", find_query, engine, caller, query_id)
    waterfall = entry["trace"]["waterfall"]
    counts: dict[str, int] = {}
    if document_id is not None:
        document = await run_in_thread("store", caller.find_document, engine, document_id)
        keys = await run_in_thread("store", list_chunk_keys, engine, document)
        index, found = find_closest_chunk(waterfall, keys)
        chunk_id = f"{document.id}:{index}"
        counts = {"chunks": len(keys), "chunks_found": found}
    if chunk_id is None:
        return {"query_id": query_id, **waterfall}
    explanation = await run_in_thread("store", engine.explain_past, query_id, chunk_id)
    return {
        "query_id": query_id,
        "chunk_id": explanation.chunk.id,
        "document_name": explanation.chunk.document_name,
        "verdict": explanation.verdict,
        "steps": [dataclasses.asdict(step) for step in explanation.steps],
        **counts,
    }


# The cost of a check grows with both. Beyond this it would not end in time: 200 sentences against
# 100,000 characters take up to 10 s of a core.
_MAX_CLAIM_CHARACTERS = 20_000_000
_CLAIM_END = re.compile(r"[.!?…]+(?=\s|$)|[。！？\n]+")
_LONGEST_CLAIM = 400


class CheckRequest(BaseModel):
    model_config = forbid_other_fields(
        {"answer": "The gate is red.", "facts": ["The gate is green."]}
    )

    answer: str = Field(description="The text to check.", max_length=100_000)
    facts: list[Text] = Field(
        description="Texts that should support the answer.", min_length=1, max_length=200
    )
    citation_threshold: float = Field(
        0.6, ge=0, le=1, description="The lowest score at which a fact supports a claim."
    )


@router.post("/check-grounding", tags=["check"])
async def check_grounding(body: CheckRequest, request: Request, caller: CallerDep) -> CheckReply:
    """Check for each sentence of an answer if the facts support, contradict or ignore it."""
    claims = max(len(_CLAIM_END.findall(body.answer)), len(body.answer) // _LONGEST_CLAIM) + 1
    fact_chars = sum(map(len, body.facts))
    if claims * fact_chars > _MAX_CLAIM_CHARACTERS:
        raise InputError(
            f"{claims:,} sentences against {fact_chars:,} characters of facts are too much for one "
            f"check: their product may be at most {_MAX_CLAIM_CHARACTERS:,}.",
            hint="Send the answer in parts, or only the facts that should support it.",
        )
    work: WorkQueue = request.app.state.check_work
    wanted = {"answer": body.answer, "facts": body.facts, "threshold": body.citation_threshold}
    found = await run_until_disconnect(request, work.run(caller.owner, wanted))
    return CheckReply.of(unpack_grounding(found))
