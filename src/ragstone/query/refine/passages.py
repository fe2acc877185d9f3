"""Read what was found with what stands around it: small chunks are found, longer passages read.

For collections that were split with `ingest.chunking` = sentence_window or parent_child. Hits →
each passage once → after the choice, the passages' texts in the place of the chunks'.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import ClassVar

from ragstone.plugins import PartContext
from ragstone.protocols import Catalog
from ragstone.trace import Span
from ragstone.types import Hit, Hits, Query


def each_passage_once(hits: Hits) -> Hits:
    """Without the hits whose own text stands inside the passage of a better one."""
    read: dict[str, list[tuple[int, int]]] = defaultdict(list)
    kept: list[Hit] = []
    for hit in hits:
        chunk = hit.chunk
        spans = read[chunk.document_id]
        if not any(start <= chunk.start and chunk.end <= end for start, end in spans):
            kept.append(hit)
            spans.append(chunk.passage or (chunk.start, chunk.end))
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class PassageMerger:
    """Drops what would be read twice; before the choice, so that others take its place."""

    name: ClassVar[str] = "merge"

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        kept = each_passage_once(hits)
        span.count(chunks_out=len(kept))
        return kept


@dataclass(frozen=True, slots=True)
class PassageReader:
    """Puts the passage in the place of the chunk that was found in it; the id stays the chunk's."""

    name: ClassVar[str] = "widen"
    catalog: Catalog

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        widened = tuple(self._widened(hit) for hit in hits)
        span.count(chunks_out=len(widened), chars=sum(len(hit.chunk.text) for hit in widened))
        return widened

    def _widened(self, hit: Hit) -> Hit:
        chunk = hit.chunk
        if chunk.passage is None:
            return hit
        start, end = chunk.passage
        text = self.catalog.passage(chunk.document_id, start, end)
        if len(text) != end - start:  # replaced since it was found: what was found is still true
            return hit
        return replace(hit, chunk=replace(chunk, text=text, start=start, end=end))


def build_merger(context: PartContext) -> PassageMerger | None:
    return PassageMerger() if context.settings.ingest.chunking != "structure" else None


def build_reader(context: PartContext) -> PassageReader | None:
    if context.settings.ingest.chunking == "structure":
        return None
    return PassageReader(context.catalog)
