"""Read parts of a document: its text, chunks and versions; and add the sample documents."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from ragstone.engine import Engine
from ragstone.server.deps import CallerDep, EngineDep
from ragstone.server.openapi import INVALID, NOT_FOUND
from ragstone.server.routes.explore import Passage
from ragstone.server.schemas import DocumentSummary
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, Document
from ragstone.types import Query as Question

router = APIRouter(prefix="/v1", tags=["documents"])

_PROBLEMS = NOT_FOUND | INVALID


class TextReply(BaseModel):
    """`text` is `document.text[start:end]`; `length` is that of the whole text, in code points."""

    document_id: str
    document_name: str
    media_type: str
    start: int
    end: int
    length: int
    text: str


class Version(DocumentSummary):
    retired_at: float | None
    """When a newer version replaced it; null for the current one."""


class SamplesRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"collection": "demo"}]}
    )

    collection: str = DEFAULT_COLLECTION


class SamplesReply(BaseModel):
    collection: str
    documents: int
    chunks: int


@router.get("/documents/{document_id}/text", responses=_PROBLEMS)
async def get_text(
    document_id: str,
    engine: EngineDep,
    caller: CallerDep,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
    around: Annotated[
        int, Query(ge=0, le=1_000_000, description="Characters before and after.")
    ] = 0,
) -> TextReply:
    """Return the text of a document, or the part around a span of it."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    length = len(document.text)
    first = min(length, max(0, start - around))
    last = length if end is None else max(first, min(length, end + around))
    return TextReply(
        document_id=document.id,
        document_name=document.name,
        media_type=document.media_type,
        start=first,
        end=last,
        length=length,
        text=document.text[first:last],
    )


@router.get("/documents/{document_id}/chunks", responses=_PROBLEMS)
async def list_chunks(
    document_id: str,
    engine: EngineDep,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[Passage]:
    """List the chunks of a document in order; a replaced version has none."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    keys = list_chunk_keys(engine, document)[skip : skip + limit]
    found = await run_in_thread("store", engine.catalog.chunks, keys)
    return [Passage.of(chunk) for chunk in found.values()]


def list_chunk_keys(engine: Engine, document: Document) -> list[int]:
    query = Question("", "", collection=document.collection, document_ids=(document.id,))
    scope = engine.catalog.resolve_scope(query)
    return [key for keys in (scope.ranges if scope else ()) for key in keys]


@router.get("/documents/{document_id}/versions", responses=_PROBLEMS)
async def list_versions(document_id: str, engine: EngineDep, caller: CallerDep) -> list[Version]:
    """List the versions of a document, newest first."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    found = await run_in_thread(
        "store", engine.records.versions, document.collection, document.name
    )
    return [
        Version(**DocumentSummary.of(one).model_dump(), retired_at=retired_at)
        for one, retired_at in found
    ]


@router.post("/samples", responses=_PROBLEMS, status_code=201)
async def add_samples(body: SamplesRequest, engine: EngineDep, caller: CallerDep) -> SamplesReply:
    """Add the sample documents of a small observatory to a collection."""
    caller.require_write(body.collection)
    samples = Path(str(resources.files("ragstone.samples") / "documents"))
    report = await engine.ingest(
        [samples], collection=body.collection, metadata={"tags": ["sample"]}
    )
    return SamplesReply(
        collection=body.collection, documents=len(report.files), chunks=report.chunk_count
    )
