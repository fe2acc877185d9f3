"""Speak Chunkenizer's protocol, so that Ragstone can be the retrieval service of another system:
`POST /search`, `POST /documents`. Only `collection` is added."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from ragstone.engine import Engine
from ragstone.errors import IngestError, InputError
from ragstone.server.deps import CallerDep, EngineDep, require_collection
from ragstone.server.openapi import BINARY, INVALID, JSON_OBJECT, SEARCH_PROBLEMS, describe_form
from ragstone.server.receive import receive_documents
from ragstone.server.routes.documents import list_chunk_keys
from ragstone.server.schemas import forbid_other_fields
from ragstone.server.sse import run_until_disconnect
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, Hit

router = APIRouter(tags=["chunkenizer"])

_FORM = describe_form(
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
    model_config = forbid_other_fields({"query": "notice period", "top_k": 3})

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


@router.post("/search", responses=SEARCH_PROBLEMS)
async def search(
    body: SearchRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> SearchReply:
    """Find the best chunks for a question, without an answer."""
    await require_collection(engine, caller, body.collection)
    work = engine.search(
        body.query,
        collection=body.collection,
        top_k=body.top_k,
        request_id=request.state.request_id,
    )
    hits = await run_until_disconnect(request, work)
    fields = engine.catalog.document_fields({hit.chunk.document_id for hit in hits})
    results = [_build_result(hit, fields.get(hit.chunk.document_id, {}), engine) for hit in hits]
    return SearchReply(results=results)


@router.post("/documents", responses=INVALID, openapi_extra=_FORM)
async def add_document(request: Request, engine: EngineDep, caller: CallerDep) -> StoredDocument:
    """Ingest one document; the same bytes are not read again unless `force_reindex` is set."""
    caller.require_writer()
    received = await receive_documents(request, engine.originals)
    try:
        collection = received.collection or DEFAULT_COLLECTION
        caller.require_write(collection)
        if len(received.uploads) != 1:
            raise InputError(
                f"The form holds {len(received.uploads)} documents; only one is allowed.",
                hint="Put it in the field 'file'.",
            )
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
    return await run_in_thread("store", _describe_document, engine, outcome.document_id)


def _build_result(hit: Hit, fields: Mapping[str, Any], engine: Engine) -> SearchResult:
    chunk = hit.chunk
    place = {
        "page": chunk.page,
        "heading_path": list(chunk.heading_path),
        "start": chunk.start,
        "end": chunk.end,
        "content_type": chunk.content_type,
    }
    return SearchResult(
        score=hit.score,
        document_id=chunk.document_id,
        document_name=chunk.document_name,
        chunk_index=chunk.index,
        chunk_text=chunk.text,
        token_count=len(engine.embedder.token_starts(chunk.text)),
        metadata={**fields, **place},
    )


def _describe_document(engine: Engine, document_id: str) -> StoredDocument:
    document = engine.catalog.document(document_id)
    chunks = engine.catalog.chunks(list_chunk_keys(engine, document)).values()
    return StoredDocument(
        document_id=document_id,
        document_name=document.name,
        chunk_count=document.chunk_count,
        total_tokens=sum(len(engine.embedder.token_starts(chunk.text)) for chunk in chunks),
        sha256=document.sha256,
    )
