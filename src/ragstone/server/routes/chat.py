"""`/api/chat`, `/api/chat/stream` and `/api/chat/compare`: a chat about the documents, in the chat
style (`[document:chunk]`); without documents it is passed on untouched."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.engine import Engine
from ragstone.errors import InputError
from ragstone.events import Event, Finished, SideEvent, SideName, SourcesFound, Token
from ragstone.query.request import QueryOptions, check_collection
from ragstone.server.auth import Caller, CallerDep
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import (
    CitationReply,
    ClaimReply,
    Problem,
    QueryMetadata,
    SourceReply,
    Text,
)
from ragstone.server.sse import EVENTS, EventStream, begun, while_here
from ragstone.types import DEFAULT_COLLECTION, Answer, Comparison, Message

router = APIRouter(prefix="/api/chat", tags=["chat"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": Problem, "description": "The request cannot be used."},
    502: {"model": Problem, "description": "No provider is able to answer."},
}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`sources`, then `token` as they are written, then `done` with the same "
        "`data` as the reply without a stream. Of two answers each event but the last says whose "
        "it is: `side` is `baseline` or `enhanced`.",
        "content": {
            EVENTS: {
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
CompareParam = Annotated[bool | None, Query(description="Two answers: before and after refine.")]


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: Text


class ChatRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    messages: list[ChatMessage] = Field(min_length=1, description="The last one is the question.")
    rag_enabled: bool | None = Field(None, description="false: a plain chat without documents.")
    model: str | None = Field(None, min_length=1, max_length=200, description="Who shall write.")
    temperature: float | None = Field(None, ge=0, le=2)
    compare: bool | None = Field(None, description="Two answers: before and after refine.")
    collection: str = Field(DEFAULT_COLLECTION, description="Where to look.")
    top_k: int | None = Field(None, ge=1, le=1000, description="How many sources to read.")

    def all_messages(self) -> tuple[Message, ...]:
        return tuple(Message(one.role, one.content) for one in self.messages)

    def question(self) -> str:
        last = self.messages[-1]
        if last.role != "user":
            raise InputError(
                "The last message is not the user's.", hint="Put the question at the end."
            )
        return last.content


class Choice(BaseModel):
    index: int = 0
    message: ChatMessage
    finish_reason: str = "stop"

    @classmethod
    def of(cls, answer: Answer) -> Self:
        return cls(message=ChatMessage(role="assistant", content=answer.text))


class ChatData(BaseModel):
    choices: list[Choice]
    sources: list[SourceReply]
    citations: list[CitationReply]
    claims: list[ClaimReply]
    query_id: str
    status: str
    rag_enabled: bool
    is_grounded: bool
    groundedness_score: float
    confidence: float
    degraded: list[str]
    metadata: QueryMetadata

    @classmethod
    def of(cls, answer: Answer, *, rag_enabled: bool) -> Self:
        return cls(
            choices=[Choice.of(answer)],
            sources=[SourceReply.of(source) for source in answer.sources],
            citations=[CitationReply.of(one) for one in answer.citations],
            claims=[ClaimReply.of(one) for one in answer.claims],
            query_id=answer.query_id,
            status=answer.status,
            rag_enabled=rag_enabled,
            is_grounded=answer.is_grounded,
            groundedness_score=answer.groundedness_score,
            confidence=answer.confidence,
            degraded=list(answer.degraded),
            metadata=QueryMetadata.of(answer),
        )


class Side(BaseModel):
    choices: list[Choice]
    chunks_used: int
    chunks_scores: list[float]
    sources: list[SourceReply]
    citations: list[CitationReply]
    claims: list[ClaimReply]
    is_grounded: bool
    groundedness_score: float
    confidence: float
    status: str

    @classmethod
    def of(cls, answer: Answer, **more: Any) -> Self:
        whole = ChatData.of(answer, rag_enabled=True)
        shared = {name: getattr(whole, name) for name in ChatData.model_fields
                  if name in Side.model_fields}  # fmt: skip
        scores = [source.hit.score for source in answer.sources]
        return cls(chunks_used=len(scores), chunks_scores=scores, **shared, **more)


class EnhancedSide(Side):
    filter_threshold: float
    reranker_enabled: bool


class ComparedData(BaseModel):
    query_id: str
    baseline: Side
    enhanced: EnhancedSide

    @classmethod
    def of(cls, found: Comparison, engine: Engine) -> Self:
        refine = engine.settings.refine
        enhanced = EnhancedSide.of(
            found.enhanced,
            filter_threshold=refine.min_similarity,
            reranker_enabled=refine.reranker_enabled,
        )
        return cls(
            query_id=found.enhanced.query_id, baseline=Side.of(found.baseline), enhanced=enhanced
        )


class ChatReply(BaseModel):
    success: Literal[True] = True
    data: ChatData | ComparedData


class CompareReply(BaseModel):
    success: Literal[True] = True
    data: ComparedData


@router.post("", responses=_PROBLEMS)
async def chat(
    body: ChatRequest, request: Request, caller: CallerDep, compare: CompareParam = None
) -> ChatReply:
    """Answer the last message from the documents, or with `rag_enabled: false` just pass all of
    them on."""
    engine = engine_of(request)
    with_documents = _with_documents(body, engine)
    if with_documents and _compared(body, compare, engine):
        return ChatReply(data=await _both(body, request, caller))
    answer = await while_here(request, _last(_events(body, request, caller)))
    return ChatReply(data=ChatData.of(answer, rag_enabled=with_documents))


@router.post("/compare", responses=_PROBLEMS)
async def compare(body: ChatRequest, request: Request, caller: CallerDep) -> CompareReply:
    """Two answers from one retrieval, written side by side: from its raw hits, and from what the
    filter, the reranker and the selection made of them."""
    return CompareReply(data=await _both(body, request, caller))


@router.post("/stream", responses=_STREAM, response_class=EventStream, status_code=200)
async def chat_stream(
    body: ChatRequest, request: Request, caller: CallerDep, compare: CompareParam = None
) -> EventStream:
    """The same as events. Retrieval is done before the first token; two answers come side by side,
    as they are written."""
    engine = engine_of(request)
    with_documents = _with_documents(body, engine)
    if with_documents and _compared(body, compare, engine):
        options = _options(body, request, caller)
        sides = await begun(request, engine.compare_stream(body.question(), **options))
        return EventStream(request, _both_shaped(sides, engine))
    events = await begun(request, _events(body, request, caller))
    return EventStream(request, _shaped(events, with_documents=with_documents))


def _with_documents(body: ChatRequest, engine: Engine) -> bool:
    return engine.settings.retrieve.enabled if body.rag_enabled is None else body.rag_enabled


def _compared(body: ChatRequest, param: bool | None, engine: Engine) -> bool:
    """The address decides, then the body, then RAG_COMPARE_MODE."""
    asked = body.compare if param is None else param
    return engine.settings.server.compare_mode if asked is None else asked


def _events(body: ChatRequest, request: Request, caller: Caller) -> AsyncGenerator[Event, None]:
    engine = engine_of(request)
    if not _with_documents(body, engine):
        return engine.chat(
            body.all_messages(),
            temperature=body.temperature,
            model=body.model,
            request_id=request.state.request_id,
        )
    return engine.stream(body.question(), **_options(body, request, caller))


async def _both(body: ChatRequest, request: Request, caller: Caller) -> ComparedData:
    engine = engine_of(request)
    work = engine.compare(body.question(), **_options(body, request, caller))
    return ComparedData.of(await while_here(request, work), engine)


def _options(body: ChatRequest, request: Request, caller: Caller) -> QueryOptions:
    caller.require_read(body.collection)
    return QueryOptions(
        collection=body.collection,
        history=body.all_messages()[:-1],
        top_k=body.top_k or engine_of(request).settings.refine.chat_top_k,
        temperature=body.temperature,
        model=body.model,
        citation_style="chunk",
        owner=caller.owner,
        request_id=request.state.request_id,
    )


async def _last(events: AsyncGenerator[Event, None]) -> Answer:
    answer: Answer | None = None
    async for event in events:
        if isinstance(event, Finished):
            answer = event.answer
    assert answer is not None, "a stream always ends with Finished"
    return answer


async def _shaped(
    events: AsyncGenerator[Event, None], *, with_documents: bool
) -> AsyncGenerator[dict[str, Any], None]:
    async for event in events:
        if isinstance(event, Finished):
            yield _done(ChatData.of(event.answer, rag_enabled=with_documents))
        else:
            yield _on_the_way(event)


async def _both_shaped(
    sides: AsyncGenerator[SideEvent, None], engine: Engine
) -> AsyncGenerator[dict[str, Any], None]:
    answers: dict[SideName, Answer] = {}
    async for one in sides:
        if isinstance(one.event, Finished):
            answers[one.side] = one.event.answer
        else:
            yield {**_on_the_way(one.event), "side": one.side}
    yield _done(ComparedData.of(Comparison(**answers), engine))


def _on_the_way(event: SourcesFound | Token) -> dict[str, Any]:
    if isinstance(event, Token):
        return {"type": "token", "content": event.text}
    sources = [SourceReply.of(source).model_dump() for source in event.sources]
    return {"type": "sources", "sources": sources}


def _done(data: BaseModel) -> dict[str, Any]:
    return {"type": "done", "success": True, "data": data.model_dump(mode="json")}


chat_room_router = APIRouter(tags=["chat"])

_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "`token` as they are written, then `sources`, then `done`.",
        "content": {
            EVENTS: {
                "schema": {"type": "string"},
                "example": 'data: {"type": "token", "content": "Six months."}\n\n'
                'data: {"type": "sources", "sources": []}\n\n'
                'data: {"type": "done", "is_grounded": true}\n\n',
            }
        },
    },
    422: {"model": Problem, "description": "The request cannot be used."},
}


class ChatTurn(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"message": "What is the gate code?"}]},
    )

    message: str = Field(description="What the user says; 3 to 1,000 characters after trimming.")
    session_id: str | None = Field(None, description="The conversation; the chat's own if absent.")


@chat_room_router.post(
    "/chat/{chat_id}/stream", responses=_REPLIES, response_class=EventStream, status_code=200
)
async def stream_chat_room(
    chat_id: str, body: ChatTurn, request: Request, caller: CallerDep
) -> EventStream:
    """Answer from the documents of this chat (`POST /chat/{chat_id}/documents`), as events."""
    collection = check_collection(f"chat_{chat_id}")
    caller.require_read(collection)
    engine = engine_of(request)
    session_id = body.session_id or chat_id
    events = engine.stream(
        body.message,
        collection=collection,
        top_k=engine.settings.refine.chat_top_k,
        session_id=session_id,
        owner=caller.owner,
        request_id=request.state.request_id,
    )
    return EventStream(request, _shape_chat_room_event(await begun(request, events), session_id))


async def _shape_chat_room_event(
    events: AsyncGenerator[Event, None], session_id: str
) -> AsyncGenerator[dict[str, Any], None]:
    sources: list[dict[str, Any]] = []
    async for event in events:
        if isinstance(event, SourcesFound):
            sources = [SourceReply.of(source).model_dump() for source in event.sources]
        elif isinstance(event, Token):
            yield {"type": "token", "content": event.text}
        elif isinstance(event, Finished):
            answer = event.answer
            yield {"type": "sources", "sources": sources}
            yield {
                "type": "done",
                "is_grounded": answer.is_grounded,
                "groundedness_score": answer.groundedness_score,
                "confidence": answer.confidence,
                "status": answer.status,
                "answer": answer.text,
                "citations": [CitationReply.of(one).model_dump() for one in answer.citations],
                "degraded": list(answer.degraded),
                "detected_intent": answer.detected_intent,
                "query_id": answer.query_id,
                "session_id": session_id,
            }
