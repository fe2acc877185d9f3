"""Answer, explain and check: `/v1/query`, `/v1/queries/{id}/explain`, `/v1/check-grounding`."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import InputError
from ragstone.query.check.worker import unpack_grounding
from ragstone.query.explain import find_closest_chunk
from ragstone.query.request import QueryOptions
from ragstone.server.deps import CallerDep, EngineDep, find_query
from ragstone.server.disconnect import run_until_disconnect
from ragstone.server.events import QuerySkin, shape_events
from ragstone.server.openapi import INVALID, Replies
from ragstone.server.routes.document_parts import list_chunk_keys
from ragstone.server.schemas import CheckReply, Problem, QueryReply, QueryRequest, Text
from ragstone.server.sse import EVENT_STREAM, EventStream, is_stream_wanted, start_events
from ragstone.server.work import WorkQueue
from ragstone.threads import run_in_thread

router = APIRouter(prefix="/v1")

_REPLIES: Replies = {
    200: {
        "description": "The answer; with `Accept: text/event-stream` the events that lead to it: "
        "`sources`, then `token` (not yet verified) as they are written, then `claims` with the "
        "verdicts, then `done` with the whole reply. A failure after the first is an `error`.",
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
    **INVALID,
}


@router.post("/query", responses=_REPLIES, response_model=QueryReply, tags=["query"])
async def answer_query(
    body: QueryRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> QueryReply | EventStream:
    """Answer a question from the documents of a collection, with citations."""
    caller.require_read(body.collection)
    options = QueryOptions(
        collection=body.collection,
        rag_enabled=body.rag_enabled,
        upload_id=body.upload_id,
        method=body.method,
        filters=body.filters,
        top_k=body.top_k,
        mmr_lambda=body.mmr_lambda,
        temperature=body.temperature,
        session_id=body.session_id,
        as_typed=body.as_typed,
        is_chat=body.chat,
        owner=caller.owner,
        request_id=request.state.request_id,
    )
    if is_stream_wanted(request):
        events = await start_events(request, engine.stream(body.query, **options))
        return EventStream(request, shape_events(events, QuerySkin()))
    return QueryReply.of(await run_until_disconnect(request, engine.ask(body.query, **options)))


@router.get("/queries/{query_id}/explain", responses={404: {"model": Problem}}, tags=["query"])
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
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"answer": "The gate is red.", "facts": ["The gate is green."]}]
        },
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
