"""Chat with the messages API of Anthropic."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ragstone.plugins import PartContext
from ragstone.providers.chat import ChatProvider, CutStreamError, Pieces, Request, build_provider
from ragstone.providers.http import Endpoint, HttpWire
from ragstone.types import Usage

DEFAULT_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class AnthropicWire(HttpWire):
    """Stream `POST /v1/messages`. The system text is a field of its own."""

    name: str = "anthropic"

    async def stream_pieces(self, request: Request) -> Pieces:
        input_tokens = output_tokens = 0
        finished = False
        async for event in self.endpoint.stream_events("v1/messages", _build_body(request)):
            kind = event.get("type")
            if kind == "content_block_delta":
                if text := event["delta"].get("text"):
                    yield text
            elif kind == "message_start":
                input_tokens = event["message"]["usage"]["input_tokens"]
            elif kind == "message_delta":
                output_tokens = event["usage"]["output_tokens"]
            elif kind == "message_stop":
                finished = True
            elif kind == "error":
                raise CutStreamError
        if not finished:
            raise CutStreamError
        yield Usage(input_tokens, output_tokens)


def _build_body(request: Request) -> dict[str, Any]:
    system = [m.content for m in request.messages if m.role == "system"]
    if request.schema is not None:
        schema = json.dumps(request.schema)
        system.append(f"Reply with one JSON value and nothing else. Its schema: {schema}")
    return {
        "model": request.model,
        "system": "\n\n".join(system),
        "messages": [
            {"role": m.role, "content": m.content} for m in request.messages if m.role != "system"
        ],
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "stream": True,
    }


def build(context: PartContext) -> ChatProvider:
    settings = context.settings.provider
    headers = {"x-api-key": settings.key("anthropic"), "anthropic-version": VERSION}
    wire = AnthropicWire(Endpoint("Anthropic", settings.base_url or DEFAULT_URL, headers))
    return build_provider(
        wire, context.settings, model="claude-sonnet-4-5", fast_model="claude-haiku-4-5"
    )
