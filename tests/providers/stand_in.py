"""A server that speaks four protocols over real HTTP, and misbehaves as it is told.

It stands in for OpenAI, Anthropic, Google and Ollama: same paths, same events, same errors.
"""

from __future__ import annotations

import asyncio
import json
import threading
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..patience import LONG_S, until

WORDS = ["The gate ", "is green ", "[Sou", "rce 1]."]


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

    async def answer(self, request: Request) -> Response:
        body, raw = await request.json(), await request.body()
        call = {"path": request.url.path, "body": body, "headers": request.headers, "raw": raw,
                "client": request.client}  # fmt: skip
        self.calls.append(call)
        behaviour = self.behaviours.pop(0) if self.behaviours else "well"
        if behaviour.isdigit():
            headers = {"retry-after": "0.05"} if behaviour == "429" else {}
            error = {"error": {"message": "told to fail", "code": int(behaviour)}}
            return JSONResponse(error, int(behaviour), headers)
        if behaviour == "long wait":
            return JSONResponse({"error": {"message": "busy"}}, 429, {"retry-after": "600"})
        if reply := _embedded(request.url.path, body, behaviour):
            return JSONResponse(reply)
        media = "application/x-ndjson" if "/api/chat" in request.url.path else "text/event-stream"
        if behaviour == "invalid":
            return Response("data: {this is no json\n\n", media_type=media)
        lines = _protocol(request.url.path)(self.words if behaviour != "empty" else [])
        return StreamingResponse(self._sent(lines, behaviour), media_type=media)

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


def _embedded(path: str, body: dict[str, Any], behaviour: str) -> dict[str, Any] | None:
    """Vectors of 8 numbers, not of length 1; out of order where the protocol allows it."""
    texts = body.get("input") or [
        one["content"]["parts"][0]["text"] for one in body.get("requests") or ()
    ]
    if not texts or behaviour == "invalid":
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
    if path.endswith("/v1/messages"):
        return _anthropic
    return _ollama if path.endswith("/api/chat") else _google


def _openai(words: list[str]) -> list[str]:
    def chunk(delta: dict[str, str], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return f"data: {json.dumps({**body, 'choices': [choice], **more})}\n\n"

    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    last = chunk({}, "stop")
    total = f"data: {json.dumps({'id': '1', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm', 'choices': [], 'usage': usage})}\n\n"  # noqa: E501
    return [*(chunk({"content": word}) for word in words), last, total, "data: [DONE]\n\n"]


def _anthropic(words: list[str]) -> list[str]:
    def event(kind: str, **body: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **body})}\n\n"

    message = {"id": "1", "type": "message", "role": "assistant", "content": [], "model": "m",
               "stop_reason": None, "stop_sequence": None,
               "usage": {"input_tokens": 100, "output_tokens": 1}}  # fmt: skip
    start = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    deltas = [event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
              for word in words]  # fmt: skip
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    return [event("message_start", message=message), start, *deltas,
            event("content_block_stop", index=0),
            event("message_delta", delta=end, usage={"output_tokens": 20}),
            event("message_stop")]  # fmt: skip


def _google(words: list[str]) -> list[str]:
    def chunk(text: str, **more: Any) -> str:
        part = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **more}
        usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
        return f"data: {json.dumps({'candidates': [part], 'usageMetadata': usage})}\r\n\r\n"

    return [*(chunk(word) for word in words), chunk("", finishReason="STOP")]


def _ollama(words: list[str]) -> list[str]:
    def line(text: str, *, done: bool = False, **more: Any) -> str:
        body = {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": done, **more}
        return json.dumps({**body, "message": {"role": "assistant", "content": text}}) + "\n"

    last = line("", done=True, done_reason="stop", prompt_eval_count=100, eval_count=20)
    return [*(line(word) for word in words), last]


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
