"""Offer the engine to other frameworks; each integration needs its own extra."""

from __future__ import annotations

from typing import Any

from ragstone.types import Hit


def build_metadata(hit: Hit) -> dict[str, Any]:
    """Describe a hit as both frameworks do: in a flat dictionary."""
    chunk = hit.chunk
    return {
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "source": chunk.document_name,
        "page": chunk.page,
        "section": " > ".join(chunk.heading_path),
        "start": chunk.start,
        "end": chunk.end,
        "score": hit.score,
        "similarity": hit.scores.similarity,
    }
