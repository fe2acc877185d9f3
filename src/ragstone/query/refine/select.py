"""Choose which hits go on, and how much of each is read.

One refiner per step: filter by similarity, drop near duplicates, merge passages, select for
diversity (MMR), widen a chunk to its passage.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ragstone.plugins import PartContext
from ragstone.protocols import Catalog, Index, Vectors
from ragstone.threads import run_in_thread_if_blocking
from ragstone.trace import Span
from ragstone.types import Hit, Hits, Query


@dataclass(frozen=True, slots=True)
class FilterReport:
    """Count what the filter did; the names are those of the design documents."""

    original_count: int
    filtered_count: int
    fallback_triggered: bool
    scores: tuple[float, ...]


def filter_by_similarity(
    hits: Hits, *, threshold: float, keep_at_least: int
) -> tuple[Hits, FilterReport]:
    """Keep hits at or above the threshold; if too few are left, the best `keep_at_least`."""
    kept = tuple(hit.with_scores(filter="kept") for hit in hits if get_similarity(hit) >= threshold)
    fallback = len(kept) < min(keep_at_least, len(hits))
    if fallback:
        best = sorted(hits, key=lambda hit: (-hit.score, hit.chunk.key))[:keep_at_least]
        kept = tuple(
            hit.with_scores(filter="kept" if get_similarity(hit) >= threshold else "floor")
            for hit in best
        )
    scores = tuple(get_similarity(hit) for hit in kept)
    return kept, FilterReport(len(hits), len(kept), fallback, scores)


def get_similarity(hit: Hit) -> float:
    """Return the cosine to the question, or the score of a hit from an outside service."""
    return hit.score if hit.scores.similarity is None else hit.scores.similarity


@dataclass(frozen=True, slots=True)
class SimilarityFilter:
    """Drop hits below a similarity, but keep at least `keep_at_least`."""

    name: ClassVar[str] = "filter"
    threshold: float
    keep_at_least: int

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        if self.threshold == 0.0:
            scores = [round(get_similarity(hit), 4) for hit in hits]
            span.count(threshold_used=0.0, chunks_after_filter=len(hits), filtered_scores=scores)
            return hits
        kept, report = filter_by_similarity(
            hits, threshold=self.threshold, keep_at_least=self.keep_at_least
        )
        span.count(
            threshold_used=self.threshold,
            chunks_after_filter=report.filtered_count,
            fallback_triggered=report.fallback_triggered,
            filtered_scores=[round(score, 4) for score in report.scores],
        )
        if report.fallback_triggered:
            span.note(
                f"Fewer than {self.keep_at_least} hits reached a similarity of "
                f"{self.threshold:g}; the best {report.filtered_count} were kept."
            )
        return kept


def build_filter(context: PartContext) -> SimilarityFilter:
    refine = context.settings.refine
    return SimilarityFilter(refine.min_similarity, refine.min_chunks)


def maximal_marginal_relevance(
    relevance: Vectors, vectors: Vectors, *, diversity_lambda: float, limit: int
) -> list[int]:
    """Return positions in the order chosen.

    Each maximises λ·relevance - (1 - λ)·max similarity to those chosen before. The earlier
    position wins a tie, and λ = 1 is the order of relevance.
    """
    count = len(relevance)
    nearest = np.zeros(count, dtype=np.float32)
    open_ = np.ones(count, dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(limit, count):
        value = diversity_lambda * relevance - (1 - diversity_lambda) * nearest
        best = int(np.argmax(np.where(open_, value, -np.inf)))
        open_[best] = False
        # The first choice sets the similarities; afterwards only larger ones count.
        similar = vectors @ vectors[best]
        nearest = similar if not chosen else np.maximum(nearest, similar)
        chosen.append(best)
    return chosen


def find_distinct(vectors: Vectors, *, threshold: float) -> list[int]:
    """Return the positions of vectors less similar than `threshold` to all kept before them."""
    # Row by row: the whole product wakes the BLAS threads and costs twice the CPU time.
    kept: list[int] = []
    for at in range(len(vectors)):
        if not kept or float((vectors[kept] @ vectors[at]).max()) < threshold:
            kept.append(at)
    return kept


async def _load_vectors(index: Index, query: Query, hits: Hits) -> Vectors:
    return await run_in_thread_if_blocking(
        index, index.vectors, query.collection, [hit.chunk.key for hit in hits]
    )


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def find_other_numbers(hits: Hits, kept: Sequence[int]) -> Iterator[int]:
    """Yield the hits that were dropped although no kept one has their numbers.

    To an embedder the price lists of two years are nearly the same text.
    """
    seen = {frozenset(_NUMBER.findall(hits[at].chunk.text)) for at in kept}
    for at, hit in enumerate(hits):
        numbers = frozenset(_NUMBER.findall(hit.chunk.text))
        if numbers not in seen and not any(numbers <= one for one in seen):
            seen.add(numbers)
            yield at


@dataclass(frozen=True, slots=True)
class Deduplicator:
    """Drop hits that say nearly the same as a better one."""

    name: ClassVar[str] = "deduplicate"
    index: Index
    threshold: float

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        vectors = await _load_vectors(self.index, query, hits)
        kept = find_distinct(vectors, threshold=self.threshold) if hits else []
        kept = sorted({*kept, *find_other_numbers(hits, kept)})
        span.count(threshold_used=self.threshold, chunks_out=len(kept))
        return tuple(hits[at] for at in kept)


@dataclass(frozen=True, slots=True)
class MmrSelector:
    """Keep `query.top_k` hits by maximal marginal relevance over the stored vectors."""

    name: ClassVar[str] = "select"
    index: Index

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        if query.mmr_lambda >= 1 or len(hits) < 2:
            chosen = hits[: query.top_k]
            span.count(mmr_lambda=query.mmr_lambda, chunks_out=len(chosen))
            return chosen
        scores = np.array([hit.score for hit in hits], dtype=np.float32)
        spread = float(scores.max() - scores.min()) or 1.0
        order = maximal_marginal_relevance(
            (scores - scores.min()) / spread,
            await _load_vectors(self.index, query, hits),
            diversity_lambda=query.mmr_lambda,
            limit=query.top_k,
        )
        span.count(mmr_lambda=query.mmr_lambda, chunks_out=len(order))
        return tuple(hits[at].with_scores(mmr_rank=rank) for rank, at in enumerate(order, start=1))


def build_deduplicator(context: PartContext) -> Deduplicator | None:
    threshold = context.settings.refine.duplicate_similarity
    return Deduplicator(context.index, threshold) if threshold < 1 else None


def build_selector(context: PartContext) -> MmrSelector:
    return MmrSelector(context.index)


def drop_contained_hits(hits: Hits) -> Hits:
    """Drop the hits whose text is inside the passage of a better one."""
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
    """Drop hits that would be read twice, before the selection, so that others take their place."""

    name: ClassVar[str] = "merge"

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        kept = drop_contained_hits(hits)
        span.count(chunks_out=len(kept))
        return kept


@dataclass(frozen=True, slots=True)
class PassageWidener:
    """Replace the text of a found chunk by its passage; the id stays the chunk's."""

    name: ClassVar[str] = "widen"
    catalog: Catalog

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        widened = tuple(self._widen(hit) for hit in hits)
        span.count(chunks_out=len(widened), chars=sum(len(hit.chunk.text) for hit in widened))
        return widened

    def _widen(self, hit: Hit) -> Hit:
        chunk = hit.chunk
        if chunk.passage is None:
            return hit
        start, end = chunk.passage
        text = self.catalog.read_passage(chunk.document_id, start, end)
        if len(text) != end - start:  # replaced since it was found; the old chunk is still true
            return hit
        return replace(hit, chunk=replace(chunk, text=text, start=start, end=end, units=()))


def build_merger(context: PartContext) -> PassageMerger | None:
    return PassageMerger() if context.settings.ingest.chunking != "structure" else None


def build_widener(context: PartContext) -> PassageWidener | None:
    if context.settings.ingest.chunking == "structure":
        return None
    return PassageWidener(context.catalog)
