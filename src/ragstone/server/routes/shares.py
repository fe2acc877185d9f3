"""Share one answer by a link: `/v1/queries/{id}/share`, `/v1/shared/{token}`.

A link shows the question, the answer and what it quotes, and nothing else. It needs a key where the
server does, but not one for the collection: who shares it answers for that. It ends when the owner
of the answer can no longer read the collection.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel

from ragstone.catalog.keys import KeyRing
from ragstone.catalog.shares import SqlShares, share_not_found
from ragstone.engine import Engine
from ragstone.server.auth import Caller
from ragstone.server.deps import CallerDep, EngineDep, base_url_of, find_query, wait_for_history
from ragstone.server.openapi import NOT_FOUND
from ragstone.server.schemas import CitationReply, ClaimReply
from ragstone.threads import run_in_thread

router = APIRouter(prefix="/v1", tags=["history"], dependencies=[Depends(wait_for_history)])


class ShareReply(BaseModel):
    token: str
    url: str


class SharedAnswer(BaseModel):
    query_id: str
    owner: str | None
    created_at: float
    query: str | None
    answer: str | None
    status: str
    citations: list[CitationReply]
    claims: list[ClaimReply] = []
    short_answer: str = ""
    highlights: list[tuple[int, int]] = []
    detected_intent: str = "question"
    confidence: float
    degraded: list[str] = []


@router.put("/queries/{query_id}/share", responses=NOT_FOUND)
async def share_query(
    query_id: str, request: Request, engine: EngineDep, caller: CallerDep
) -> ShareReply:
    """Create a link that shows this answer and its sources, read-only; the same one every time."""
    await run_in_thread("store", find_query, engine, caller, query_id)
    token = await run_in_thread("store", SqlShares(engine.catalog).create, query_id)
    return ShareReply(token=token, url=f"{base_url_of(request)}/#/shared/{token}")


@router.delete("/queries/{query_id}/share", responses=NOT_FOUND, status_code=204)
async def unshare_query(query_id: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete the link of an answer."""
    await run_in_thread("store", find_query, engine, caller, query_id)
    await run_in_thread("store", SqlShares(engine.catalog).delete, query_id)


@router.get("/shared/{token}", responses=NOT_FOUND)
async def get_shared_answer(token: str, request: Request, engine: EngineDep) -> SharedAnswer:
    """Return the answer that a link shows, with its citations."""
    keys: KeyRing = request.app.state.keys
    return SharedAnswer(**await run_in_thread("store", _find_shared, engine, keys, token))


def _find_shared(engine: Engine, keys: KeyRing, token: str) -> dict[str, Any]:
    entry = SqlShares(engine.catalog).find_query(token)
    if not _can_owner_read(keys, entry["owner"], entry["collection"]):
        raise share_not_found()
    return {name: entry[name] for name in SharedAnswer.model_fields if name in entry}


def _can_owner_read(keys: KeyRing, owner: str | None, collection: str) -> bool:
    """Return whether a key of the owner still reads the collection."""
    if not keys.has_keys():
        return True
    return any(
        Caller(key.owner, key.role, key.collections).can_read(collection)
        for key in keys.list()
        if key.owner == owner and key.state == "active"
    )
