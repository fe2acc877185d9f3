"""Share what the retrievers need: the metadata of a hit, and calls without `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ragstone.types import Hit

T = TypeVar("T")


def build_metadata(hit: Hit) -> dict[str, Any]:
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


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, also where an event loop runs already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # In a notebook a loop runs already; a thread has none.
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
