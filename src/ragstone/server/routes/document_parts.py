"""The parts of a document: a passage around a span, its chunks, its versions; and the samples."""

from __future__ import annotations

import asyncio
import dataclasses
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.catalog.collections import CollectionInfo, no_collection
from ragstone.query.request import check_collection
from ragstone.server.auth import CallerDep
from ragstone.server.routes.explore import Passage
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import DocumentSummary, Problem
from ragstone.types import DEFAULT_COLLECTION
from ragstone.types import Query as Question

router = APIRouter(prefix="/v1", tags=["documents"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "Nothing has that id."},
    422: {"model": Problem, "description": "The request cannot be used."},
}


class TextReply(BaseModel):
    """`text` is `document.text[start:end]`, out of `length` characters (code points)."""

    document_id: str
    document_name: str
    media_type: str
    start: int
    end: int
    length: int
    text: str


class Version(DocumentSummary):
    retired_at: float | None
    """When a newer one took its place; none for the current version."""


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
async def text(
    document_id: str,
    request: Request,
    caller: CallerDep,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
    around: Annotated[int, Query(ge=0, le=1_000_000, description="Characters each side.")] = 0,
) -> TextReply:
    """A document's text, or the part around a span of it."""
    engine = engine_of(request)
    document = await asyncio.to_thread(caller.readable_document, engine, document_id)
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
async def chunks(
    document_id: str,
    request: Request,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[Passage]:
    """The chunks of a document in their order; a replaced version has none."""
    engine = engine_of(request)
    catalog = engine.catalog
    collection = caller.readable_document(engine, document_id).collection
    within = catalog.keys_within(
        Question(id="", text="", collection=collection, document_ids=(document_id,))
    )
    keys = [key for keys in (within.ranges if within else ()) for key in keys]
    found = await asyncio.to_thread(catalog.chunks, keys[skip : skip + limit])
    return [Passage.of(chunk) for chunk in found.values()]


@router.get("/documents/{document_id}/versions", responses=_PROBLEMS)
async def versions(document_id: str, request: Request, caller: CallerDep) -> list[Version]:
    """The document and what stood under its name before, newest first."""
    engine = engine_of(request)
    document = await asyncio.to_thread(caller.readable_document, engine, document_id)
    found = await asyncio.to_thread(engine.records.versions, document.collection, document.name)
    return [
        Version(**DocumentSummary.of(one).model_dump(), retired_at=retired_at)
        for one, retired_at in found
    ]


@router.post("/samples", responses=_PROBLEMS, status_code=201)
async def add_samples(body: SamplesRequest, request: Request, caller: CallerDep) -> SamplesReply:
    """Read the sample documents of a small observatory into a collection."""
    caller.require_write(body.collection)
    samples = Path(str(resources.files("ragstone.samples") / "documents"))
    report = await engine_of(request).ingest(
        [samples], collection=body.collection, metadata={"tags": ["sample"]}
    )
    return SamplesReply(
        collection=body.collection, documents=len(report.files), chunks=report.chunk_count
    )


collections_router = APIRouter(prefix="/v1/collections", tags=["collections"])

_COLLECTION_PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "There is no such collection."},
    422: {"model": Problem, "description": "The request cannot be used."},
}


class NewCollection(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "contracts"}]}
    )

    name: str = Field(description="Letters, digits, dots, dashes and underscores; at most 100.")


class CollectionReply(BaseModel):
    name: str
    documents: int = Field(description="Documents that can be searched.")
    failed: int = Field(description="Documents that could not be read.")
    chunks: int
    embedder: str
    created_at: float

    @classmethod
    def of(cls, info: CollectionInfo) -> Self:
        return cls(**dataclasses.asdict(info))


@collections_router.get("")
async def collections(request: Request, caller: CallerDep) -> list[CollectionReply]:
    """The collections that the caller may read, by name."""
    found = await asyncio.to_thread(engine_of(request).collections.listed)
    return [CollectionReply.of(one) for one in found if caller.may_read(one.name)]


@collections_router.post("", responses=_COLLECTION_PROBLEMS, status_code=201)
async def create(body: NewCollection, request: Request, caller: CallerDep) -> CollectionReply:
    """Make an empty collection. Sending documents makes one too."""
    caller.require_write(check_collection(body.name))
    return CollectionReply.of(await engine_of(request).create_collection(body.name))


@collections_router.get("/{name}", responses=_COLLECTION_PROBLEMS)
async def one(name: str, request: Request, caller: CallerDep) -> CollectionReply:
    """One collection with its counts."""
    if not caller.may_read(name):
        raise no_collection(name)
    return CollectionReply.of(await asyncio.to_thread(engine_of(request).collections.get, name))


@collections_router.delete("/{name}", responses=_COLLECTION_PROBLEMS, status_code=204)
async def delete(name: str, request: Request, caller: CallerDep) -> None:
    """Delete a collection completely: documents, vectors, terms, files, sessions and history."""
    if not caller.may_read(name):
        raise no_collection(name)
    caller.require_write(name)
    await engine_of(request).delete_collection(name)
