"""Chat and embed with OpenAI, or any server that speaks its protocol."""

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
from ragstone.providers.http import Endpoint, HttpWire
from ragstone.settings import Settings
from ragstone.types import Usage

DEFAULT_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class OpenAIWire(HttpWire):
    """Stream `POST /chat/completions`."""

    name: str = "openai"

    async def stream_pieces(self, request: Request) -> Pieces:
        body: dict[str, Any] = {
            "model": request.model,
            "messages": format_messages(request),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.schema is not None:
            schema = {"name": "reply", "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        finished = False
        async for event in self.endpoint.stream_events("chat/completions", body):
            for choice in event.get("choices") or ():
                finished = finished or choice.get("finish_reason") is not None
                if content := (choice.get("delta") or {}).get("content"):
                    yield content
            if usage := event.get("usage"):
                yield Usage(usage["prompt_tokens"], usage["completion_tokens"])
        if not finished:
            raise CutStreamError


def build(context: PartContext) -> ChatProvider:
    settings = context.settings.provider
    headers = _build_headers(settings.key("openai"))
    wire = OpenAIWire(Endpoint("OpenAI", settings.base_url or DEFAULT_URL, headers))
    return build_provider(wire, context.settings, model="gpt-4.1-mini", fast_model="gpt-4.1-nano")


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddings:
    """Embed with `POST /embeddings`."""

    title: ClassVar[str] = "OpenAI"

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
        headers=_build_headers(settings.embed.key(settings.provider.key("openai"))),
        max_tokens=8191,
    )


def _build_headers(key: str) -> dict[str, str]:
    """Return the header with the key; a local server needs none."""
    return {"authorization": f"Bearer {key}"} if key else {}
