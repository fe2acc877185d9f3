"""Chat and embed with an Ollama server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragstone.plugins import PartContext
from ragstone.providers.chat import (
    ChatProvider,
    CutStreamError,
    Pieces,
    Request,
    build_provider,
    format_messages,
)
from ragstone.providers.embed import RemoteEmbedder, build_remote
from ragstone.providers.http import Endpoint, HttpWire, StatusError, parse_object
from ragstone.settings import Settings
from ragstone.types import Usage

DEFAULT_URL = "http://127.0.0.1:11434"


@dataclass(frozen=True, slots=True)
class OllamaWire(HttpWire):
    """Stream `POST /api/chat`, one JSON object per line."""

    name: str = "ollama"

    async def stream_pieces(self, request: Request) -> Pieces:
        body: dict[str, Any] = {
            "model": request.model,
            "messages": format_messages(request),
            "stream": True,
            "options": {"temperature": request.temperature, "num_predict": request.max_tokens},
        }
        if request.schema is not None:
            body["format"] = dict(request.schema)
        finished = False
        async for line in self.endpoint.stream_lines("api/chat", body):
            if not line.strip():
                continue
            event = parse_object(line)
            if "error" in event:  # an error after the first line comes inside the stream
                raise StatusError(500, None, str(event["error"]))
            if content := event.get("message", {}).get("content"):
                yield content
            if event.get("done"):
                finished = True
                yield Usage(event.get("prompt_eval_count", 0), event.get("eval_count", 0))
        if not finished:
            raise CutStreamError


def build(context: PartContext) -> ChatProvider:
    settings = context.settings.provider
    wire = OllamaWire(Endpoint("Ollama", settings.base_url or DEFAULT_URL))
    return build_provider(wire, context.settings, model="llama3.2", fast_model="llama3.2")


@dataclass(frozen=True, slots=True)
class OllamaEmbeddings:
    """Embed with `POST /api/embed`."""

    title: ClassVar[str] = "Ollama"

    def path(self, model: str) -> str:
        return "api/embed"

    def body(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "input": list(texts), "truncate": True}
        return body | ({"dimensions": dimension} if dimension else {})

    def vectors(self, reply: Mapping[str, Any]) -> list[list[float]]:
        return list(reply["embeddings"])


def build_embedder(settings: Settings) -> RemoteEmbedder:
    return build_remote(
        OllamaEmbeddings(),
        settings,
        name="ollama",
        model="nomic-embed-text",
        url=DEFAULT_URL,
        headers={},
        max_tokens=2048,
    )
