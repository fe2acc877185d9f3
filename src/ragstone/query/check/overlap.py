"""How much of one text stands in another: words and runs of three words, as shares from 0 to 1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def word_overlap(claim: str, evidence: str) -> float:
    """Harmonic mean of the shares of words that each has in common with the other."""
    left, right = Counter(words(claim)), Counter(words(evidence))
    shared = sum((left & right).values())
    return 2 * shared / (sum(left.values()) + sum(right.values())) if shared else 0.0


def support(claim: str, evidence: str) -> float:
    """The share of a claim's words, and of its runs of three, that the evidence holds."""
    left, right = words(claim), words(evidence)
    if not left:
        return 0.0
    known = set(right)
    by_word = sum(word in known for word in left) / len(left)
    if len(left) < 3:
        return by_word
    runs = set(_trigrams(right))
    mine = _trigrams(left)
    by_run = sum(run in runs for run in mine) / len(mine)
    return (by_word + by_run) / 2


def _trigrams(sequence: Sequence[str]) -> list[tuple[str, str, str]]:
    return list(zip(sequence, sequence[1:], sequence[2:], strict=False))
