"""Embedding models of an Ollama server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragstone.providers.embed.build_remote import build_remote
from ragstone.providers.embed.remote import RemoteEmbedder
from ragstone.providers.ollama import DEFAULT_URL
from ragstone.settings import Settings


@dataclass(frozen=True, slots=True)
class OllamaEmbeddings:
    """`POST /api/embed`."""

    title: ClassVar[str] = "Ollama"

    def path(self, model: str) -> str:
        return "api/embed"

    def body(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "input": list(texts), "truncate": True}
        return body | ({"dimensions": dimension} if dimension else {})

    def vectors(self, reply: Mapping[str, Any]) -> list[list[float]]:
        return list(reply["embeddings"])


def build(settings: Settings) -> RemoteEmbedder:
    return build_remote(
        OllamaEmbeddings(), settings, name="ollama", model="nomic-embed-text",
        url=DEFAULT_URL, headers={}, max_tokens=2048,
    )  # fmt: skip
