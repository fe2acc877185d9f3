"""Speak OpenAI's protocol, so that any OpenAI client can chat about the documents:
`POST /v1/chat/completions`, `GET /v1/models`. The model `ragstone/NAME` is the collection NAME."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.engine import Engine
from ragstone.errors import NotFoundError
from ragstone.files import check_collection
from ragstone.query.request import QueryOptions
from ragstone.server.auth import Caller
from ragstone.server.deps import CallerDep, EngineDep, base_url_of
from ragstone.server.events import CompletionSkin, annotate_citations, shape_events
from ragstone.server.openapi import INVALID, Replies
from ragstone.server.schemas import (
    RAG_ENABLED,
    CompletionUsage,
    Problem,
    SentMessage,
    name_finish,
    split_messages,
)
from ragstone.server.sse import EVENT_STREAM, EventStream, run_until_disconnect, start_events
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, Answer

router = APIRouter(prefix="/v1", tags=["openai"])

_MODEL = "ragstone"
_PROBLEMS: Replies = {
    404: {"model": Problem, "description": "There is no such model."},
    **INVALID,
}
_REPLIES: Replies = {200: {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}, **_PROBLEMS}
_EXAMPLE: dict[str, Any] = {
    "model": "ragstone/default",
    "messages": [{"role": "user", "content": "How long is the notice period?"}],
}


class StreamOptions(BaseModel):
    include_usage: bool | None = None


class CompletionRequest(BaseModel):
    """Accept and ignore the options of OpenAI that have no meaning here (`top_p`, `seed`, …)."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_EXAMPLE]})

    model: str = Field(description="`ragstone/COLLECTION`, or `ragstone` for the default one.")
    messages: list[SentMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    n: Literal[1] | None = None
    rag_enabled: bool | None = Field(None, description=RAG_ENABLED)


class UrlCitation(BaseModel):
    start_index: int
    end_index: int
    url: str
    title: str


class Annotation(BaseModel):
    type: Literal["url_citation"]
    url_citation: UrlCitation


class ReplyMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None
    annotations: list[Annotation]


class CompletionChoice(BaseModel):
    index: int = 0
    message: ReplyMessage
    finish_reason: Literal["stop", "length", "content_filter"] = "stop"
    logprobs: None = None


class Completion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage
    searched_as: str = ""
    """Ragstone's own: the whole question that was searched; empty if that is the one typed."""
    cached: bool = False
    """Ragstone's own: true if the answer was taken from the answer cache."""


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "ragstone"


class Models(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


@router.get("/models")
async def list_models(engine: EngineDep, caller: CallerDep) -> Models:
    """List one model for each collection that the caller can read."""
    found = await run_in_thread("store", engine.collections.list_all)
    models = [
        Model(id=f"{_MODEL}/{collection.name}", created=int(collection.created_at))
        for collection in found
        if caller.can_read(collection.name)
    ]
    return Models(data=models)


@router.get("/models/{model:path}", responses=_PROBLEMS)
async def get_model(model: str, engine: EngineDep, caller: CallerDep) -> Model:
    """Describe one model."""
    name = _find_collection(engine, caller, model)
    info = await run_in_thread("store", engine.collections.get, name)
    return Model(id=f"{_MODEL}/{name}", created=int(info.created_at))


@router.post("/chat/completions", responses=_REPLIES, response_model=Completion)
async def complete_chat(
    body: CompletionRequest, request: Request, engine: EngineDep, caller: CallerDep
) -> Completion | EventStream:
    """Answer the last message from the documents of a collection. Citations are annotations that
    give their place in the content and link to the source."""
    collection = await run_in_thread("store", _find_collection, engine, caller, body.model)
    earlier, question = split_messages(body.messages)
    options = QueryOptions(
        collection=collection,
        rag_enabled=body.rag_enabled,
        history=earlier,
        top_k=engine.settings.refine.chat_top_k,
        temperature=body.temperature,
        is_chat=True,
        # An OpenAI client cannot take back a marker that it has received.
        hold_markers=True,
        owner=caller.owner,
        request_id=request.state.request_id,
    )
    base_url = base_url_of(request)
    count_usage = partial(_count_usage, engine, question)
    if body.stream:
        events = await start_events(request, engine.stream(question, **options))
        has_usage = body.stream_options and body.stream_options.include_usage
        skin = CompletionSkin(
            completion_id=f"chatcmpl-{request.state.request_id}",
            model=body.model,
            base_url=base_url,
            count_usage=count_usage if has_usage else None,
        )
        return EventStream(request, shape_events(events, skin), last="[DONE]")
    answer = await run_until_disconnect(request, engine.ask(question, **options))
    annotations = annotate_citations(answer, answer.text, base_url)
    message = ReplyMessage(
        content=answer.text, annotations=[Annotation.model_validate(one) for one in annotations]
    )
    return Completion(
        id=f"chatcmpl-{answer.query_id}",
        created=int(time.time()),
        model=body.model,
        choices=[CompletionChoice(message=message, finish_reason=name_finish(answer))],
        usage=count_usage(answer),
        searched_as=answer.searched_as,
        cached=answer.cached,
    )


def _find_collection(engine: Engine, caller: Caller, model: str) -> str:
    """Return the collection of a model's name."""
    kind, _, name = model.partition("/")
    name = name or DEFAULT_COLLECTION
    known = {*engine.catalog.collections(), DEFAULT_COLLECTION}
    if kind != _MODEL or check_collection(name) not in known or not caller.can_read(name):
        raise NotFoundError(
            f"There is no model '{model}'.", hint="GET /v1/models lists them: ragstone/COLLECTION."
        )
    return name


def _count_usage(engine: Engine, question: str, answer: Answer) -> CompletionUsage:
    """Sum the tokens that the provider counted; if it counts none, use the embedder's tokens."""
    if answer.usage:
        read, written = answer.total_usage.input_tokens, answer.total_usage.output_tokens
    else:
        tokenize = engine.embedder.token_starts
        read = len(tokenize(question))
        read += sum(len(tokenize(source.text)) for source in answer.sources)
        written = len(tokenize(answer.text))
    return CompletionUsage(
        prompt_tokens=read, completion_tokens=written, total_tokens=read + written
    )
