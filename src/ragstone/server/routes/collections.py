"""`/v1/collections`: listed with their counts, made, and deleted completely."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.query.options import check_collection
from ragstone.server.auth import CallerDep
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import Problem
from ragstone.stores.collections import CollectionInfo, no_collection

router = APIRouter(prefix="/v1/collections", tags=["collections"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
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


@router.get("")
async def collections(request: Request, caller: CallerDep) -> list[CollectionReply]:
    """The collections that the caller may read, by name."""
    found = await asyncio.to_thread(engine_of(request).collections.listed)
    return [CollectionReply.of(one) for one in found if caller.may_read(one.name)]


@router.post("", responses=_PROBLEMS, status_code=201)
async def create(body: NewCollection, request: Request, caller: CallerDep) -> CollectionReply:
    """Make an empty collection. Sending documents makes one too."""
    caller.require_write(check_collection(body.name))
    return CollectionReply.of(await engine_of(request).create_collection(body.name))


@router.get("/{name}", responses=_PROBLEMS)
async def one(name: str, request: Request, caller: CallerDep) -> CollectionReply:
    """One collection with its counts."""
    if not caller.may_read(name):
        raise no_collection(name)
    return CollectionReply.of(await asyncio.to_thread(engine_of(request).collections.get, name))


@router.delete("/{name}", responses=_PROBLEMS, status_code=204)
async def delete(name: str, request: Request, caller: CallerDep) -> None:
    """Delete a collection completely: documents, vectors, terms, files, sessions and history."""
    if not caller.may_read(name):
        raise no_collection(name)
    caller.require_write(name)
    await engine_of(request).delete_collection(name)
