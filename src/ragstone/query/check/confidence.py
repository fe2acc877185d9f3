"""One number from 0 to 1 for an answer: how probable it is that it is right.

How probable it is that the sources hold the answer (the sentence chooser's word, calibrated by
Platt's method on one half of the question sets; `bench/fit_confidence.py` writes the two constants
and `bench/grounding.py` prints the reliability on the other half), times how far they carry it.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache
from importlib import resources


@cache
def _constants() -> tuple[float, float]:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table = tomllib.loads(text)["confidence"]
    return float(table["slope"]), float(table["offset"])


def calibrated(probability: float) -> float:
    """The sentence chooser's probability as a share of right answers."""
    slope, offset = _constants()
    bounded = min(max(probability, 1e-6), 1 - 1e-6)
    return 1 / (1 + math.exp(-(slope * math.log(bounded / (1 - bounded)) + offset)))


def confidence(probability: float, grounded: float) -> float:
    return round(calibrated(probability) * min(max(grounded, 0.0), 1.0), 4)
