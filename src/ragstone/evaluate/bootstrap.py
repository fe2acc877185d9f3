"""How sure a mean is, and a difference of means: questions drawn again with replacement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
Interval: TypeAlias = tuple[float, float]

ROUNDS = 2000
# Draws are made in blocks of about this many numbers: 16 MB.
_BLOCK = 2_000_000


def interval(values: Values, *, rounds: int = ROUNDS, seed: int = 0) -> Interval:
    """The 95 % interval of a mean."""
    if len(values) == 0:
        return 0.0, 0.0
    return _percentiles(_drawn_means(np.asarray(values, np.float64), rounds, seed))


def paired_bootstrap(
    ours: Values, theirs: Values, *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """The 95 % interval of the mean difference of two systems on the same questions."""
    return interval(np.asarray(ours) - np.asarray(theirs), rounds=rounds, seed=seed)


def stratified_bootstrap(
    pairs: Sequence[tuple[Values, Values]], *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """The same for the mean over sets, each set's questions drawn by themselves."""
    means = np.zeros(rounds)
    for number, (ours, theirs) in enumerate(pairs):
        means += _drawn_means(ours - theirs, rounds, seed + number) / len(pairs)
    return _percentiles(means)


def _drawn_means(values: Values, rounds: int, seed: int) -> Values:
    generator = np.random.default_rng(seed)
    at_once = max(1, _BLOCK // len(values))
    means = [
        values[generator.integers(0, len(values), (min(at_once, rounds - begun), len(values)))]
        .mean(axis=1)
        for begun in range(0, rounds, at_once)
    ]  # fmt: skip
    return np.concatenate(means)


def _percentiles(means: Values) -> Interval:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
