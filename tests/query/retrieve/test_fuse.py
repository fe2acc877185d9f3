"""Fusion by hand-worked figures and by its laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.retrieve.fuse import convex_fusion, reciprocal_rank_fusion

RANKINGS = st.lists(st.lists(st.integers(0, 50), unique=True, max_size=20), max_size=4)
SCORES = st.dictionaries(st.integers(0, 50), st.floats(-10, 10), max_size=20)


def test_rrf_sums_one_over_k_plus_rank() -> None:
    fused = reciprocal_rank_fusion([[7, 8], [8, 9]], k=60)
    assert fused == pytest.approx({7: 1 / 61, 8: 1 / 62 + 1 / 61, 9: 1 / 62})


def test_rrf_ignores_an_empty_ranking() -> None:
    assert reciprocal_rank_fusion([[1, 2], []]) == reciprocal_rank_fusion([[1, 2]])
    assert reciprocal_rank_fusion([]) == {}


def test_rrf_weights_scale_their_lists() -> None:
    assert reciprocal_rank_fusion([[1], [2]], weights=[2.0, 1.0]) == pytest.approx(
        {1: 2 / 61, 2: 1 / 61}
    )


@given(RANKINGS)
def test_rrf_does_not_depend_on_the_order_of_the_lists(rankings: list[list[int]]) -> None:
    forward = reciprocal_rank_fusion(rankings)
    assert reciprocal_rank_fusion(rankings[::-1]) == pytest.approx(forward)
    assert set(forward) == {key for ranking in rankings for key in ranking}


def test_convex_brings_each_list_to_its_own_range() -> None:
    fused = convex_fusion([{1: 0.9, 2: 0.5, 3: 0.1}, {2: 20.0, 3: 10.0}], weights=[0.5, 0.5])
    assert fused == pytest.approx({1: 0.5, 2: 0.25 + 0.5, 3: 0.0})


def test_convex_with_all_weight_on_one_list_is_that_list() -> None:
    fused = convex_fusion([{1: 5.0, 2: 3.0}, {2: 9.0, 3: 1.0}], weights=[1.0, 0.0])
    assert fused == pytest.approx({1: 1.0, 2: 0.0, 3: 0.0})


@given(st.lists(SCORES, min_size=1, max_size=3))
def test_convex_scores_stay_between_nought_and_one(lists: list[dict[int, float]]) -> None:
    fused = convex_fusion(lists, weights=[1.0] * len(lists))
    assert set(fused) == {key for scores in lists for key in scores}
    assert all(-1e-9 <= score <= 1 + 1e-9 for score in fused.values())
