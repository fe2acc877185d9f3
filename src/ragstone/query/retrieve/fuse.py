"""Several ranked lists → one score per id. Pure functions; ties are broken by the caller, by id."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

Normalisation: TypeAlias = Literal["theoretical", "minmax", "zscore"]
Scored: TypeAlias = Mapping[int, float]


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[int]], *, k: int = 60, weights: Sequence[float] | None = None
) -> dict[int, float]:
    """Sum of weight/(k + rank) over the lists in which an id appears, ranks from 1."""
    fused: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, key in enumerate(ranking, start=1):
            fused[key] = fused.get(key, 0.0) + weight / (k + rank)
    return fused


def convex_fusion(lists: Sequence[Scored], *, weights: Sequence[float]) -> dict[int, float]:
    """Weighted mean of scores that are comparable already; an id that a list lacks counts 0."""
    fused: dict[int, float] = {}
    total = sum(weights) or 1.0
    for scores, weight in zip(lists, weights, strict=True):
        for key, score in scores.items():
            fused[key] = fused.get(key, 0.0) + weight / total * score
    return fused


def normalised(scores: Scored, how: Normalisation, *, bounded: bool = False) -> dict[int, float]:
    """Scores brought to about 0…1. `bounded` marks a score whose own scale has that meaning, such
    as a cosine, which the theoretical normalisation leaves as it is."""
    if not scores:
        return {}
    if how == "theoretical" and bounded:
        return {key: max(0.0, score) for key, score in scores.items()}
    return _SCALES[how](scores)


def _by_best(scores: Scored) -> dict[int, float]:
    """0 is the least a score can be, 1 the best of this list (Bruch et al. 2023, TM2C2)."""
    best = max(scores.values())
    return {key: max(0.0, score) / best if best > 0 else 0.0 for key, score in scores.items()}


def _by_range(scores: Scored) -> dict[int, float]:
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def _by_spread(scores: Scored) -> dict[int, float]:
    """Standard scores, moved so that three deviations below the mean is 0 and above is 1."""
    mean = sum(scores.values()) / len(scores)
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores.values()) / len(scores))
    if spread == 0.0:
        return dict.fromkeys(scores, 0.5)
    return {key: ((score - mean) / spread + 3) / 6 for key, score in scores.items()}


_SCALES: dict[Normalisation, Callable[[Scored], dict[int, float]]] = {
    "theoretical": _by_best,
    "minmax": _by_range,
    "zscore": _by_spread,
}
