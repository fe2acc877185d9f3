"""Chat and embed with the Gemini API of Google."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragstone.calls import StopReason, Usage
from ragstone.plugins import PartContext
from ragstone.providers.chat import ChatProvider, Request, build_provider
from ragstone.providers.embed import RemoteEmbedder, build_remote
from ragstone.providers.http import Endpoint, HttpWire
from ragstone.providers.retry import (
    BlockedError,
    CutStreamError,
    Pieces,
    Service,
    Stop,
    Thought,
)
from ragstone.settings import Settings

DEFAULT_URL = "https://generativelanguage.googleapis.com"
_BLOCKED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY"}
)


@dataclass(frozen=True, slots=True)
class GoogleWire(HttpWire):
    """Stream `POST /v1beta/models/{model}:streamGenerateContent`."""

    name: str = "google"
    kind: str = "google"

    async def stream_pieces(self, request: Request) -> Pieces:
        path = f"v1beta/models/{request.model}:streamGenerateContent?alt=sse"
        usage: Usage | None = None
        finished = ""
        async for event in self.endpoint.stream_events(path, build_body(request)):
            if reason := (event.get("promptFeedback") or {}).get("blockReason"):
                raise BlockedError(str(reason))
            for candidate in event.get("candidates") or ():
                finished = candidate.get("finishReason") or finished
                for part in (candidate.get("content") or {}).get("parts") or ():
                    yield Thought() if part.get("thought") else part.get("text") or Thought()
            if counts := event.get("usageMetadata"):
                usage = _read_usage(counts)
        if not finished:
            raise CutStreamError
        if finished in _BLOCKED:
            raise BlockedError(finished)
        if usage:
            yield usage
        stop: StopReason = "length" if finished == "MAX_TOKENS" else "stop"
        yield Stop(stop)


def _read_usage(counts: Mapping[str, Any]) -> Usage:
    thoughts = counts.get("thoughtsTokenCount") or 0
    return Usage(
        counts.get("promptTokenCount") or 0,
        (counts.get("candidatesTokenCount") or 0) + thoughts,
        cached_tokens=counts.get("cachedContentTokenCount") or 0,
    )


def build_body(request: Request) -> dict[str, Any]:
    """Build the body of a call. The token limit leaves room for the thoughts."""
    known = request.capabilities
    options: dict[str, Any] = {known.token_field: request.token_limit}
    if known.temperature:
        options["temperature"] = request.temperature
    if request.effort and known.effort_field == "thinkingLevel":
        options["thinkingConfig"] = {"thinkingLevel": request.effort.upper()}
    elif request.effort:
        options["thinkingConfig"] = {"thinkingBudget": known.count_thinking(request.effort)}
    if request.schema is not None and known.json != "none":
        options["responseMimeType"] = "application/json"
        if known.json == "schema":
            options["responseJsonSchema"] = dict(request.schema)
    turns = [
        {"role": "model" if m.role == "assistant" else "user", "parts": [{"text": m.content}]}
        for m in request.messages
        if m.role != "system"
    ]
    system = "\n\n".join(m.content for m in request.messages if m.role == "system")
    body: dict[str, Any] = {"contents": turns, "generationConfig": options}
    return body | ({"systemInstruction": {"parts": [{"text": system}]}} if system else {})


def build(context: PartContext) -> ChatProvider:
    options = context.settings.service("google").override(context.settings.provider)
    headers = {"x-goog-api-key": options.key} if options.key else {}
    endpoint = Endpoint(Service("Google", "GOOGLE"), options.base_url or DEFAULT_URL, headers)
    return build_provider(
        GoogleWire(endpoint),
        options,
        context.settings,
        model="gemini-3.8-flash",
        fast_model="gemini-3.5-flash-lite",
    )


@dataclass(frozen=True, slots=True)
class GoogleEmbeddings:
    """Embed with `POST /v1beta/models/{model}:batchEmbedContents`."""

    service: ClassVar[Service] = Service("Google", "EMBEDDING")

    def path(self, model: str) -> str:
        return f"v1beta/models/{model}:batchEmbedContents"

    def body(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Any]:
        size = {"outputDimensionality": dimension} if dimension else {}
        return {
            "requests": [
                {"model": f"models/{model}", "content": {"parts": [{"text": text}]}, **size}
                for text in texts
            ]
        }

    def vectors(self, reply: Mapping[str, Any]) -> list[list[float]]:
        return [row["values"] for row in reply["embeddings"]]


def build_embedder(settings: Settings) -> RemoteEmbedder:
    headers = {"x-goog-api-key": settings.embed.key(settings.service("google").key)}
    return build_remote(
        GoogleEmbeddings(),
        settings,
        name="google",
        model="gemini-embedding-001",
        url=DEFAULT_URL,
        headers=headers,
        max_tokens=2048,
    )
