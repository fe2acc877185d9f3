"""Rate answers and use the ratings (`/v1/queries/{id}/feedback`, `/v1/feedback`); agree that
questions are stored (`/v1/consent`)."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Literal, Self

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from ragstone.catalog.feedback import MAX_COMMENT_CHARS, Feedback, describe_storage
from ragstone.engine import Engine
from ragstone.observe.metrics import FEEDBACK, RATING
from ragstone.server.auth import Caller
from ragstone.server.deps import CallerDep, EngineDep, find_query, wait_for_history
from ragstone.server.openapi import NOT_FOUND, PAGED, TOTAL_HEADER
from ragstone.server.routes.history import limit_to_caller
from ragstone.server.schemas import forbid_other_fields
from ragstone.threads import run_in_thread

router = APIRouter(prefix="/v1", tags=["feedback"], dependencies=[Depends(wait_for_history)])


class FeedbackRequest(BaseModel):
    model_config = forbid_other_fields({"vote": "down", "comment": "This is the old rent."})

    vote: Literal["up", "down"] | None = Field(None, description="Good or bad.")
    rating: int | None = Field(None, ge=1, le=5, description="1 (bad) to 5 (good).")
    comment: str = Field("", max_length=MAX_COMMENT_CHARS, description="The reason.")


class FeedbackReply(BaseModel):
    query_id: str
    owner: str
    vote: Literal["up", "down"] | None
    rating: int | None
    comment: str
    created_at: float

    @classmethod
    def of(cls, feedback: Feedback) -> Self:
        return cls(**dataclasses.asdict(feedback))


class RatedAnswer(FeedbackReply):
    collection: str
    session_id: str | None
    status: str
    query: str | None
    answer: str | None
    searched_as: str


Mine = Annotated[bool, Query(description="Only the caller's own; others see no other ones.")]
OfCollection = Annotated[str | None, Query(description="Only answers from this collection.")]


@router.post("/queries/{query_id}/feedback", responses=NOT_FOUND)
async def rate_query(
    query_id: str, body: FeedbackRequest, engine: EngineDep, caller: CallerDep
) -> FeedbackReply:
    """Rate an answer. The caller's earlier rating of it is replaced."""

    def save() -> Feedback:
        engine.history.feedback.require_storage(caller.owner)
        find_query(engine, caller, query_id)
        return engine.rate(query_id, owner=caller.owner, **body.model_dump())

    given = await run_in_thread("store", save)
    FEEDBACK.labels(given.vote or "none").inc()
    if given.rating is not None:
        RATING.observe(given.rating)
    return FeedbackReply.of(given)


@router.get("/queries/{query_id}/feedback", responses=NOT_FOUND)
async def get_feedback(query_id: str, engine: EngineDep, caller: CallerDep) -> FeedbackReply:
    """Return the caller's rating of an answer."""
    await run_in_thread("store", find_query, engine, caller, query_id)
    find = engine.history.feedback.find
    return FeedbackReply.of(await run_in_thread("store", find, query_id, caller.owner))


@router.delete("/queries/{query_id}/feedback", responses=NOT_FOUND, status_code=204)
async def delete_feedback(query_id: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete the caller's rating of an answer."""
    await run_in_thread("store", find_query, engine, caller, query_id)
    await run_in_thread("store", engine.history.feedback.delete, query_id, caller.owner)


@router.get("/feedback", responses=PAGED)
async def list_feedback(
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    collection: OfCollection = None,
    session_id: Annotated[str | None, Query(description="Only those of this session.")] = None,
    mine: Mine = False,
) -> list[RatedAnswer]:
    """List ratings with question and answer, newest first. An admin sees everybody's."""
    wanted = await run_in_thread("store", limit_to_caller, engine, caller, collection)
    wanted = dataclasses.replace(wanted, session_id=session_id)
    rated_by, feedback = _choose_rater(caller, mine), engine.history.feedback
    total = await run_in_thread("store", feedback.count, wanted, rated_by)
    response.headers[TOTAL_HEADER] = str(total)
    found = await run_in_thread(
        "store", feedback.list_rated, wanted, rated_by, skip=skip, limit=limit
    )
    return [RatedAnswer(**one) for one in found]


@router.get(
    "/feedback/export",
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def export_feedback(
    engine: EngineDep, caller: CallerDep, collection: OfCollection = None, mine: Mine = False
) -> Response:
    """Return the rated questions as a file for `ragstone eval`: good answers are references."""
    wanted = await run_in_thread("store", limit_to_caller, engine, caller, collection)
    export = engine.history.feedback.list_questions
    lines = await run_in_thread("store", export, wanted, _choose_rater(caller, mine))
    return Response(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": 'attachment; filename="rated-questions.jsonl"'},
    )


def _choose_rater(caller: Caller, mine: bool) -> str | None:
    return None if caller.is_admin and not mine else caller.owner


class ConsentReply(BaseModel):
    owner: str = Field(description="Whose consent it is: the owner of the key.")
    required: bool = Field(description="Whether this server asks before it stores anything.")
    agreed_at: float | None = Field(description="Null: nothing of the caller may be stored.")
    stores: bool = Field(description="Whether the caller's questions are stored now.")
    query_log: Literal["off", "metadata", "full"]
    retention_days: int = Field(description="Days until it is deleted; 0: never.")
    description: str = Field(description="What is stored, and for how long.")


class WithdrawnReply(BaseModel):
    sessions: int
    queries: int


def _describe_consent(engine: Engine, owner: str) -> ConsentReply:
    consents = engine.history.consents
    options, found = consents.options, consents.find(owner)
    return ConsentReply(
        owner=owner,
        required=consents.is_required,
        agreed_at=found.agreed_at if found else None,
        stores=options.query_log != "off" and (not consents.is_required or found is not None),
        query_log=options.query_log,
        retention_days=options.retention_days,
        description=describe_storage(options),
    )


@router.get("/consent")
async def get_consent(engine: EngineDep, caller: CallerDep) -> ConsentReply:
    """Say what is stored of the caller's questions, and if the caller has agreed to that."""
    return await run_in_thread("store", _describe_consent, engine, caller.owner)


@router.post("/consent")
async def give_consent(engine: EngineDep, caller: CallerDep) -> ConsentReply:
    """Agree that the caller's questions, answers and conversations are stored from now on."""
    await run_in_thread("store", engine.history.consents.agree, caller.owner)
    return await run_in_thread("store", _describe_consent, engine, caller.owner)


@router.delete("/consent")
async def withdraw_consent(
    engine: EngineDep,
    caller: CallerDep,
    owner: Annotated[str | None, Query(description="Another owner; admins only.")] = None,
) -> WithdrawnReply:
    """Withdraw the consent, and delete every session, query and rating of the caller."""
    withdraw = engine.history.withdraw_consent
    sessions, queries = await run_in_thread("store", withdraw, caller.choose_owner(owner))
    return WithdrawnReply(sessions=sessions, queries=queries)
