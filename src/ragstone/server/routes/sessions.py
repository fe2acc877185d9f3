"""`/v1/sessions`: the caller's conversations, listed, read and deleted."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from ragstone.server.auth import CallerDep
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import PAGED, TOTAL, Problem
from ragstone.stores.sessions import no_session
from ragstone.types import Session

router = APIRouter(prefix="/v1/sessions", tags=["sessions"])

_NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "The caller has no such session."}
}


class TurnReply(BaseModel):
    position: int
    query_id: str
    question: str
    answer: str
    status: str
    intent: str
    created_at: float


class SessionSummary(BaseModel):
    session_id: str
    collection: str
    title: str
    turn_count: int
    created_at: float
    updated_at: float

    @classmethod
    def of(cls, session: Session) -> Self:
        own = {name for name in cls.model_fields if name not in ("session_id", "turns")}
        fields = {name: getattr(session, name) for name in own}
        return cls(session_id=session.id, **fields)


class SessionReply(SessionSummary):
    summary: str
    turns: list[TurnReply] = []

    @classmethod
    def whole(cls, session: Session) -> Self:
        turns = [TurnReply(**dataclasses.asdict(turn)) for turn in session.turns]
        return cls.of(session).model_copy(update={"turns": turns})


class Forgotten(BaseModel):
    sessions: int
    queries: int


@router.get("", responses=PAGED)
async def sessions(
    request: Request,
    response: Response,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[SessionSummary]:
    """The caller's sessions, the one used last first."""
    history = engine_of(request).history
    about = await asyncio.to_thread(history.sessions.collections, caller.owner)
    readable = [name for name in about if caller.may_read(name)]
    found = await asyncio.to_thread(
        history.session_list, caller.owner, skip=skip, limit=limit, collections=readable
    )
    total = await asyncio.to_thread(history.session_count, caller.owner, readable)
    response.headers[TOTAL] = str(total)
    return [SessionSummary.of(one) for one in found]


@router.delete("")
async def forget_everything(
    request: Request,
    caller: CallerDep,
    owner: Annotated[str | None, Query(description="Whose; others' only for an admin.")] = None,
) -> Forgotten:
    """Forget all that the caller has ever asked: every session and every query. An admin may name
    somebody else."""
    if owner is not None and not caller.may_see(owner):
        caller.require_admin()
    history = engine_of(request).history
    sessions, queries = await asyncio.to_thread(history.delete_owner, owner or caller.owner)
    return Forgotten(sessions=sessions, queries=queries)


@router.get("/{session_id}", responses=_NOT_FOUND)
async def one_session(session_id: str, request: Request, caller: CallerDep) -> SessionReply:
    """One session with its turns, and the summary of those that are no longer sent along."""
    return SessionReply.whole(await _own(request, caller, session_id))


@router.delete("/{session_id}", responses=_NOT_FOUND, status_code=204)
async def delete_session(session_id: str, request: Request, caller: CallerDep) -> None:
    """Forget a session, and the queries that were asked in it."""
    await _own(request, caller, session_id)
    history = engine_of(request).history
    await asyncio.to_thread(history.delete_session, caller.owner, session_id)


async def _own(request: Request, caller: CallerDep, session_id: str) -> Session:
    history = engine_of(request).history
    found = await asyncio.to_thread(history.session, caller.owner, session_id)
    if not caller.may_read(found.collection):
        raise no_session(session_id)
    return found
