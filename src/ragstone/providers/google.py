"""Chat and embed with the Gemini API of Google."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragstone.plugins import PartContext
from ragstone.providers.chat import ChatProvider, CutStreamError, Pieces, Request, build_provider
from ragstone.providers.embed import RemoteEmbedder, build_remote
from ragstone.providers.http import Endpoint, HttpWire
from ragstone.settings import Settings
from ragstone.types import Usage

DEFAULT_URL = "https://generativelanguage.googleapis.com"


@dataclass(frozen=True, slots=True)
class GoogleWire(HttpWire):
    """Stream `POST /v1beta/models/{model}:streamGenerateContent`."""

    name: str = "google"

    async def stream_pieces(self, request: Request) -> Pieces:
        path = f"v1beta/models/{request.model}:streamGenerateContent?alt=sse"
        usage: Usage | None = None
        finished = False
        async for event in self.endpoint.stream_events(path, _build_body(request)):
            for candidate in event.get("candidates") or ():
                finished = finished or bool(candidate.get("finishReason"))
                for part in (candidate.get("content") or {}).get("parts") or ():
                    if part.get("text"):
                        yield part["text"]
            if counts := event.get("usageMetadata"):
                usage = Usage(
                    counts.get("promptTokenCount", 0), counts.get("candidatesTokenCount", 0)
                )
        if not finished:
            raise CutStreamError
        if usage:
            yield usage


def _build_body(request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {
        "temperature": request.temperature,
        "maxOutputTokens": request.max_tokens,
    }
    if request.schema is not None:
        options |= {
            "responseMimeType": "application/json",
            "responseJsonSchema": dict(request.schema),
        }
    turns = [
        {"role": "model" if m.role == "assistant" else "user", "parts": [{"text": m.content}]}
        for m in request.messages
        if m.role != "system"
    ]
    system = "\n\n".join(m.content for m in request.messages if m.role == "system")
    body: dict[str, Any] = {"contents": turns, "generationConfig": options}
    return body | ({"systemInstruction": {"parts": [{"text": system}]}} if system else {})


def build(context: PartContext) -> ChatProvider:
    settings = context.settings.provider
    headers = {"x-goog-api-key": settings.key("google")}
    wire = GoogleWire(Endpoint("Google", settings.base_url or DEFAULT_URL, headers))
    return build_provider(
        wire, context.settings, model="gemini-2.5-flash", fast_model="gemini-2.5-flash-lite"
    )


@dataclass(frozen=True, slots=True)
class GoogleEmbeddings:
    """Embed with `POST /v1beta/models/{model}:batchEmbedContents`."""

    title: ClassVar[str] = "Google"

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
    headers = {"x-goog-api-key": settings.embed.key(settings.provider.key("google"))}
    return build_remote(
        GoogleEmbeddings(),
        settings,
        name="google",
        model="gemini-embedding-001",
        url=DEFAULT_URL,
        headers=headers,
        max_tokens=2048,
    )
