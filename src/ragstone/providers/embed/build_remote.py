"""Build embedders behind HTTP: what the settings name first, then a service's defaults."""

from __future__ import annotations

from collections.abc import Mapping

from ragstone.providers.calls import Policy
from ragstone.providers.embed.remote import EmbeddingWire, RemoteEmbedder
from ragstone.settings import Settings


def build_remote(
    wire: EmbeddingWire,
    settings: Settings,
    *,
    name: str,
    model: str,
    url: str,
    headers: Mapping[str, str],
    max_tokens: int,
) -> RemoteEmbedder:
    """Build the embedder that speaks `wire`; `model` and `url` are the service's defaults."""
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
