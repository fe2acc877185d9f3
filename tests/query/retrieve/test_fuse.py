"""Fusion against values computed by hand, and its laws."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.retrieve.fuse import convex_fusion, normalise_scores, reciprocal_rank_fusion
from ragstone.query.retrieve.hybrid import boost_by_keywords

rankings = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=12), max_size=4)
scores = st.dictionaries(st.integers(0, 30), st.floats(-5, 5, allow_nan=False), max_size=12)


def test_rrf_sums_the_reciprocal_ranks() -> None:
    fused = reciprocal_rank_fusion([[1, 2, 3], [3, 1]], k=60)
    assert fused == {
        1: pytest.approx(1 / 61 + 1 / 62),
        2: pytest.approx(1 / 62),
        3: pytest.approx(1 / 63 + 1 / 61),
    }


def test_rrf_weighs_its_lists() -> None:
    fused = reciprocal_rank_fusion([[1], [2]], k=60, weights=[2, 1])
    assert fused == {1: pytest.approx(2 / 61), 2: pytest.approx(1 / 61)}


@given(rankings)
def test_rrf_does_not_depend_on_the_order_of_its_lists(lists: list[list[int]]) -> None:
    forward = reciprocal_rank_fusion(lists)
    backward = reciprocal_rank_fusion(lists[::-1])
    assert forward == pytest.approx(backward)


@given(rankings)
def test_rrf_holds_exactly_the_ids_of_its_lists(lists: list[list[int]]) -> None:
    assert set(reciprocal_rank_fusion(lists)) == {key for ranking in lists for key in ranking}
    assert reciprocal_rank_fusion([*lists, []]) == reciprocal_rank_fusion(lists)


@given(st.lists(st.integers(0, 99), unique=True, min_size=2, max_size=20))
def test_rrf_of_one_list_keeps_its_order(ranking: list[int]) -> None:
    fused = reciprocal_rank_fusion([ranking])
    assert sorted(ranking, key=lambda key: -fused[key]) == ranking


def test_convex_fusion_is_the_weighted_mean() -> None:
    fused = convex_fusion([{1: 0.8, 2: 0.4}, {2: 1.0, 3: 0.5}], weights=[0.65, 0.35])
    assert fused == {
        1: pytest.approx(0.52),
        2: pytest.approx(0.26 + 0.35),
        3: pytest.approx(0.175),
    }


@given(scores, scores, st.floats(0.01, 1))
def test_convex_fusion_does_not_depend_on_the_order_of_its_lists(
    first: dict[int, float], second: dict[int, float], weight: float
) -> None:
    one = convex_fusion([first, second], weights=[weight, 1])
    assert convex_fusion([second, first], weights=[1, weight]) == pytest.approx(one)
    assert set(one) == set(first) | set(second)


@given(scores, st.integers(0, 30), st.floats(0.1, 5))
def test_a_better_score_never_lowers_the_fused_one(
    given_scores: dict[int, float], key: int, more: float
) -> None:
    before = convex_fusion([given_scores, {key: 0.0}], weights=[0.5, 0.5])
    raised = {**given_scores, key: given_scores.get(key, 0.0) + more}
    after = convex_fusion([raised, {key: 0.0}], weights=[0.5, 0.5])
    assert after[key] > before[key]


def test_each_normalisation_by_hand() -> None:
    keyword = {1: 8.0, 2: 6.0, 3: 2.0}
    assert normalise_scores(keyword, "theoretical") == {1: 1.0, 2: 0.75, 3: 0.25}
    assert normalise_scores(keyword, "minmax") == {1: 1.0, 2: pytest.approx(2 / 3), 3: 0.0}
    by_spread = normalise_scores({1: 1.0, 2: -1.0}, "zscore")
    assert by_spread == {1: pytest.approx(4 / 6), 2: pytest.approx(2 / 6)}


def test_a_cosine_keeps_its_own_scale_in_the_theoretical_normalisation() -> None:
    assert normalise_scores({1: 0.6, 2: -0.2}, "theoretical", bounded=True) == {1: 0.6, 2: 0.0}


@pytest.mark.parametrize("how", ["theoretical", "minmax", "zscore"])
def test_equal_scores_stay_equal_and_nothing_is_nothing(how: str) -> None:
    assert len(set(normalise_scores({1: 3.0, 2: 3.0}, how).values())) == 1  # type: ignore[arg-type]
    assert normalise_scores({}, how) == {}  # type: ignore[arg-type]


@given(scores, st.sampled_from(["theoretical", "minmax", "zscore"]))
def test_a_normalisation_never_turns_an_order_round(
    given_scores: dict[int, float], how: str
) -> None:
    normal = normalise_scores(given_scores, how)  # type: ignore[arg-type]
    order = sorted(given_scores, key=lambda key: -given_scores[key])
    values = [normal[key] for key in order]
    assert all(left >= right - 1e-12 for left, right in itertools.pairwise(values))


def test_the_keyword_boost_is_the_share_of_terms_that_a_text_holds() -> None:
    boosted = boost_by_keywords(
        {1: 0.5, 2: 0.6}, {1: "the notice period", 2: "a café"}, ["notic", "period"], boost=0.3
    )
    assert boosted == {1: pytest.approx(0.8), 2: pytest.approx(0.6)}
