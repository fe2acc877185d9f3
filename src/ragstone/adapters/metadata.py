"""What every adapter says of a hit beside its text."""

from __future__ import annotations

from typing import Any

from ragstone.types import Hit


def metadata_of(hit: Hit) -> dict[str, Any]:
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
