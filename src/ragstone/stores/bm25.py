"""The BM25 formula, as pure functions, in the variant that tantivy and Lucene use."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence


def idf(frequencies: Sequence[int], total: int) -> list[float]:
    """ln(1 + (N - df + 0.5) / (df + 0.5)) for each term's document frequency."""
    return [math.log(1 + (total - df + 0.5) / (df + 0.5)) for df in frequencies]


def scores(
    wanted: Sequence[str],
    weights: Sequence[float],
    documents: Sequence[Sequence[str]],
    *,
    average_length: float,
    k1: float,
    b: float,
) -> list[float]:
    """Σ idf · tf·(k1+1) / (tf + k1·(1 - b + b·length/average)) for every document."""
    found: list[float] = []
    for document in documents:
        counts = Counter(document)
        norm = k1 * (1 - b + b * len(document) / average_length)
        score = 0.0
        for term, weight in zip(wanted, weights, strict=True):
            tf = counts[term]
            if tf:
                score += weight * tf * (k1 + 1) / (tf + norm)
        found.append(score)
    return found
