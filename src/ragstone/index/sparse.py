"""Turn the terms of a chunk into a sparse vector, and compute its BM25 score from that vector.

A server stores the weights of the terms for one fixed average length. A search asks with the rarity
of the terms and scores the best hits again: the counts are computed back from the weights.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Weights are written for these values; a search computes the score for its own.
_K1, _B, _LENGTH = 1.2, 0.75, 100.0


@dataclass(frozen=True, slots=True)
class StoredTerms:
    """Hold what a server stores of a chunk for keyword search."""

    key: int
    length: int
    terms: Sequence[int]
    weights: Sequence[float]
    build: int = 0
    language: int = 0


def hash_term(term: str) -> int:
    """Hash a term to its index in sparse vectors: 1 of 4,300 in a million terms collides."""
    return zlib.crc32(term.encode())


def weigh_terms(counts: Counter[int]) -> list[float]:
    """Return the weight of each term, in the order of the counts."""
    norm = _K1 * (1 - _B + _B * counts.total() / _LENGTH)
    return [count * (_K1 + 1) / (count + norm) for count in counts.values()]


def score_terms(
    stored: StoredTerms, rarity: Mapping[int, float], average: float, *, k1: float, b: float
) -> float:
    """Compute BM25 of a chunk for the terms of a question."""
    stored_norm = _K1 * (1 - _B + _B * stored.length / _LENGTH)
    norm = k1 * (1 - b + b * stored.length / average)
    score = 0.0
    for term, weight in zip(stored.terms, stored.weights, strict=True):
        if term in rarity:
            count = round(weight * stored_norm / (_K1 + 1 - weight))
            score += rarity[term] * count * (k1 + 1) / (count + norm)
    return score
