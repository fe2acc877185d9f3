"""The similarity filter and its floor."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.refine.select import filter_by_similarity
from ragstone.types import Chunk, Hit, Hits, Scores


def hits_with(similarities: list[float]) -> Hits:
    return tuple(
        Hit(Chunk("d", at, "t", 0, 1, key=at + 1), 1 - at / 100, "hybrid", Scores(similarity=one))
        for at, one in enumerate(similarities)
    )


def test_hits_below_the_threshold_go_and_the_others_keep_their_scores() -> None:
    hits = hits_with([0.9, 0.2, 0.5])
    kept, report = filter_by_similarity(hits, threshold=0.5, keep_at_least=2)
    assert [hit.chunk.index for hit in kept] == [0, 2]
    assert [hit.score for hit in kept] == [hits[0].score, hits[2].score]
    assert (report.original_count, report.filtered_count, report.fallback_triggered) == (
        3,
        2,
        False,
    )
    assert report.scores == (0.9, 0.5)


def test_too_few_left_fall_back_to_the_best_by_their_own_score() -> None:
    kept, report = filter_by_similarity(
        hits_with([0.1, 0.9, 0.2, 0.1]), threshold=0.5, keep_at_least=2
    )
    assert [(hit.chunk.index, hit.scores.filter) for hit in kept] == [(0, "floor"), (1, "kept")]
    assert report.fallback_triggered


@given(st.lists(st.floats(-1, 1), max_size=12), st.floats(0, 1), st.integers(0, 5))
def test_the_filter_invents_nothing_and_keeps_its_floor(
    similarities: list[float], threshold: float, floor: int
) -> None:
    hits = hits_with(similarities)
    kept, report = filter_by_similarity(hits, threshold=threshold, keep_at_least=floor)
    assert {hit.chunk.key for hit in kept} <= {hit.chunk.key for hit in hits}
    assert len(kept) >= min(floor, len(hits))
    assert report.filtered_count == len(kept)


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_never_keeps_more(
    similarities: list[float], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    few, _ = filter_by_similarity(hits_with(similarities), threshold=high, keep_at_least=0)
    many, _ = filter_by_similarity(hits_with(similarities), threshold=low, keep_at_least=0)
    assert {hit.chunk.key for hit in few} <= {hit.chunk.key for hit in many}
