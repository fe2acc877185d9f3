"""Maximal marginal relevance against a slow reading of its definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.refine.select import maximal_marginal_relevance


def unit_vectors(count: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def by_definition(relevance: list[float], vectors: np.ndarray, lam: float, limit: int) -> list[int]:
    chosen: list[int] = []
    left = list(range(len(relevance)))
    while left and len(chosen) < limit:

        def value(i: int) -> float:
            near = max((float(vectors[i] @ vectors[j]) for j in chosen), default=0.0)
            return lam * relevance[i] - (1 - lam) * near

        best = max(left, key=lambda i: (round(value(i), 5), -i))
        chosen.append(best)
        left.remove(best)
    return chosen


@given(st.integers(1, 12), st.integers(0, 1000), st.floats(0, 1), st.integers(1, 12))
def test_it_chooses_what_the_definition_says(count: int, seed: int, lam: float, limit: int) -> None:
    relevance = np.linspace(1, 0, count, dtype=np.float32)
    vectors = unit_vectors(count, seed)
    fast = maximal_marginal_relevance(relevance, vectors, diversity_lambda=lam, limit=limit)
    assert len(fast) == len(set(fast)) == min(limit, count)
    slow = by_definition(relevance.tolist(), vectors, lam, limit)
    # Values closer than the rounding of float32 may fall either way.
    if fast != slow:
        first = next(i for i, (a, b) in enumerate(zip(fast, slow, strict=True)) if a != b)
        chosen = fast[:first]

        def value(i: int) -> float:
            near = max((float(vectors[i] @ vectors[j]) for j in chosen), default=0.0)
            return lam * float(relevance[i]) - (1 - lam) * near

        assert abs(value(fast[first]) - value(slow[first])) < 1e-4


def test_a_lambda_of_one_is_the_order_of_relevance() -> None:
    relevance = np.array([0.2, 0.9, 0.5], dtype=np.float32)
    order = maximal_marginal_relevance(relevance, unit_vectors(3, 1), diversity_lambda=1.0, limit=3)
    assert order == [1, 2, 0]


def test_a_twin_goes_behind_something_new() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    relevance = np.array([1.0, 0.99, 0.5], dtype=np.float32)
    order = maximal_marginal_relevance(relevance, vectors, diversity_lambda=0.5, limit=3)
    assert order == [0, 2, 1]


def test_nothing_in_is_nothing_out() -> None:
    empty = np.empty(0, dtype=np.float32), np.empty((0, 8), dtype=np.float32)
    assert maximal_marginal_relevance(*empty, diversity_lambda=0.5, limit=5) == []
