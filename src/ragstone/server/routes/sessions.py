"""List, read, rename, export and delete conversations: `/v1/sessions`."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from ragstone.catalog.sessions import format_as_markdown, session_not_found
from ragstone.engine import Engine
from ragstone.server.auth import Caller
from ragstone.server.deps import CallerDep, EngineDep, wait_for_history
from ragstone.server.openapi import PAGED, TOTAL_HEADER, Replies
from ragstone.server.schemas import Problem, Text, forbid_other_fields
from ragstone.threads import run_in_thread
from ragstone.types import Session

router = APIRouter(
    prefix="/v1/sessions", tags=["sessions"], dependencies=[Depends(wait_for_history)]
)

_NOT_FOUND: Replies = {404: {"model": Problem, "description": "The caller has no such session."}}


class TurnReply(BaseModel):
    position: int
    query_id: str
    question: str
    answer: str
    status: str
    intent: str
    created_at: float
    searched_as: str


class SessionTitle(BaseModel):
    model_config = forbid_other_fields({"title": "Lease of the ridge"})

    title: Text = Field(description="The new title; empty for the first question.")


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
    def with_turns(cls, session: Session) -> Self:
        turns = [TurnReply(**dataclasses.asdict(turn)) for turn in session.turns]
        return cls.of(session).model_copy(update={"turns": turns})


class DeletedReply(BaseModel):
    sessions: int
    queries: int


@router.get("", responses=PAGED)
async def list_sessions(
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    text: Annotated[
        str, Query(max_length=200, description="Only those with it in title, question or answer.")
    ] = "",
) -> list[SessionSummary]:
    """List the caller's sessions, the last used first."""
    history = engine.history
    names = await run_in_thread("store", history.sessions.collections, caller.owner)
    readable = [name for name in names if caller.can_read(name)]
    wanted = " ".join(text.split())
    found = await run_in_thread(
        "store",
        history.list_sessions,
        caller.owner,
        skip=skip,
        limit=limit,
        collections=readable,
        text=wanted,
    )
    total = await run_in_thread("store", history.count_sessions, caller.owner, readable, wanted)
    response.headers[TOTAL_HEADER] = str(total)
    return [SessionSummary.of(session) for session in found]


@router.delete("")
async def delete_all_sessions(
    engine: EngineDep,
    caller: CallerDep,
    owner: Annotated[str | None, Query(description="Another owner; admins only.")] = None,
) -> DeletedReply:
    """Delete every session and every query of the caller; an admin can name another owner."""
    delete = engine.history.delete_owner
    sessions, queries = await run_in_thread("store", delete, caller.choose_owner(owner))
    return DeletedReply(sessions=sessions, queries=queries)


@router.get("/{session_id}", responses=_NOT_FOUND)
async def get_session(session_id: str, engine: EngineDep, caller: CallerDep) -> SessionReply:
    """Return a session with its turns, and the summary of the turns that the model no longer
    gets."""
    return SessionReply.with_turns(await _find_session(engine, caller, session_id))


@router.patch("/{session_id}", responses=_NOT_FOUND)
async def rename_session(
    session_id: str, body: SessionTitle, engine: EngineDep, caller: CallerDep
) -> SessionSummary:
    """Give a session a title."""
    await _find_session(engine, caller, session_id)
    rename = engine.history.rename_session
    await run_in_thread("store", rename, caller.owner, session_id, body.title)
    return SessionSummary.of(await _find_session(engine, caller, session_id))


@router.get(
    "/{session_id}/export",
    responses={**_NOT_FOUND, 200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def export_session(
    session_id: str,
    engine: EngineDep,
    caller: CallerDep,
    format: Literal["markdown", "json"] = "markdown",  # noqa: A002  clients say `format`
) -> Response:
    """Return a whole conversation as a file: Markdown, or JSON like `GET /v1/sessions/{id}`."""
    session = await _find_session(engine, caller, session_id)
    cited = await run_in_thread("store", engine.history.session_citations, caller.owner, session_id)
    text, media_type, ending = (
        format_as_markdown(session, cited),
        "text/markdown; charset=utf-8",
        "md",
    )
    if format == "json":
        text, media_type, ending = (
            SessionReply.with_turns(session).model_dump_json(indent=2),
            "application/json",
            "json",
        )
    name = re.sub(r"[^\w.-]", "_", session.id, flags=re.ASCII)
    disposition = f'attachment; filename="{name}.{ending}"'
    return Response(text, media_type=media_type, headers={"Content-Disposition": disposition})


@router.delete("/{session_id}", responses=_NOT_FOUND, status_code=204)
async def delete_session(session_id: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete a session and its queries."""
    await _find_session(engine, caller, session_id)
    await run_in_thread("store", engine.history.delete_session, caller.owner, session_id)


async def _find_session(engine: Engine, caller: Caller, session_id: str) -> Session:
    session = await run_in_thread("store", engine.history.session, caller.owner, session_id)
    if not caller.can_read(session.collection):
        raise session_not_found(session_id)
    return session
