"""Chat and embed with OpenAI, or any server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ragstone.calls import StopReason, Usage
from ragstone.plugins import PartContext
from ragstone.providers.capabilities import recognize_service
from ragstone.providers.chat import ChatProvider, Request, build_provider, format_messages
from ragstone.providers.embed import RemoteEmbedder, build_remote
from ragstone.providers.http import Endpoint, HttpWire
from ragstone.providers.retry import (
    BlockedError,
    CutStreamError,
    Pieces,
    Service,
    StatusError,
    Stop,
    Thought,
)
from ragstone.settings import Settings

DEFAULT_URL = "https://api.openai.com/v1"
SERVICE = Service("OpenAI", "OPENAI")
_STOP_REASONS: dict[str, StopReason] = {
    "length": "length",
    "max_output_tokens": "length",
    "content_filter": "blocked",
}


@dataclass(frozen=True, slots=True)
class OpenAIWire(HttpWire):
    """Stream `POST /chat/completions`, or `/responses` for a model that has nothing else."""

    name: str = "openai"
    kind: str = "openai"

    def locate(self, path: str, model: str) -> str:
        """Return the path of a call, relative to the base URL."""
        return path

    async def stream_pieces(self, request: Request) -> Pieces:
        if request.capabilities.api == "responses":
            async for piece in self._stream_responses(request):
                yield piece
            return
        path = self.locate("chat/completions", request.model)
        known, finished = request.capabilities, ""
        usage: Usage | None = None
        async for event in self.endpoint.stream_events(path, build_body(request)):
            _refuse_error(event)
            for choice in event.get("choices") or ():
                finished = choice.get("finish_reason") or finished
                delta = choice.get("delta") or {}
                if any(delta.get(name) for name in known.reasoning_fields):
                    yield Thought()
                if content := delta.get("content"):
                    yield content
            if counts := event.get("usage"):
                usage = _read_usage(counts)
        if not finished:
            raise CutStreamError
        if usage is not None:
            yield usage
        yield Stop(_STOP_REASONS.get(finished, "stop"))

    async def _stream_responses(self, request: Request) -> Pieces:
        path = self.locate("responses", request.model)
        async for event in self.endpoint.stream_events(path, build_responses_body(request)):
            _refuse_error(event)
            kind = str(event.get("type"))
            if kind == "response.output_text.delta":
                yield event["delta"]
            elif kind in ("response.completed", "response.incomplete"):
                reply = event["response"]
                if counts := reply.get("usage"):
                    details = counts.get("input_tokens_details") or {}
                    yield Usage(
                        counts["input_tokens"],
                        counts["output_tokens"],
                        cached_tokens=details.get("cached_tokens") or 0,
                        cache_writes=details.get("cache_write_tokens") or 0,
                    )
                reason = (reply.get("incomplete_details") or {}).get("reason")
                yield Stop(_STOP_REASONS.get(str(reason), "stop"))
                return
            elif kind == "response.failed":
                error = event["response"].get("error") or {}
                raise StatusError(500, None, str(error.get("message", error)))
            else:
                yield Thought()
        raise CutStreamError


def _refuse_error(event: Mapping[str, Any]) -> None:
    """Raise an error that comes inside a stream, as OpenRouter and llama.cpp send it."""
    error = event.get("error")
    if error or event.get("type") == "error":
        found = error if isinstance(error, dict) else {"message": error or event.get("message")}
        code = found.get("code")
        message = str(found.get("message"))
        if code == "content_filter":
            raise BlockedError(message)
        raise StatusError(code if isinstance(code, int) and code >= 400 else 500, None, message)


def _read_usage(counts: Mapping[str, Any]) -> Usage:
    details = counts.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") or counts.get("prompt_cache_hit_tokens") or 0
    cost = counts.get("cost")  # OpenRouter names the price of a call
    return Usage(
        int(counts.get("prompt_tokens") or 0),
        int(counts.get("completion_tokens") or 0),
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
        cached_tokens=int(cached),
        cache_writes=int(details.get("cache_write_tokens") or 0),
    )


def build_body(request: Request) -> dict[str, Any]:
    """Build the body of a chat completion with the fields that the model accepts."""
    known = request.capabilities
    body: dict[str, Any] = {
        "model": request.model,
        "messages": format_messages(request),
        "stream": True,
        known.token_field: request.token_limit,
    }
    if known.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if known.temperature:
        body["temperature"] = request.temperature
    if request.effort:
        body |= _build_effort(known.effort_field, request.effort, known.off)
    if request.schema is not None and known.json != "none":
        kind: dict[str, Any] = {"type": "json_object"}
        if known.json == "schema":
            schema = {"name": "reply", "schema": dict(request.schema)}
            kind = {"type": "json_schema", "json_schema": schema}
        body["response_format"] = kind
    return body


def _build_effort(field: str, effort: str, off: str) -> dict[str, Any]:
    word = off or "none" if effort == "off" else effort
    if field == "reasoning":  # OpenRouter
        return {"reasoning": {"effort": word}}
    if field == "chat_template_kwargs":  # vLLM and llama.cpp
        return {"chat_template_kwargs": {"enable_thinking": effort != "off"}}
    return {field: word}


def build_responses_body(request: Request) -> dict[str, Any]:
    """Build the body of a call to the Responses API, which stores nothing."""
    known = request.capabilities
    system = "\n\n".join(one.content for one in request.messages if one.role == "system")
    body: dict[str, Any] = {
        "model": request.model,
        "input": [one for one in format_messages(request) if one["role"] != "system"],
        "max_output_tokens": request.token_limit,
        "store": False,
        "stream": True,
    }
    if system:
        body["instructions"] = system
    if known.temperature:
        body["temperature"] = request.temperature
    if request.effort:
        body["reasoning"] = {
            "effort": known.off or "none" if request.effort == "off" else request.effort
        }
    if request.schema is not None and known.json == "schema":
        body["text"] = {
            "format": {"type": "json_schema", "name": "reply", "schema": dict(request.schema)}
        }
    return body


def build(context: PartContext) -> ChatProvider:
    options = context.settings.service("openai").override(context.settings.provider)
    url = options.base_url or DEFAULT_URL
    kind = recognize_service(url)
    service = SERVICE if kind == "openai" else replace(SERVICE, title="The model server")
    wire = OpenAIWire(Endpoint(service, url, build_headers(options.key)), kind=kind)
    return build_provider(
        wire, options, context.settings, model="gpt-6-luna", fast_model="gpt-5.6-luna"
    )


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddings:
    """Embed with `POST /embeddings`."""

    service: ClassVar[Service] = replace(SERVICE, prefix="EMBEDDING")

    def path(self, model: str) -> str:
        return "embeddings"

    def body(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        return body | ({"dimensions": dimension} if dimension else {})

    def vectors(self, reply: Mapping[str, Any]) -> list[list[float]]:
        rows = sorted(reply["data"], key=lambda row: int(row["index"]))
        return [row["embedding"] for row in rows]


def build_embedder(settings: Settings) -> RemoteEmbedder:
    return build_remote(
        OpenAIEmbeddings(),
        settings,
        name="openai",
        model="text-embedding-3-small",
        url=DEFAULT_URL,
        headers=build_headers(settings.embed.key(settings.service("openai").key)),
        max_tokens=8191,
    )


def build_headers(key: str) -> dict[str, str]:
    """Return the header with the key; a local server needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}
