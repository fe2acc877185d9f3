"""Fit the two constants that calibrate the probability of the sentence chooser.

    python bench/fit_confidence.py [--write]

Platt's method on the fitted half of squad2-dev-half, clapnq, xquad (en, de) and off-corpus
questions. Questions that were written to mislead (the unanswerable half of squad2) count a quarter:
they are half of that set and rare in life. bench/grounding.py reports the other half.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from fit_extractive import ROOT, fit_answering
from grounding import DATA, ReadQuestions

WEIGHTS = ROOT / "src/ragstone/query/check/weights.toml"
MISLEADING = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--share", type=float, default=0.3, help="of the squad questions")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    options = parser.parse_args()
    read = ReadQuestions(options.data, options.share)
    fits = ~read.report
    p = np.clip(read.probability, 1e-6, 1 - 1e-6)
    logit = np.log(p / (1 - p))[:, None]
    misleading = (read.corpus == "squad2-dev-half") & ~read.off & ~read.answerable
    importance = np.where(misleading, MISLEADING, 1.0)
    slope, offset = fit_answering(
        logit[fits], read.right[fits].astype(float), importance[fits], penalty=0.0
    )
    print(f"slope {slope[0]:.5g}, offset {offset:.5g}, from {fits.sum()} questions")
    if options.write:
        support = WEIGHTS.read_text("utf-8").partition("[confidence]")[0]
        WEIGHTS.write_text(
            f"{support}[confidence]\nslope = {slope[0]:.5g}\noffset = {offset:.5g}\n", "utf-8"
        )


if __name__ == "__main__":
    main()
