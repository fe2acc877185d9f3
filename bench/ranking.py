"""Measure the ranking of one question, fast enough for large sweeps.

`ragstone.evaluate.metrics` has the same and more from ir-measures, a thousand times slower when it
is asked question by question; bench/reference.py compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

METRICS = ("ndcg@10", "recall@10", "recall@50", "mrr@10")


def measure_ranking(ranking: Sequence[int], relevant: AbstractSet[int]) -> list[float]:
    """Return the METRICS of a ranking, best document first."""
    gains = [1 / math.log2(rank + 1) for rank, at in enumerate(ranking[:10], 1) if at in relevant]
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(relevant)) + 1))
    first = next((rank for rank, at in enumerate(ranking[:10], 1) if at in relevant), None)
    return [
        sum(gains) / ideal,
        len(relevant.intersection(ranking[:10])) / len(relevant),
        len(relevant.intersection(ranking[:50])) / len(relevant),
        1 / first if first else 0.0,
    ]
