"""Embedders with the settings' own choices before a service's defaults."""

from __future__ import annotations

from collections.abc import Mapping

from ragstone.models.embedder import OnnxEmbedder
from ragstone.providers.calls import Policy
from ragstone.providers.embed.remote import EmbeddingWire, RemoteEmbedder
from ragstone.settings import Settings


def remote(
    wire: EmbeddingWire, settings: Settings, *, name: str, model: str, url: str,
    headers: Mapping[str, str], max_tokens: int,
) -> RemoteEmbedder:  # fmt: skip
    chosen, calls = settings.embed, settings.provider
    return RemoteEmbedder(
        wire,
        name=name,
        model=chosen.model or model,
        url=chosen.base_url or url,
        headers=headers,
        max_tokens=max_tokens,
        dimension=chosen.dimension,
        batch=chosen.batch,
        policy=Policy(max_retries=calls.max_retries, timeout_s=calls.timeout_s),
    )


def builtin(settings: Settings) -> OnnxEmbedder:
    """The shipped embedder, under its name."""
    return OnnxEmbedder()
