"""Create, list and delete collections: `/v1/collections`."""

from __future__ import annotations

import dataclasses
from typing import Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from ragstone.catalog.collections import CollectionInfo, collection_not_found
from ragstone.files import check_collection
from ragstone.server.deps import CallerDep, EngineDep
from ragstone.server.openapi import INVALID, Replies
from ragstone.server.schemas import Problem
from ragstone.threads import run_in_thread

router = APIRouter(prefix="/v1/collections", tags=["collections"])

_PROBLEMS: Replies = {
    404: {"model": Problem, "description": "There is no such collection."},
    **INVALID,
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


@router.get("")
async def list_collections(engine: EngineDep, caller: CallerDep) -> list[CollectionReply]:
    """List the collections that the caller can read, by name."""
    found = await run_in_thread("store", engine.collections.list_all)
    return [CollectionReply.of(one) for one in found if caller.can_read(one.name)]


@router.post("", responses=_PROBLEMS, status_code=201)
async def create_collection(
    body: NewCollection, engine: EngineDep, caller: CallerDep
) -> CollectionReply:
    """Create an empty collection. Adding documents creates one too."""
    caller.require_write(check_collection(body.name))
    return CollectionReply.of(await engine.create_collection(body.name))


@router.get("/{name}", responses=_PROBLEMS)
async def get_collection(name: str, engine: EngineDep, caller: CallerDep) -> CollectionReply:
    """Return one collection with its counts."""
    if not caller.can_read(name):
        raise collection_not_found(name)
    return CollectionReply.of(await run_in_thread("store", engine.collections.get, name))


@router.delete("/{name}", responses=_PROBLEMS, status_code=204)
async def delete_collection(name: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete a collection completely: documents, vectors, terms, files, sessions and history."""
    if not caller.can_read(name):
        raise collection_not_found(name)
    caller.require_write(name)
    await engine.delete_collection(name)
