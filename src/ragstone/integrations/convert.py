"""What every adapter says of a hit beside its text."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

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


T = TypeVar("T")


def result_of(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # In a notebook a loop runs already, and it cannot run a second one.
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
