"""Drop the hits that are not about the question, but never all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ragstone.plugins import PartContext
from ragstone.trace import Span
from ragstone.types import Hit, Hits, Query


@dataclass(frozen=True, slots=True)
class FilterReport:
    """What the filter did, in the words of the design documents."""

    original_count: int
    filtered_count: int
    fallback_triggered: bool
    scores: tuple[float, ...]


def filter_by_similarity(
    hits: Hits, *, threshold: float, keep_at_least: int
) -> tuple[Hits, FilterReport]:
    """Keep hits at or above the threshold; too few left: the best `keep_at_least` by score."""
    kept = tuple(hit.judged(filter="kept") for hit in hits if similarity(hit) >= threshold)
    fallback = len(kept) < min(keep_at_least, len(hits))
    if fallback:
        best = sorted(hits, key=lambda hit: (-hit.score, hit.chunk.key))[:keep_at_least]
        kept = tuple(
            hit.judged(filter="kept" if similarity(hit) >= threshold else "floor") for hit in best
        )
    scores = tuple(similarity(hit) for hit in kept)
    return kept, FilterReport(len(hits), len(kept), fallback, scores)


def similarity(hit: Hit) -> float:
    """Cosine to the question; the score itself for hits that come from elsewhere."""
    return hit.score if hit.scores.similarity is None else hit.scores.similarity


@dataclass(frozen=True, slots=True)
class SimilarityFilter:
    """Drops hits below a similarity, but never below a floor of `keep_at_least`."""

    name: ClassVar[str] = "filter"
    threshold: float
    keep_at_least: int

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        if self.threshold == 0.0:
            span.count(threshold_used=0.0, chunks_after_filter=len(hits))
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


def build(context: PartContext) -> SimilarityFilter:
    refine = context.settings.refine
    return SimilarityFilter(refine.min_similarity, refine.min_chunks)
