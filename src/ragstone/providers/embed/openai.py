"""OpenAI's embeddings, and every server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragstone.providers.embed.build_remote import build_remote
from ragstone.providers.embed.remote import RemoteEmbedder
from ragstone.providers.openai import DEFAULT_URL
from ragstone.settings import Settings


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddings:
    """`POST /embeddings`."""

    title: ClassVar[str] = "OpenAI"

    def path(self, model: str) -> str:
        return "embeddings"

    def body(self, model: str, texts: Sequence[str], dimension: int) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        return body | ({"dimensions": dimension} if dimension else {})

    def vectors(self, reply: Mapping[str, Any]) -> list[list[float]]:
        rows = sorted(reply["data"], key=lambda row: int(row["index"]))
        return [row["embedding"] for row in rows]


def build(settings: Settings) -> RemoteEmbedder:
    key = settings.embed.key(settings.provider.key("openai"))
    # A server of one's own needs no key.
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return build_remote(
        OpenAIEmbeddings(), settings, name="openai", model="text-embedding-3-small",
        url=DEFAULT_URL, headers=headers, max_tokens=8191,
    )  # fmt: skip
