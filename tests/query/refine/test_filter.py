"""The filter drops what is not alike, keeps a floor, and loses no score."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.refine.filter import SimilarityFilter, filter_by_similarity
from ragstone.trace import Span

from ..build import hit, query

SIMILARITIES = st.lists(st.floats(0, 1), max_size=20)


def test_hits_at_the_threshold_stay() -> None:
    hits = (hit(key=1, similarity=0.5), hit(key=2, similarity=0.3), hit(key=3, similarity=0.29))
    kept, report = filter_by_similarity(hits, threshold=0.3, keep_at_least=1)
    assert [one.chunk.key for one in kept] == [1, 2]
    assert (report.original_count, report.filtered_count, report.fallback_triggered) == (
        3,
        2,
        False,
    )
    assert report.scores == (0.5, 0.3)


def test_too_few_left_means_the_best_by_original_score() -> None:
    hits = tuple(hit(key=k, score=k / 10, similarity=0.01 * k) for k in (1, 2, 3))
    kept, report = filter_by_similarity(hits, threshold=0.9, keep_at_least=2)
    assert [one.chunk.key for one in kept] == [3, 2]
    assert report.fallback_triggered
    assert [one.scores.filter for one in kept] == ["floor", "floor"]


@given(SIMILARITIES, st.floats(0, 1), st.integers(0, 5))
def test_the_floor_always_holds_and_scores_are_preserved(
    similarities: list[float], threshold: float, floor: int
) -> None:
    hits = tuple(hit(key=k, score=s, similarity=s) for k, s in enumerate(similarities, start=1))
    kept, report = filter_by_similarity(hits, threshold=threshold, keep_at_least=floor)
    assert len(kept) >= min(floor, len(hits))
    before = {one.chunk.key: (one.score, one.scores.similarity) for one in hits}
    assert all(before[one.chunk.key] == (one.score, one.scores.similarity) for one in kept)
    assert report.filtered_count == len(kept)


def test_a_hit_without_a_similarity_is_judged_by_its_score() -> None:
    kept, _ = filter_by_similarity((hit(score=0.9), hit(key=2, score=0.1)),
                                   threshold=0.5, keep_at_least=0)  # fmt: skip
    assert [one.score for one in kept] == [0.9]


async def test_a_threshold_of_nought_changes_nothing() -> None:
    hits = (hit(similarity=-0.2),)
    span = Span("refine.filter", 0.0)
    assert await SimilarityFilter(0.0, 2).refine(query(), hits, span) is hits
    assert span.counts["chunks_after_filter"] == 1


async def test_the_fallback_is_noted_in_the_trace() -> None:
    span = Span("refine.filter", 0.0)
    hits = (hit(similarity=0.1), hit(key=2, similarity=0.2))
    assert len(await SimilarityFilter(0.9, 1).refine(query(), hits, span)) == 1
    assert span.counts["fallback_triggered"] is True
    assert "the best 1 were kept" in span.notes[0]
