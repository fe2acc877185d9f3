"""Fusion by hand-worked figures and by its laws."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.retrieve.fuse import (
    Normalisation,
    convex_fusion,
    normalised,
    reciprocal_rank_fusion,
)

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


def test_convex_is_the_weighted_mean_and_an_absent_id_counts_nought() -> None:
    fused = convex_fusion([{1: 1.0, 2: 0.5}, {2: 1.0, 3: 0.2}], weights=[3.0, 1.0])
    assert fused == pytest.approx({1: 0.75, 2: 0.375 + 0.25, 3: 0.05})


def test_convex_with_all_weight_on_one_list_is_that_list() -> None:
    fused = convex_fusion([{1: 0.5, 2: 0.3}, {2: 0.9, 3: 0.1}], weights=[1.0, 0.0])
    assert fused == pytest.approx({1: 0.5, 2: 0.3, 3: 0.0})


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("minmax", {1: 1.0, 2: 0.5, 3: 0.0}),
        ("theoretical", {1: 1.0, 2: 0.75, 3: 0.5}),
    ],
)
def test_scores_are_brought_to_one_scale(how: Normalisation, expected: dict[int, float]) -> None:
    assert normalised({1: 8.0, 2: 6.0, 3: 4.0}, how) == pytest.approx(expected)


def test_a_cosine_keeps_its_own_scale() -> None:
    assert normalised({1: 0.4, 2: -0.1}, "theoretical", bounded=True) == {1: 0.4, 2: 0.0}


@pytest.mark.parametrize("how", get_args(Normalisation))
@given(scores=SCORES)
def test_normalising_keeps_every_id_and_the_order(
    how: Normalisation, scores: dict[int, float]
) -> None:
    scaled = normalised(scores, how)
    assert set(scaled) == set(scores)
    for a, b in pairwise(sorted(scores, key=scores.__getitem__)):
        assert scaled[a] <= scaled[b] + 1e-9


def test_equal_scores_stay_equal() -> None:
    for how in get_args(Normalisation):
        assert len(set(normalised({1: 2.0, 2: 2.0}, how).values())) == 1
