"""`POST /search` and `POST /documents`: Chunkenizer's own contract, so that Ragstone can be another
system's retrieval service. `collection` is the one thing that it adds."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.engine import Engine
from ragstone.errors import IngestError, InputError
from ragstone.server.auth import CallerDep
from ragstone.server.receive import receive
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import BINARY, JSON_OBJECT, Problem, form
from ragstone.server.sse import while_here
from ragstone.types import DEFAULT_COLLECTION, Hit, Query

router = APIRouter(tags=["chunkenizer"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": Problem, "description": "The request cannot be used."},
}
_FORM = form(
    {
        "file": BINARY,
        "metadata_json": JSON_OBJECT,
        "force_reindex": {"type": "boolean"},
        "collection": {"type": "string"},
    },
    required=["file"],
    example={"file": "(the file)", "metadata_json": '{"year": 2026}'},
)


class SearchRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"query": "notice period", "top_k": 3}]}
    )

    query: str
    top_k: int = Field(5, ge=1, le=1000)
    collection: str = DEFAULT_COLLECTION


class SearchResult(BaseModel):
    score: float
    document_id: str
    document_name: str
    chunk_index: int
    chunk_text: str
    token_count: int
    metadata: dict[str, Any]


class SearchReply(BaseModel):
    results: list[SearchResult]


class StoredDocument(BaseModel):
    document_id: str
    document_name: str
    chunk_count: int
    total_tokens: int
    sha256: str


@router.post("/search", responses=_PROBLEMS)
async def search(body: SearchRequest, request: Request, caller: CallerDep) -> SearchReply:
    """The chunks that fit a question best, without an answer."""
    caller.require_read(body.collection)
    engine = engine_of(request)
    work = engine.search(
        body.query,
        collection=body.collection,
        top_k=body.top_k,
        request_id=request.state.request_id,
    )
    hits = await while_here(request, work)
    fields = engine.catalog.document_fields({hit.chunk.document_id for hit in hits})
    results = [_result(hit, fields.get(hit.chunk.document_id, {}), engine) for hit in hits]
    return SearchReply(results=results)


@router.post("/documents", responses=_PROBLEMS, openapi_extra=_FORM)
async def add_document(request: Request, caller: CallerDep) -> StoredDocument:
    """Read one document; the same bytes again are left alone unless `force_reindex` is set."""
    caller.require_writer()
    engine = engine_of(request)
    received = await receive(request, engine.originals)
    try:
        collection = received.collection or DEFAULT_COLLECTION
        caller.require_write(collection)
        if len(received.uploads) != 1:
            raise InputError("One document at a time.", hint="Put it in the field 'file'.")
        report = await engine.ingest_uploads(
            received.uploads,
            collection=collection,
            upload_id=uuid.uuid4().hex,
            metadata=received.metadata,
            again=received.again,
        )
    finally:
        received.discard()
    outcome = report.files[0]
    if outcome.outcome == "failed" or outcome.document_id is None:
        raise IngestError(outcome.error or "The document could not be read.", hint=outcome.hint)
    return await asyncio.to_thread(_stored, engine, outcome.document_id)


def _result(hit: Hit, fields: Mapping[str, Any], engine: Engine) -> SearchResult:
    chunk = hit.chunk
    own = {"page": chunk.page, "heading_path": list(chunk.heading_path), "start": chunk.start,
           "end": chunk.end, "content_type": chunk.content_type}  # fmt: skip
    return SearchResult(
        score=hit.score,
        document_id=chunk.document_id,
        document_name=chunk.document_name,
        chunk_index=chunk.index,
        chunk_text=chunk.text,
        token_count=len(engine.embedder.token_starts(chunk.text)),
        metadata={**fields, **own},
    )


def _stored(engine: Engine, document_id: str) -> StoredDocument:
    document = engine.catalog.document(document_id)
    asked = Query("", "", collection=document.collection, document_ids=(document_id,))
    within = engine.catalog.keys_within(asked)
    keys = [key for keys in (within.ranges if within else ()) for key in keys]
    chunks = engine.catalog.chunks(keys).values()
    return StoredDocument(
        document_id=document_id,
        document_name=document.name,
        chunk_count=document.chunk_count,
        total_tokens=sum(len(engine.embedder.token_starts(chunk.text)) for chunk in chunks),
        sha256=document.sha256,
    )
