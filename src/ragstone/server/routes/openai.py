"""`POST /v1/chat/completions` and `GET /v1/models`: OpenAI's protocol, so that any OpenAI client or
chat front end can talk to the documents. The model's name is the collection: `ragstone/NAME`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.engine import Engine
from ragstone.errors import InputError, NotFoundError
from ragstone.events import Event, Finished, Token
from ragstone.query.request import QueryOptions, check_collection
from ragstone.server.auth import Caller, CallerDep
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import Problem, Text
from ragstone.server.sse import EVENTS, EventStream, base_url, begun, url_citations, while_here
from ragstone.types import DEFAULT_COLLECTION, Answer, Message

router = APIRouter(prefix="/v1", tags=["openai"])

_MODEL = "ragstone"
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "There is no such model."},
    422: {"model": Problem, "description": "The request cannot be used."},
}
_REPLIES: dict[int | str, dict[str, Any]] = {
    200: {"content": {EVENTS: {"schema": {"type": "string"}}}},
    **_PROBLEMS,
}
_EXAMPLE: dict[str, Any] = {
    "model": "ragstone/default",
    "messages": [{"role": "user", "content": "How long is the notice period?"}],
}


class TextPart(BaseModel):
    type: Literal["text"]
    text: Text


class CompletionMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]

    def plain(self) -> Message:
        content = self.content
        text = content if isinstance(content, str) else "\n".join(part.text for part in content)
        return Message("system" if self.role == "developer" else self.role, text)


class StreamOptions(BaseModel):
    include_usage: bool | None = None


class CompletionRequest(BaseModel):
    """Options of OpenAI that mean nothing here (`top_p`, `seed`, …) are accepted and not used."""

    model_config = ConfigDict(extra="ignore", json_schema_extra={"examples": [_EXAMPLE]})

    model: str = Field(description="`ragstone/COLLECTION`, or `ragstone` for the default one.")
    messages: list[CompletionMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    n: Literal[1] | None = None


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
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class CompletionUsage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "ragstone"


class Models(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


@router.get("/models")
async def models(request: Request, caller: CallerDep) -> Models:
    """One model for each collection that the caller may read."""
    found = await asyncio.to_thread(engine_of(request).collections.listed)
    return Models(data=[
        Model(id=f"{_MODEL}/{one.name}", created=int(one.created_at))
        for one in found if caller.may_read(one.name)
    ])  # fmt: skip


@router.get("/models/{model:path}", responses=_PROBLEMS)
async def one_model(model: str, request: Request, caller: CallerDep) -> Model:
    """One of them."""
    name = _collection(engine_of(request), caller, model)
    info = await asyncio.to_thread(engine_of(request).collections.get, name)
    return Model(id=f"{_MODEL}/{name}", created=int(info.created_at))


@router.post("/chat/completions", responses=_REPLIES, response_model=Completion)
async def completions(
    body: CompletionRequest, request: Request, caller: CallerDep
) -> Completion | EventStream:
    """Answer the last message from the documents of a collection. Citations are annotations that
    point to their marker in the content and link to the source at its place."""
    engine = engine_of(request)
    collection = await asyncio.to_thread(_collection, engine, caller, body.model)
    *earlier, last = [message.plain() for message in body.messages]
    if last.role != "user":
        raise InputError("The last message is not the user's.", hint="Put the question at the end.")
    options = QueryOptions(
        collection=collection,
        history=earlier,
        top_k=engine.settings.refine.chat_top_k,
        temperature=body.temperature,
        owner=caller.owner,
        request_id=request.state.request_id,
    )
    if body.stream:
        events = await begun(request, engine.stream(last.content, **options))
        return EventStream(request, _chunks(events, body, request), last="[DONE]")
    answer = await while_here(request, engine.ask(last.content, **options))
    return Completion(
        id=f"chatcmpl-{answer.query_id}",
        created=int(time.time()),
        model=body.model,
        choices=[CompletionChoice(message=_message(answer, request))],
        usage=_usage(engine, answer, last.content),
    )


def _collection(engine: Engine, caller: Caller, model: str) -> str:
    """The collection that a model's name stands for."""
    kind, _, name = model.partition("/")
    name = name or DEFAULT_COLLECTION
    known = kind == _MODEL and check_collection(name) in {*engine.catalog.collections(),
                                                          DEFAULT_COLLECTION}  # fmt: skip
    if not (known and caller.may_read(name)):
        raise NotFoundError(
            f"There is no model '{model}'.", hint="GET /v1/models lists them: ragstone/COLLECTION."
        )
    return name


def _message(answer: Answer, request: Request) -> ReplyMessage:
    found = url_citations(answer, answer.text, base_url(request))
    return ReplyMessage(
        content=answer.text, annotations=[Annotation.model_validate(one) for one in found]
    )


async def _chunks(
    events: AsyncGenerator[Event, None], body: CompletionRequest, request: Request
) -> AsyncGenerator[dict[str, Any], None]:
    head = {"id": f"chatcmpl-{request.state.request_id}", "object": "chat.completion.chunk",
            "created": int(time.time()), "model": body.model}  # fmt: skip

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return {**head, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    content = ""
    async for event in events:
        if isinstance(event, Token):
            content += event.text
            yield chunk({"content": event.text})
        elif isinstance(event, Finished):
            answer = event.answer
            found = url_citations(answer, content, base_url(request))
            yield chunk({"annotations": found}, "stop")
            if body.stream_options and body.stream_options.include_usage:
                question = body.messages[-1].plain().content
                usage = _usage(engine_of(request), answer, question)
                yield {**head, "choices": [], "usage": usage.model_dump()}


def _usage(engine: Engine, answer: Answer, question: str) -> CompletionUsage:
    """What the provider counted; for one that counts nothing, by the embedder's tokens."""
    if answer.usage:
        read = sum(one.input_tokens for one in answer.usage)
        written = sum(one.output_tokens for one in answer.usage)
    else:
        count = engine.embedder.token_starts
        read = len(count(question)) + sum(len(count(source.text)) for source in answer.sources)
        written = len(count(answer.text))
    return CompletionUsage(
        prompt_tokens=read, completion_tokens=written, total_tokens=read + written
    )
