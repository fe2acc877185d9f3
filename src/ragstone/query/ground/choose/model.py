"""The two linear models behind an extractive answer, read from `weights.toml`.

`rank`: which of the sentences answers; `answer`: how probable it is that the first of them does.
`bench/fit_extractive.py` writes the weights and says in the file what they were fitted on.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from ragstone.query.ground.choose.features import CHEAP, FEATURES
from ragstone.stages import Vectors

# What the answer model sees beside the features of the best sentence.
OVERALL = ("share", "lead", "cosine_max", "coverage_around_max", "similarity_max")
_LARGEST_LEAD = 4.0


@dataclass(frozen=True, slots=True)
class Weights:
    """One weight per feature name; a name that is missing weighs nothing."""

    cheap: NDArray[np.float64]
    rank: NDArray[np.float64]
    answer: NDArray[np.float64]
    bias: float
    threshold: float
    """An answer less probable than this is not given."""
    enough: float
    """Sentences are added until their share of the ranking's probability reaches this."""


@cache
def shipped_weights() -> Weights:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return Weights(
        cheap=_row(table["cheap"], CHEAP),
        rank=_row(table["rank"], FEATURES),
        answer=_row(table["answer"], FEATURES + OVERALL),
        bias=float(table["bias"]),
        threshold=float(table["threshold"]),
        enough=float(table["enough"]),
    )


def _row(table: Mapping[str, float], names: Sequence[str]) -> NDArray[np.float64]:
    return np.array([table.get(name, 0.0) for name in names], dtype=np.float64)


def shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of a ranking as probabilities that add up to 1."""
    raised = np.exp(scores - scores.max())
    total: NDArray[np.float64] = raised / raised.sum()
    return total


def answer_features(rows: Vectors, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The features of the best sentence, and what can be said of all of them together."""
    order = np.argsort(-scores, kind="stable")
    best = rows[order[0]]
    lead = scores[order[0]] - scores[order[1]] if len(order) > 1 else _LARGEST_LEAD
    return np.concatenate([
        best,
        [
            shares(scores).max(),
            min(lead, _LARGEST_LEAD),
            rows[:, FEATURES.index("cosine")].max(),
            rows[:, FEATURES.index("coverage_around")].max(),
            rows[:, FEATURES.index("similarity")].max(),
        ],
    ]).astype(np.float64)  # fmt: skip


def probability(weights: Weights, rows: Vectors, scores: NDArray[np.float64]) -> float:
    """How probable it is that the best sentence answers the question."""
    logit = float(answer_features(rows, scores) @ weights.answer) + weights.bias
    return float(1.0 / (1.0 + np.exp(-logit)))
