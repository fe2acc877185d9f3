"""Maximal marginal relevance and duplicates, by hand and by law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ragstone.protocols import Vectors
from ragstone.query.refine.select import (
    find_distinct,
    find_other_numbers,
    maximal_marginal_relevance,
)
from ragstone.types import Chunk, Hit, Scores

relevances = arrays(np.float32, st.integers(1, 12), elements=st.floats(0, 1, width=32))


def unit(count: int, seed: int = 0) -> Vectors:
    vectors = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_mmr_by_hand() -> None:
    # b is a's twin; c is less relevant but new. With λ = 0.5 the values after a are
    # b: 0.45 - 0.5·1 = -0.05 and c: 0.25 - 0 = 0.25.
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    relevance = np.array([1.0, 0.9, 0.5], dtype=np.float32)
    chosen = maximal_marginal_relevance(relevance, vectors, diversity_lambda=0.5, limit=3)
    assert chosen == [0, 2, 1]


@given(relevances)
def test_lambda_one_is_the_order_of_relevance(relevance: Vectors) -> None:
    chosen = maximal_marginal_relevance(
        relevance, unit(len(relevance)), diversity_lambda=1.0, limit=len(relevance)
    )
    assert chosen == sorted(range(len(relevance)), key=lambda at: (-relevance[at], at))


@given(relevances, st.floats(0, 1), st.integers(0, 15))
def test_mmr_invents_and_repeats_nothing(relevance: Vectors, lam: float, limit: int) -> None:
    chosen = maximal_marginal_relevance(
        relevance, unit(len(relevance)), diversity_lambda=lam, limit=limit
    )
    assert len(chosen) == len(set(chosen)) == min(limit, len(relevance))
    assert set(chosen) <= set(range(len(relevance)))


def test_only_the_first_of_near_duplicates_is_kept() -> None:
    vectors = np.array([[1, 0], [0.999, 0.0447], [0, 1]], dtype=np.float32)
    assert find_distinct(vectors, threshold=0.98) == [0, 2]
    assert find_distinct(vectors, threshold=0.9999) == [0, 1, 2]


@pytest.mark.parametrize("threshold", [0.5, 0.9, 1.0])
def test_what_is_kept_is_pairwise_different_and_the_best_stays(threshold: float) -> None:
    vectors = unit(30, seed=3)
    kept = find_distinct(vectors, threshold=threshold)
    assert kept[0] == 0
    for at, one in enumerate(kept):
        assert all(vectors[one] @ vectors[other] < threshold for other in kept[:at])


def test_lists_with_other_numbers_are_no_duplicates() -> None:
    texts = ["pump, 189.00, valid from 2024", "pump, 209.00, valid from 2026", "pump, 189.00"]
    hits = tuple(
        Hit(Chunk(f"d{n}", 0, text, 0, len(text), f"{n}.csv"), 1.0, "hybrid", Scores())
        for n, text in enumerate(texts)
    )
    assert list(find_other_numbers(hits, [0])) == [1]
