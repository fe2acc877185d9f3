"""What a similarity threshold would keep and drop: the curve, and the value to recommend.

A threshold can only be judged by what it drops, so it is read off a run without one: among the
first hits of every question, the share of relevant hits and of all others at or above a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragstone.evaluate.run import Run

STEPS = tuple(round(step * 0.025, 3) for step in range(33))
# A threshold may cost this share of the relevant hits.
MOST_LOST = 0.01


@dataclass(frozen=True, slots=True)
class Kept:
    """What one threshold keeps, as shares."""

    threshold: float
    relevant_kept: float
    others_kept: float


def threshold_curve(run: Run) -> list[Kept]:
    """One line per step; empty when the run has no judged hits with a similarity."""
    relevant: list[float] = []
    others: list[float] = []
    labels = {one.id: set(one.grades) for one in run.dataset.questions}
    for outcome in run.outcomes:
        for label, _, similar in outcome.hits[:10]:
            if similar is not None:
                (relevant if label in labels[outcome.id] else others).append(similar)
    return curve_of(relevant, others)


def curve_of(relevant: Sequence[float], others: Sequence[float]) -> list[Kept]:
    if not relevant:
        return []
    good, bad = np.array(relevant), np.array(others)
    return [
        Kept(step, float((good >= step).mean()), float((bad >= step).mean()) if others else 0.0)
        for step in STEPS
    ]


def recommended(curve: Sequence[Kept], *, most_lost: float = MOST_LOST) -> float:
    """The highest threshold that loses at most this share of the relevant hits."""
    fitting = [one.threshold for one in curve if one.relevant_kept >= 1 - most_lost]
    return max(fitting, default=0.0)
