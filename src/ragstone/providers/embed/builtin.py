"""Build the shipped embedder. Nothing here may import what only an extra or a service needs."""

from __future__ import annotations

from ragstone.models.embedder import OnnxEmbedder
from ragstone.settings import Settings


def build(settings: Settings) -> OnnxEmbedder:
    """Build the embedder that is inside the package; no setting changes it."""
    return OnnxEmbedder()
