"""Choose the hits that reach the prompt: relevant, and not all saying the same thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragstone.plugins import PartContext
from ragstone.protocols import Index, Vectors
from ragstone.threads import run_in_thread_if_blocking
from ragstone.trace import Span
from ragstone.types import Hits, Query


def maximal_marginal_relevance(
    relevance: Vectors, vectors: Vectors, *, diversity_lambda: float, limit: int
) -> list[int]:
    """Positions in the order chosen: each maximises λ·relevance - (1 - λ)·max similarity to those
    chosen before. The earlier position wins a tie, and λ = 1 is the order of relevance."""
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


def first_of_each(vectors: Vectors, *, threshold: float) -> list[int]:
    """Positions of those that are less similar than `threshold` to every one kept before them."""
    # Row by row: the whole product wakes the BLAS threads and costs twice the CPU time.
    kept: list[int] = []
    for at in range(len(vectors)):
        if not kept or float((vectors[kept] @ vectors[at]).max()) < threshold:
            kept.append(at)
    return kept


async def _stored_vectors(index: Index, query: Query, hits: Hits) -> Vectors:
    return await run_in_thread_if_blocking(
        index, index.vectors, query.collection, [hit.chunk.key for hit in hits]
    )


@dataclass(frozen=True, slots=True)
class Deduplicator:
    """Drops hits that say nearly the same as a better one."""

    name: ClassVar[str] = "deduplicate"
    index: Index
    threshold: float

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        vectors = await _stored_vectors(self.index, query, hits)
        kept = first_of_each(vectors, threshold=self.threshold) if hits else []
        span.count(threshold_used=self.threshold, chunks_out=len(kept))
        return tuple(hits[at] for at in kept)


@dataclass(frozen=True, slots=True)
class MmrSelector:
    """Keeps `query.top_k` hits by maximal marginal relevance over the stored vectors."""

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
            await _stored_vectors(self.index, query, hits),
            diversity_lambda=query.mmr_lambda,
            limit=query.top_k,
        )
        span.count(mmr_lambda=query.mmr_lambda, chunks_out=len(order))
        return tuple(hits[at].judged(mmr_rank=rank) for rank, at in enumerate(order, start=1))


def build_deduplicator(context: PartContext) -> Deduplicator | None:
    threshold = context.settings.refine.duplicate_similarity
    return Deduplicator(context.index, threshold) if threshold < 1 else None


def build(context: PartContext) -> MmrSelector:
    return MmrSelector(context.index)
