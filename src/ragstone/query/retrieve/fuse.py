"""Fuse ranked lists: several lists → one score per id. The caller breaks ties by id."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

Normalisation: TypeAlias = Literal["theoretical", "minmax", "zscore"]
Scored: TypeAlias = Mapping[int, float]


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[int]], *, k: int = 60, weights: Sequence[float] | None = None
) -> dict[int, float]:
    """Sum weight/(k + rank) over the lists in which an id appears, ranks from 1."""
    fused: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, key in enumerate(ranking, start=1):
            fused[key] = fused.get(key, 0.0) + weight / (k + rank)
    return fused


def convex_fusion(lists: Sequence[Scored], *, weights: Sequence[float]) -> dict[int, float]:
    """Average scores that are already comparable, by weight; an id that a list lacks counts 0."""
    fused: dict[int, float] = {}
    total = sum(weights) or 1.0
    for scores, weight in zip(lists, weights, strict=True):
        share = weight / total
        for key, score in scores.items():
            fused[key] = fused.get(key, 0.0) + share * score
    return fused


def normalise_scores(
    scores: Scored, how: Normalisation, *, bounded: bool = False
) -> dict[int, float]:
    """Scale scores to about 0…1.

    `bounded` marks a score that has this scale already, such as a cosine; the theoretical
    normalisation keeps it.
    """
    if not scores:
        return {}
    if how == "theoretical" and bounded:
        return {key: max(0.0, score) for key, score in scores.items()}
    return _SCALES[how](scores)


def _scale_by_best(scores: Scored) -> dict[int, float]:
    """Scale so that 0 is the least possible score, 1 the best of the list (TM2C2, Bruch 2023)."""
    best = max(scores.values())
    return {key: max(0.0, score) / best if best > 0 else 0.0 for key, score in scores.items()}


def _scale_by_range(scores: Scored) -> dict[int, float]:
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def _scale_by_spread(scores: Scored) -> dict[int, float]:
    """Scale so that three deviations below the mean is 0 and three above is 1."""
    mean = sum(scores.values()) / len(scores)
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores.values()) / len(scores))
    if spread == 0.0:
        return dict.fromkeys(scores, 0.5)
    return {key: ((score - mean) / spread + 3) / 6 for key, score in scores.items()}


_SCALES: dict[Normalisation, Callable[[Scored], dict[int, float]]] = {
    "theoretical": _scale_by_best,
    "minmax": _scale_by_range,
    "zscore": _scale_by_spread,
}
