"""A server that speaks four protocols over real HTTP, and misbehaves as it is told.

It stands in for OpenAI, Anthropic, Google and Ollama: same paths, same events, same errors. When it
is strict, it refuses every request that the documentation of the vendor does not allow.
"""

from __future__ import annotations

import asyncio
import json
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..patience import LONG_S, until
from .vendors import find_fault

WORDS = ["The gate ", "is green ", "[Sou", "rce 1]."]


@dataclass(frozen=True)
class Reply:
    words: list[str]
    read: int
    written: int
    cached: int
    stop: str
    thoughts: str
    thinks_in: str

    @property
    def texts(self) -> list[str]:
        """The words, after the thoughts where these stand in the text."""
        inline = self.thoughts and self.thinks_in == "inline"
        return ["<th", f"ink>{self.thoughts}</think>\n", *self.words] if inline else self.words

    @property
    def apart(self) -> list[str]:
        """The thoughts that have a field of their own."""
        return self.thoughts.split() if self.thinks_in != "inline" else []


@dataclass
class StandIn:
    """What it does next: each call takes one behaviour from the list, then it behaves well."""

    behaviours: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=lambda: list(WORDS))
    calls: list[dict[str, Any]] = field(default_factory=list)
    cancelled: int = 0
    silent: int = 0
    """How many calls wait for a first word that does not come."""
    present: int = 0
    """How many calls wait for a second one, see `meet`."""
    has_met: bool = False
    go: threading.Event = field(default_factory=threading.Event)
    """Set it, and a `held` call writes on after its first words."""
    url: str = ""
    is_strict: bool = False
    """Refuse what the documentation of the vendor does not allow, see `vendors.py`."""
    window: int = 0
    """Refuse prompts of more tokens, four characters each; 0 accepts all."""
    counts_tokens: bool = False
    """Count what is read and written, in place of 100 and 20."""
    refused: list[str] = field(default_factory=list)
    counted: list[tuple[int, int, int]] = field(default_factory=list)
    """What was counted so far: tokens read, written, and read from the cache."""
    thoughts: str = ""
    """What the model thinks before it answers."""
    thinks_in: str = "inline"
    """Where its thoughts go: `inline`, or the name of a field."""
    say: Callable[[dict[str, Any]], list[str]] | None = None
    """Chooses the words for a request."""

    async def answer(self, request: Request) -> Response:  # noqa: PLR0911  a behaviour a line
        body, raw = await request.json(), await request.body()
        call = {"path": request.url.path, "body": body, "headers": request.headers, "raw": raw,
                "client": request.client}  # fmt: skip
        self.calls.append(call)
        if self.is_strict and (fault := find_fault(request.url.path, body, request.headers)):
            self.refused.append(fault)
            return JSONResponse({"error": {"message": fault, "code": 400}}, 400)
        if self.window and (fault := _measure(request.url.path, body, self.window)):
            self.refused.append(fault["message"])
            return JSONResponse({"error": fault}, 400)
        behaviour = self.behaviours.pop(0) if self.behaviours else "well"
        if refusal := _refuse(behaviour):
            return refusal
        if reply := _embedded(request.url.path, body, behaviour):
            return JSONResponse(reply)
        media = "application/x-ndjson" if "/api/chat" in request.url.path else "text/event-stream"
        if behaviour == "invalid":
            return Response("data: {this is no json\n\n", media_type=media)
        if behaviour == "blocked" and "Generate" in request.url.path:
            feedback = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
            return Response(f"data: {json.dumps(feedback)}\r\n\r\n", media_type=media)
        lines = _protocol(request.url.path)(self._reply(body, behaviour))
        return StreamingResponse(self._sent(lines, behaviour), media_type=media)

    def _reply(self, body: dict[str, Any], behaviour: str) -> Reply:
        words = self.say(body) if self.say else self.words
        words = words if behaviour != "empty" else []
        tokens = (100, 20, 0)
        if self.counts_tokens:
            read = len(json.dumps(body)) // 4
            tokens = (read, sum(map(len, words)) // 4 + 1, read // 3)
            self.counted.append(tokens)
        stop = behaviour if behaviour in ("length", "blocked") else "stop"
        return Reply(words, *tokens, stop, self.thoughts, self.thinks_in)

    async def _sent(self, lines: list[str], behaviour: str) -> AsyncIterator[str]:
        try:
            if behaviour == "slow":
                self.silent += 1
                await asyncio.sleep(2 * LONG_S)
            if behaviour == "meet":
                await self._meet()
            for place, line in enumerate(lines):
                if behaviour == "held" and place == len(lines) // 2:
                    await until(self.go.is_set)
                if behaviour == "cut" and place == len(lines) // 2:
                    return
                yield line
                await asyncio.sleep(0.3 if behaviour == "drip" else 0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def _meet(self) -> None:
        """Wait until another call does the same."""
        self.present += 1
        try:
            self.has_met |= self.present == 2
            await until(lambda: self.has_met)
        finally:
            self.present -= 1


def _measure(path: str, body: dict[str, Any], window: int) -> dict[str, Any] | None:
    """What each vendor says about a prompt that is too long. Ollama says nothing: it cuts it."""
    texts = json.dumps([body.get(name) for name in ("messages", "system", "contents", "input")])
    tokens = len(texts) // 4
    limit = body.get("options", {}).get("num_ctx", window)
    if tokens <= min(window, limit):
        return None
    if path.endswith("/v1/messages"):
        return {"type": "invalid_request_error",
                "message": f"prompt is too long: {tokens} tokens > {window} maximum"}  # fmt: skip
    if "Generate" in path:
        return {"code": 400, "status": "INVALID_ARGUMENT",
                "message": f"The input token count ({tokens}) exceeds the maximum number of "
                f"tokens allowed ({window})."}  # fmt: skip
    if body.get("model") == "on-llama.cpp":
        return {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": tokens,
                "n_ctx": window, "message": "the request exceeds the available context size. try "
                "increasing the context size or enable context shift"}  # fmt: skip
    return {"code": "context_length_exceeded", "param": "messages",
            "message": f"This model's maximum context length is {window} tokens. However, your "
            f"messages resulted in {tokens} tokens."}  # fmt: skip


def _refuse(behaviour: str) -> Response | None:
    if behaviour.isdigit():
        headers = {"retry-after": "0.05"} if behaviour == "429" else {}
        message = "too many tokens per minute" if behaviour == "429" else "told to fail"
        error = {"error": {"message": message, "code": int(behaviour)}}
        return JSONResponse(error, int(behaviour), headers)
    if behaviour == "long wait":
        return JSONResponse({"error": {"message": "busy"}}, 429, {"retry-after": "600"})
    return None


def _embedded(path: str, body: dict[str, Any], behaviour: str) -> dict[str, Any] | None:
    """Vectors of 8 numbers, not of length 1; out of order where the protocol allows it."""
    texts = body.get("input") or [
        one["content"]["parts"][0]["text"] for one in body.get("requests") or ()
    ]
    if not texts or behaviour == "invalid" or path.endswith("/responses"):
        return None
    if not all(text.strip() for text in texts):
        return {"error": "empty input"}
    size = body.get("dimensions") or (body.get("requests") or [{}])[0].get("outputDimensionality")
    rows = [[float(zlib.crc32(f"{text}{n}".encode()) % 1000) - 500 for n in range(size or 8)]
            for text in texts]  # fmt: skip
    rows = rows[:-1] if behaviour == "cut" else [] if behaviour == "empty" else rows
    if path.endswith("/embeddings"):
        numbered = [{"object": "embedding", "index": n, "embedding": row}
                    for n, row in enumerate(rows)]  # fmt: skip
        return {"object": "list", "data": numbered[::-1], "usage": {"prompt_tokens": 1}}
    if path.endswith("/api/embed"):
        return {"model": "m", "embeddings": rows}
    return {"embeddings": [{"values": row} for row in rows]}


def _protocol(path: str) -> Any:
    if path.endswith("/chat/completions"):
        return _openai
    if path.endswith("/responses"):
        return _responses
    if path.endswith("/v1/messages"):
        return _anthropic
    return _ollama if path.endswith("/api/chat") else _google


def _openai(reply: Reply) -> list[str]:
    def chunk(delta: dict[str, str], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return f"data: {json.dumps({**body, 'choices': [choice], **more})}\n\n"

    usage = {"prompt_tokens": reply.read, "completion_tokens": reply.written,
             "total_tokens": reply.read + reply.written,
             "prompt_tokens_details": {"cached_tokens": reply.cached}}  # fmt: skip
    last = chunk({}, {"blocked": "content_filter"}.get(reply.stop, reply.stop))
    end = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
           "choices": [], "usage": usage}  # fmt: skip
    thoughts = [chunk({reply.thinks_in: one}) for one in reply.apart]
    words = [chunk({"content": word}) for word in reply.texts]
    return [*thoughts, *words, last, f"data: {json.dumps(end)}\n\n", "data: [DONE]\n\n"]


def _responses(reply: Reply) -> list[str]:
    def event(kind: str, **body: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **body})}\n\n"

    usage = {"input_tokens": reply.read, "output_tokens": reply.written,
             "input_tokens_details": {"cached_tokens": reply.cached}}  # fmt: skip
    kind, details = "completed", None
    if reply.stop == "length":
        kind, details = "incomplete", {"reason": "max_output_tokens"}
    end = {"status": kind, "usage": usage, "incomplete_details": details}
    return [event("response.created", response={}),
            *(event("response.output_text.delta", delta=word) for word in reply.words),
            event(f"response.{kind}", response=end)]  # fmt: skip


def _anthropic(reply: Reply) -> list[str]:
    def event(kind: str, **body: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **body})}\n\n"

    def delta(kind: str, name: str, text: str) -> str:
        return event("content_block_delta", index=0, delta={"type": kind, name: text})

    usage = {"input_tokens": reply.read - reply.cached, "output_tokens": 1,
             "cache_read_input_tokens": reply.cached, "cache_creation_input_tokens": 0}  # fmt: skip
    message = {"id": "1", "type": "message", "role": "assistant", "content": [], "model": "m",
               "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
    start = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    thoughts = [delta("thinking_delta", "thinking", one) for one in reply.thoughts.split()]
    reason = {"stop": "end_turn", "length": "max_tokens", "blocked": "refusal"}[reply.stop]
    end = {"stop_reason": reason, "stop_sequence": None}
    return [event("message_start", message=message), start, *thoughts,
            *(delta("text_delta", "text", word) for word in reply.words),
            event("content_block_stop", index=0),
            event("message_delta", delta=end, usage={"output_tokens": reply.written}),
            event("message_stop")]  # fmt: skip


def _google(reply: Reply) -> list[str]:
    usage = {"promptTokenCount": reply.read, "candidatesTokenCount": reply.written - 1,
             "thoughtsTokenCount": 1, "cachedContentTokenCount": reply.cached}  # fmt: skip

    def chunk(text: str, *, thought: bool = False, **more: Any) -> str:
        parts = [{"text": text, **({"thought": True} if thought else {})}]
        part = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
        return f"data: {json.dumps({'candidates': [part], 'usageMetadata': usage})}\r\n\r\n"

    thoughts = [chunk(one, thought=True) for one in reply.thoughts.split()]
    reason = {"length": "MAX_TOKENS", "blocked": "SAFETY"}.get(reply.stop, "STOP")
    return [*thoughts, *(chunk(word) for word in reply.words), chunk("", finishReason=reason)]


def _ollama(reply: Reply) -> list[str]:
    def line(text: str, *, done: bool = False, thinking: str = "", **more: Any) -> str:
        body = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": done, **more}
        message = {"role": "assistant", "content": text}
        message |= {"thinking": thinking} if thinking else {}
        return json.dumps({**body, "message": message}) + "\n"

    reason = "length" if reply.stop == "length" else "stop"
    last = line("", done=True, done_reason=reason, prompt_eval_count=reply.read,
                eval_count=reply.written)  # fmt: skip
    thoughts = [line("", thinking=one) for one in reply.apart]
    return [*thoughts, *(line(word) for word in reply.texts), last]


def application(stand_in: StandIn) -> Starlette:
    return Starlette(routes=[Route("/{path:path}", stand_in.answer, methods=["POST"])])


@asynccontextmanager
async def served() -> AsyncIterator[StandIn]:
    stand_in = StandIn()
    config = uvicorn.Config(
        application(stand_in), port=0, log_level="critical", lifespan="off",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  uvicorn has no event to wait for
        await asyncio.sleep(0.005)
    stand_in.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield stand_in
    finally:
        server.should_exit = True
        await task
