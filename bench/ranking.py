"""How good a ranking is, and whether one system is better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

METRICS = ("ndcg@10", "recall@10", "recall@50", "mrr@10")


def measure(ranking: Sequence[int], relevant: AbstractSet[int]) -> list[float]:
    """The METRICS of one question's ranking, best document first."""
    gains = [1 / math.log2(rank + 1) for rank, at in enumerate(ranking[:10], 1) if at in relevant]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(relevant)) + 1))
    first = next((rank for rank, at in enumerate(ranking[:10], 1) if at in relevant), None)
    return [
        sum(gains) / ideal,
        len(relevant.intersection(ranking[:10])) / len(relevant),
        len(relevant.intersection(ranking[:50])) / len(relevant),
        1 / first if first else 0.0,
    ]


def paired_bootstrap(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], *, rounds: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """The 95 % interval of the mean difference, questions drawn again with replacement."""
    difference = ours - theirs
    draws = np.random.default_rng(seed).integers(0, len(difference), (rounds, len(difference)))
    low, high = np.percentile(difference[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def stratified_bootstrap(
    pairs: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    *,
    rounds: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The same for the mean over sets, each set's questions drawn by themselves."""
    generator = np.random.default_rng(seed)
    means = np.zeros(rounds)
    for ours, theirs in pairs:
        difference = ours - theirs
        draws = generator.integers(0, len(difference), (rounds, len(difference)))
        means += difference[draws].mean(axis=1) / len(pairs)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
