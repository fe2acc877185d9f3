"""`POST /chat/{chat_id}/stream`: a chat about its own documents, with a memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.query.options import check_collection
from ragstone.server.auth import CallerDep
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import CitationReply, Problem, SourceReply
from ragstone.server.sse import EVENTS, EventStream, begun
from ragstone.types import Event, Finished, SourcesFound, Token

router = APIRouter(tags=["chat"])

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


@router.post(
    "/chat/{chat_id}/stream", responses=_REPLIES, response_class=EventStream, status_code=200
)
async def chat_stream(
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
    return EventStream(request, _shaped(await begun(request, events), session_id))


async def _shaped(
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
