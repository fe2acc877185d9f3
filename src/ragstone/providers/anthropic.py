"""Chat with the messages API of Anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragstone.calls import StopReason, Usage
from ragstone.plugins import PartContext
from ragstone.providers.chat import ChatProvider, Request, build_provider
from ragstone.providers.http import Endpoint, HttpWire
from ragstone.providers.retry import (
    CutStreamError,
    Pieces,
    Service,
    StatusError,
    Stop,
    Thought,
)

DEFAULT_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
_STOP_REASONS: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "blocked",
}
_STATUS = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500}


@dataclass(frozen=True, slots=True)
class AnthropicWire(HttpWire):
    """Stream `POST /v1/messages`. The system text is a field of its own."""

    name: str = "anthropic"
    kind: str = "anthropic"

    async def stream_pieces(self, request: Request) -> Pieces:
        counts: dict[str, Any] = {}
        stopped = ""
        finished = False
        async for event in self.endpoint.stream_events("v1/messages", build_body(request)):
            kind = event.get("type")
            if kind == "content_block_delta":
                if text := event["delta"].get("text"):
                    yield text
                else:  # a thought, or its signature
                    yield Thought()
            elif kind == "message_start":
                counts |= event["message"]["usage"]
            elif kind == "message_delta":
                counts |= event.get("usage") or {}
                stopped = event["delta"].get("stop_reason") or stopped
            elif kind == "message_stop":
                finished = True
            elif kind == "error":
                error = event.get("error") or {}
                status = _STATUS.get(str(error.get("type")), 500)
                raise StatusError(status, None, str(error.get("message", "")))
        if not finished:
            raise CutStreamError
        yield _read_usage(counts)
        yield Stop(_STOP_REASONS.get(stopped, "stop"))


def _read_usage(counts: dict[str, Any]) -> Usage:
    """Add up the tokens: `input_tokens` leaves out what the cache gave or took."""
    read = counts.get("cache_read_input_tokens") or 0
    written = counts.get("cache_creation_input_tokens") or 0
    total = counts.get("input_tokens", 0) + read + written
    return Usage(total, counts.get("output_tokens", 0), cached_tokens=read, cache_writes=written)


def build_body(request: Request) -> dict[str, Any]:
    """Build the body of a call. The documents are in the system text, which may be cached."""
    known = request.capabilities
    system = [one.content for one in request.messages if one.role == "system"]
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [
            {"role": one.role, "content": one.content}
            for one in request.messages
            if one.role != "system"
        ],
        known.token_field: request.token_limit,
        "stream": True,
    }
    if system:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in system]
        if known.caches_on_mark:
            # The first block holds the documents; a summary of the conversation may follow.
            blocks[0]["cache_control"] = {"type": "ephemeral"}
        body["system"] = blocks
    output: dict[str, Any] = {}
    thinks = request.effort not in ("", "off")
    if thinks and known.effort_field == "adaptive":
        body["thinking"] = {"type": "adaptive"}
        output["effort"] = request.effort
    elif thinks:
        budget = known.count_thinking(request.effort)
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif request.effort == "off" and known.off:
        body["thinking"] = {"type": known.off}
    if known.temperature and not thinks:  # with thinking none may be sent
        body["temperature"] = min(request.temperature, 1.0)
    if request.schema is not None and known.json == "schema":
        output["format"] = {"type": "json_schema", "schema": restrict_schema(request.schema)}
    return body | ({"output_config": output} if output else {})


# What a JSON schema may not hold here; the reply is validated all the same.
_REFUSED_KEYWORDS = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "minItems", "maxItems", "default",
})  # fmt: skip


def restrict_schema(schema: Any) -> Any:
    """Return a JSON schema as Anthropic accepts it: closed objects, and no limits of values."""
    if isinstance(schema, list):
        return [restrict_schema(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {
        name: {key: restrict_schema(one) for key, one in value.items()}
        if name in ("properties", "$defs")
        else restrict_schema(value)
        for name, value in schema.items()
        if name not in _REFUSED_KEYWORDS
    }
    return kept | ({"additionalProperties": False} if kept.get("type") == "object" else {})


def build(context: PartContext) -> ChatProvider:
    options = context.settings.service("anthropic").override(context.settings.provider)
    headers = {"anthropic-version": VERSION} | ({"x-api-key": options.key} if options.key else {})
    service = Service("Anthropic", "ANTHROPIC")
    wire = AnthropicWire(Endpoint(service, options.base_url or DEFAULT_URL, headers))
    return build_provider(
        wire, options, context.settings, model="claude-sonnet-5-5", fast_model="claude-haiku-5-5"
    )
