"""Google's embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragstone.providers.embed.build_remote import build_remote
from ragstone.providers.embed.remote import RemoteEmbedder
from ragstone.providers.google import DEFAULT_URL
from ragstone.settings import Settings


@dataclass(frozen=True, slots=True)
class GoogleEmbeddings:
    """`POST /v1beta/models/{model}:batchEmbedContents`."""

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


def build(settings: Settings) -> RemoteEmbedder:
    headers = {"x-goog-api-key": settings.embed.key(settings.provider.key("google"))}
    return build_remote(
        GoogleEmbeddings(), settings, name="google", model="gemini-embedding-001",
        url=DEFAULT_URL, headers=headers, max_tokens=2048,
    )  # fmt: skip
