"""Chat about the documents: `/api/chat`, `/api/chat/stream`, `/api/chat/compare` and
`/chat/{chat_id}/stream`. Citations are `[document:chunk]`; without documents it is a plain chat."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.engine import Engine
from ragstone.files import check_collection
from ragstone.query.request import QueryOptions
from ragstone.server.auth import Caller
from ragstone.server.deps import CallerDep, EngineDep, require_collection
from ragstone.server.events import ChatRoomSkin, ChatSkin, shape_comparison, shape_events
from ragstone.server.openapi import INVALID, SEARCH_PROBLEMS, Replies
from ragstone.server.schemas import (
    AS_TYPED,
    RAG_ENABLED,
    ChatData,
    ComparedData,
    Problem,
    SentMessage,
    forbid_other_fields,
    split_messages,
)
from ragstone.server.sse import EVENT_STREAM, EventStream, run_until_disconnect, start_events
from ragstone.types import DEFAULT_COLLECTION

router = APIRouter(prefix="/api/chat", tags=["chat"])

_PROBLEMS: Replies = {
    **SEARCH_PROBLEMS,
    502: {"model": Problem, "description": "No provider is able to answer."},
}
_STREAM: Replies = {
    200: {
        "description": "`sources`, then `token` as they are written, `replaced` with the "
        "whole text if the check changed it, then `done` with the same "
        "`data` as the reply without a stream. Of two answers each event but the last names its "
        "`side`: `baseline` or `enhanced`.",
        "content": {
            EVENT_STREAM: {
                "schema": {"type": "string"},
                "example": 'data: {"type": "sources", "sources": []}\n\n'
                'data: {"type": "token", "content": "Six months."}\n\n'
                'data: {"type": "done", "data": {"choices": []}}\n\n',
            }
        },
    },
    **_PROBLEMS,
}
_EXAMPLE: dict[str, Any] = {
    "messages": [{"role": "user", "content": "How long is the notice period?"}]
}
_COMPARE = "Write two answers: from the hits before and after they are refined."
CompareParam = Annotated[bool | None, Query(description=_COMPARE)]


class ChatRequest(BaseModel):
    """Unknown fields (`stream`, `user`, …) are ignored: clients of other servers send them."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_EXAMPLE]})

    messages: list[SentMessage] = Field(min_length=1, description="The last one is the question.")
    rag_enabled: bool | None = Field(None, description=RAG_ENABLED)
    model: str | None = Field(None, min_length=1, max_length=200, description="The model to use.")
    temperature: float | None = Field(None, ge=0, le=2)
    compare: bool | None = Field(None, description=_COMPARE)
    collection: str = Field(DEFAULT_COLLECTION, description="The collection to search.")
    top_k: int | None = Field(None, ge=1, le=1000, description="How many sources to read.")
    as_typed: bool = Field(False, description=AS_TYPED)


class ChatReply(BaseModel):
    success: Literal[True] = True
    data: ChatData | ComparedData


class CompareReply(BaseModel):
    success: Literal[True] = True
    data: ComparedData


@router.post("", responses=_PROBLEMS)
async def answer_chat(
    body: ChatRequest,
    request: Request,
    engine: EngineDep,
    caller: CallerDep,
    compare: CompareParam = None,
) -> ChatReply:
    """Answer the last message from the documents; with `rag_enabled: false` without them."""
    if _is_comparison(body, compare, engine):
        return ChatReply(data=await _compare(body, request, engine, caller))
    question, options = await _read_request(body, request, engine, caller)
    answer = await run_until_disconnect(request, engine.ask(question, **options))
    return ChatReply(data=ChatData.of(answer))


@router.post("/compare", responses=_PROBLEMS)
async def compare_chat(
    body: ChatRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> CompareReply:
    """Write two answers from one search: from its raw hits, and from those that the filter, the
    reranker and the selection left."""
    return CompareReply(data=await _compare(body, request, engine, caller))


@router.post("/stream", responses=_STREAM, response_class=EventStream, status_code=200)
async def stream_chat(
    body: ChatRequest,
    request: Request,
    engine: EngineDep,
    caller: CallerDep,
    compare: CompareParam = None,
) -> EventStream:
    """Answer as events. Retrieval is done before the first token; two answers are written at the
    same time."""
    question, options = await _read_request(body, request, engine, caller)
    if _is_comparison(body, compare, engine):
        sides = await start_events(request, engine.compare_stream(question, **options))
        return EventStream(request, shape_comparison(sides, engine.settings))
    events = await start_events(request, engine.stream(question, **options))
    return EventStream(request, shape_events(events, ChatSkin()))


def _is_comparison(body: ChatRequest, param: bool | None, engine: Engine) -> bool:
    """Take the query parameter first, then the body, then RAG_COMPARE_MODE.

    A chat without documents has nothing to compare.
    """
    settings = engine.settings
    is_enabled = settings.retrieve.enabled if body.rag_enabled is None else body.rag_enabled
    wanted = body.compare if param is None else param
    return is_enabled and (settings.server.compare_mode if wanted is None else wanted)


async def _compare(
    body: ChatRequest, request: Request, engine: Engine, caller: Caller
) -> ComparedData:
    question, options = await _read_request(body, request, engine, caller)
    work = engine.compare(question, **options)
    return ComparedData.of(await run_until_disconnect(request, work), engine.settings)


async def _read_request(
    body: ChatRequest, request: Request, engine: Engine, caller: Caller
) -> tuple[str, QueryOptions]:
    await require_collection(engine, caller, body.collection, rag_enabled=body.rag_enabled)
    earlier, question = split_messages(body.messages)
    return question, QueryOptions(
        collection=body.collection,
        rag_enabled=body.rag_enabled,
        history=earlier,
        top_k=body.top_k or engine.settings.refine.chat_top_k,
        temperature=body.temperature,
        model=body.model,
        citation_style="chunk",
        is_chat=True,
        as_typed=body.as_typed,
        owner=caller.owner,
        request_id=request.state.request_id,
    )


room_router = APIRouter(tags=["chat"])

_ROOM_STREAM: Replies = {
    200: {
        "description": "`token` as they are written, `replaced` with the whole text if the check "
        "changed it, then `sources`, then `done`.",
        "content": {
            EVENT_STREAM: {
                "schema": {"type": "string"},
                "example": 'data: {"type": "token", "content": "Six months."}\n\n'
                'data: {"type": "sources", "sources": []}\n\n'
                'data: {"type": "done", "is_grounded": true}\n\n',
            }
        },
    },
    **INVALID,
}


class ChatTurn(BaseModel):
    model_config = forbid_other_fields({"message": "What is the gate code?"})

    message: str = Field(description="The user's message; 1 to 32,000 characters after trimming.")
    session_id: str | None = Field(None, description="The conversation; by default the chat's own.")
    as_typed: bool = Field(False, description=AS_TYPED)
    rag_enabled: bool | None = Field(None, description=RAG_ENABLED)


@room_router.post(
    "/chat/{chat_id}/stream", responses=_ROOM_STREAM, response_class=EventStream, status_code=200
)
async def stream_chat_room(
    chat_id: str, body: ChatTurn, request: Request, engine: EngineDep, caller: CallerDep
) -> EventStream:
    """Answer from the documents of this chat (`POST /chat/{chat_id}/documents`), as events."""
    collection = check_collection(f"chat_{chat_id}")
    caller.require_read(collection)
    session_id = body.session_id or chat_id
    events = engine.stream(
        body.message,
        collection=collection,
        rag_enabled=body.rag_enabled,
        top_k=engine.settings.refine.chat_top_k,
        session_id=session_id,
        is_chat=True,
        as_typed=body.as_typed,
        owner=caller.owner,
        request_id=request.state.request_id,
    )
    skin = ChatRoomSkin(session_id)
    return EventStream(request, shape_events(await start_events(request, events), skin))
