"""Create, list and delete collections: `/v1/collections`; show what one holds: `…/overview`.

Nothing of an overview is written by a model: it quotes the documents and their headings.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from ragstone.catalog.collections import CollectionInfo, collection_not_found
from ragstone.engine import Engine
from ragstone.errors import RagstoneError
from ragstone.files import check_collection
from ragstone.reading.starters import list_starters, list_topics
from ragstone.server.deps import CallerDep, EngineDep
from ragstone.server.openapi import NOT_FOUND, SEARCH_PROBLEMS
from ragstone.server.routes.explore import variants_of
from ragstone.server.schemas import DocumentSummary, QueryReply, forbid_other_fields
from ragstone.threads import run_in_thread
from ragstone.types import Document

router = APIRouter(prefix="/v1/collections", tags=["collections"])

_ABOUT = "What are these documents about?"
_MAX_RECENT = 5


class NewCollection(BaseModel):
    model_config = forbid_other_fields({"name": "contracts"})

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


@router.get("")
async def list_collections(engine: EngineDep, caller: CallerDep) -> list[CollectionReply]:
    """List the collections that the caller can read, by name."""
    found = await run_in_thread("store", engine.collections.list_all)
    return [CollectionReply.of(one) for one in found if caller.can_read(one.name)]


@router.post("", responses=SEARCH_PROBLEMS, status_code=201)
async def create_collection(
    body: NewCollection, engine: EngineDep, caller: CallerDep
) -> CollectionReply:
    """Create an empty collection. Adding documents creates one too."""
    caller.require_write(check_collection(body.name))
    return CollectionReply.of(await engine.create_collection(body.name))


@router.get("/{name}", responses=SEARCH_PROBLEMS)
async def get_collection(name: str, engine: EngineDep, caller: CallerDep) -> CollectionReply:
    """Return one collection with its counts."""
    if not caller.can_read(name):
        raise collection_not_found(name)
    return CollectionReply.of(await run_in_thread("store", engine.collections.get, name))


@router.delete("/{name}", responses=SEARCH_PROBLEMS, status_code=204)
async def delete_collection(name: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete a collection completely: documents, vectors, terms, files, sessions and history."""
    if not caller.can_read(name):
        raise collection_not_found(name)
    caller.require_write(name)
    await engine.delete_collection(name)


class OverviewReply(BaseModel):
    collection: str
    documents: int
    failed: int
    chunks: int
    about: QueryReply | None = Field(None, description="An overview in the documents' own words.")
    topics: list[str]
    questions: list[str] = Field(description="Headings that ask something, and summaries.")
    recent: list[DocumentSummary]


@dataclass(frozen=True, slots=True)
class _Kept:
    change: int
    reply: OverviewReply


class Overviews:
    """Build overviews, one at a time, and keep each until its collection changes."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._lock = asyncio.Lock()

    async def get(self, engine: Engine, quoting: Engine, name: str) -> OverviewReply:
        change = (await run_in_thread("store", engine.catalog.counts, name)).last_change
        async with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.change != change:
                kept = _Kept(change, await _build_overview(engine, quoting, name))
                self._kept[name] = kept
        return kept.reply


@router.get("/{name}/overview", responses=NOT_FOUND)
async def get_overview(
    name: str, request: Request, engine: EngineDep, caller: CallerDep
) -> OverviewReply:
    """Show what a collection is about, its main topics, questions it answers, and what is new."""
    if not caller.can_read(name):
        raise collection_not_found(name)
    overviews: Overviews = request.app.state.overviews
    return await overviews.get(engine, variants_of(request).build_quoting(), name)


async def _build_overview(engine: Engine, quoting: Engine, name: str) -> OverviewReply:
    info = await run_in_thread("store", engine.collections.get, name)
    documents = await run_in_thread("store", engine.documents, name)
    indexed = [document for document in documents if document.status == "indexed"]
    newest = sorted(indexed, key=lambda document: -document.created_at)[:_MAX_RECENT]
    headings = await run_in_thread("store", engine.collections.headings, name)
    return OverviewReply(
        collection=name,
        documents=info.documents,
        failed=info.failed,
        chunks=info.chunks,
        about=await _ask(quoting, _ABOUT, name) if info.documents else None,
        topics=list_topics(headings),
        questions=list_starters(headings, _list_titles(indexed)),
        recent=[DocumentSummary.of(document) for document in newest],
    )


def _list_titles(documents: Sequence[Document]) -> list[str]:
    """List the titles of the longest documents."""
    longest = sorted(documents, key=lambda document: -document.chunk_count)
    titles = (str(document.metadata.get("title") or document.name) for document in longest)
    return [" ".join(title.split()) for title in titles]


async def _ask(quoting: Engine, question: str, name: str) -> QueryReply | None:
    try:
        return QueryReply.of(await quoting.ask(question, collection=name))
    except RagstoneError:  # an overview without this part is still one
        return None
