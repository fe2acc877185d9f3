"""Fit the two constants that turn the reader's score into a probability.

    python bench/answers.py --half dev    # and with --pack office, --pack everyday
    python bench/calibrate.py

Reads the answers that bench/answers.py wrote for the development halves, and prints the slope and
the offset of a logistic regression of "this answer is right" on the score, with the calibration
error.
"""

from __future__ import annotations

import json
import math

import numpy as np

from answers import CACHE, measure_calibration
from ragstone.reading.reader import estimate_score

FILES = ("dev.jsonl", "office-dev.jsonl", "everyday-dev.jsonl")
_STEPS, _RATE = 20_000, 0.05


def main() -> None:
    rows = [
        json.loads(line)
        for name in FILES
        if (CACHE / name).is_file()
        for line in (CACHE / name).read_text("utf-8").splitlines()
    ]
    read = [row for row in rows if row["status"] == "answered" and 0 < row["probability"] < 1]
    scores = np.array([estimate_score(row["probability"]) for row in read])
    right = np.array([float(row["grade"] == "right") for row in read])
    slope, offset = 0.3, 0.0
    for _ in range(_STEPS):
        error = 1 / (1 + np.exp(-(slope * scores + offset))) - right
        slope -= _RATE * 0.1 * float((error * scores).mean())
        offset -= _RATE * float(error.mean())
    fitted = [1 / (1 + math.exp(-(slope * score + offset))) for score in scores]
    error, area = measure_calibration(list(zip(fitted, map(bool, right), strict=True)))
    print(f"{len(read)} answers: slope {slope:.2f}, offset {offset:.2f}")
    print(f"ECE {error:.3f}, AUROC {area:.3f}")


if __name__ == "__main__":
    main()
