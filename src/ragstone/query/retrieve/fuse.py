"""Several ranked lists → one score per id. Pure functions; ties are broken by the caller, by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[int]], *, k: int = 60, weights: Sequence[float] | None = None
) -> dict[int, float]:
    """Sum of weight/(k + rank) over the lists in which an id appears, ranks from 1."""
    fused: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, key in enumerate(ranking, start=1):
            fused[key] = fused.get(key, 0.0) + weight / (k + rank)
    return fused


def convex_fusion(
    lists: Sequence[Mapping[int, float]], *, weights: Sequence[float]
) -> dict[int, float]:
    """Weighted mean of the lists' scores, each list brought to 0…1 by its own range.

    An id that a list does not hold counts as that list's lowest.
    """
    fused: dict[int, float] = {}
    total = sum(weights) or 1.0
    for scores, weight in zip(lists, weights, strict=True):
        normal = _normalised(scores)
        for key in scores:
            fused[key] = fused.get(key, 0.0) + weight / total * normal[key]
    return fused


def _normalised(scores: Mapping[int, float]) -> dict[int, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}
