"""Fit the numbers of the check on the dev halves: how the verifier and exact values are weighed.

    python bench/fit_check.py             # print the figures
    python bench/fit_check.py --write     # write them to src/ragstone/query/check/weights.toml

A logistic model over `SIGNALS` is fitted, the pack and each judged set with its own weight. Signals
whose weight has the wrong sign are left out: a missing value must not speak for a claim. The bar
is the score with the best rates, a false green mark weighing one refusal, moved to 0.6, the bar
of the check; the scores are stretched so that the middle one of the supported claims of the pack
above the bar gets 0.9, which is grounded. `denied_from` is the probability of "contradicted" that
at most one supported claim in twenty reaches. Run it again after every change of the model; a
CPU minute, most of it reading. What was read is kept in bench/cache until the model changes.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from claims import DATA, Pair, load_judged, load_pack
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Embedder
from ragstone.query.check.facts import VALUES, find_disagreements
from ragstone.query.check.support import (
    SIGNALS,
    SUPPORTED_FROM,
    compute_signals,
    says_support,
)
from ragstone.query.check.values import spell_values_like
from ragstone.query.check.verifier import WorkLimit, load_verifier
from ragstone.query.check.windows import find_windows, read_source
from ragstone.query.check.words import measure_meaning
from ragstone.reading.model import load_reading_model

ROOT = Path(__file__).parent.parent
WEIGHTS = ROOT / "src/ragstone/query/check/weights.toml"
JUDGED = ("wice", "scifact", "climate-fever")
# What users meet most is an answer about the right passage: the pack weighs as all others together.
SET_WEIGHTS = {"pack": 3.0, **dict.fromkeys(JUDGED, 1.0)}
MAX_DENIED = 0.05
PENALTY = 1e-3
AGAINST = ("contradicted", "values_missing", "names_missing")
FALSE_MARK = 1.0
TYPICAL = 0.9


def _log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))


def read_pair(pair: Pair, embedder: Embedder) -> tuple[Any, float, bool] | None:
    """Return the signals of the best window, its "contradicted", and whether it cannot pass."""
    verifier = load_verifier()
    assert verifier is not None, "the reading model is not installed"
    source = read_source(pair.evidence)
    windows = find_windows(pair.claim, 1, source)
    if not windows:
        return None
    limit = WorkLimit.of_seconds(1e6, 10**9)
    wordings = [
        (window, wording)
        for window in windows
        for wording in dict.fromkeys((pair.claim, spell_values_like(pair.claim, window.text)))
    ]
    read = verifier.verify([(wording, window.text) for window, wording in wordings], limit)
    both = [(one, scores) for (one, _), scores in zip(wordings, read, strict=True) if scores]
    window, scores = max(both, key=lambda one: one[1].supported)
    found = list(find_disagreements(pair.claim, window.text, pair.evidence))
    other = any(one.kind in VALUES and one.contradicts for one in found)
    refused = other or not says_support(scores, window.coverage, found)
    sentences = [unit.text for unit in source.units]
    meaning = measure_meaning(pair.claim, sentences, embedder)
    return compute_signals(scores, found, meaning), scores.contradicted, refused


def fit_logistic(x: Any, y: Any, weight: Any) -> tuple[Any, float]:
    """Fit a penalised logistic model by Newton's method."""
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    z = np.column_stack([(x - mean) / spread, np.ones(len(x))])
    ridge = np.diag([*[PENALTY] * x.shape[1], 1e-9])
    beta = np.zeros(z.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-z @ beta))
        slope = z.T @ (weight * (p - y)) + ridge @ beta
        curve = (z * (weight * p * (1 - p))[:, None]).T @ z + ridge
        beta -= np.linalg.solve(curve, slope)
    weights = beta[:-1] / spread
    return weights, float(beta[-1] - weights @ mean)


def fit_with_signs(x: Any, y: Any, weight: Any) -> tuple[Any, float]:
    """Fit without the signals whose weight has the wrong sign."""
    kept = list(range(x.shape[1]))
    while True:
        found, bias = fit_logistic(x[:, kept], y, weight)
        wrong = [
            at
            for at, value in zip(kept, found, strict=True)
            if SIGNALS[at] in AGAINST and value > 0
        ]
        if not wrong:
            weights = np.zeros(x.shape[1])
            weights[kept] = found
            return weights, bias
        kept = [at for at in kept if at not in wrong]


def compute_balanced_accuracy(passed: Any, y: Any) -> float:
    return float((passed[y].mean() + (~passed[~y]).mean()) / 2)


@contextmanager
def keep_readings() -> Iterator[None]:
    """Keep what the verifier read in a file, by the model's checksum."""
    verifier = load_verifier()
    assert verifier is not None, "the reading model is not installed"
    checksum = hashlib.sha256((load_reading_model().directory / "model.onnx").read_bytes())
    path = ROOT / "bench/cache" / f"check-{checksum.hexdigest()[:12]}.pickle"
    if path.is_file():
        verifier.kept.update(pickle.loads(path.read_bytes()))
    yield
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(dict(verifier.kept)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--most", type=int, default=300, help="claims of each judged set")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    options = parser.parse_args()
    pairs = load_pack(dev=True) + load_judged(options.data, dev=True, most=options.most)
    embedder = OnnxEmbedder()
    with keep_readings():
        read = [(pair, found) for pair in pairs if (found := read_pair(pair, embedder)) is not None]
    x = np.array([found[0] for _, found in read])
    y = np.array([pair.supports for pair, _ in read])
    contradicted = np.array([found[1] for _, found in read])
    vetoed = np.array([found[2] for _, found in read])
    group = np.array([pair.group if pair.group in JUDGED else "pack" for pair, _ in read])
    weight = np.zeros(len(y))
    for name, share in SET_WEIGHTS.items():
        for label in (True, False):
            here = (group == name) & (y == label)
            weight[here] = share / here.sum()
    weights, bias = fit_with_signs(x, y.astype(float), weight / weight.sum())
    pack = group == "pack"
    limits = np.sort(contradicted[pack & y])
    denied_from = float(min(0.9999, max(0.5, limits[int((1 - MAX_DENIED) * len(limits))])))
    vetoed |= contradicted >= denied_from
    score = np.where(vetoed, -99.0, x @ weights + bias)

    def rate(bar: float) -> float:
        """Weigh a green mark on a false claim heavier than a refused true one."""
        total = 0.0
        for name, share in SET_WEIGHTS.items():
            passed, true = score[group == name] >= bar, y[group == name]
            total += share * (passed[true].mean() + FALSE_MARK * (~passed[~true]).mean())
        return total

    bar = max(np.quantile(score[score > -50], np.linspace(0.02, 0.98, 193)), key=rate)
    for name in SET_WEIGHTS:
        here = group == name
        passed = score[here] >= bar
        print(
            f"{name}: {here.sum()} claims, balanced accuracy "
            f"{compute_balanced_accuracy(passed, y[here]):.3f}; others refused "
            f"{(~passed[~y[here]]).mean():.3f}, supported refused {(~passed[y[here]]).mean():.3f}"
        )
    shown = ", ".join(f"{name} {value:.3f}" for name, value in zip(SIGNALS, weights, strict=True))
    print(f"denied_from {denied_from:.5f}; {shown}")
    if options.write:
        usual = np.median(x[pack, SIGNALS.index("meaning")])
        above = score[pack & y & (score >= bar)]
        stretch = (_log_odds(TYPICAL) - _log_odds(SUPPORTED_FROM)) / (np.median(above) - bar)
        weights, bias = weights * stretch, (bias - bar) * stretch + _log_odds(SUPPORTED_FROM)
        lines = [f"{name} = {value:.5g}" for name, value in zip(SIGNALS, weights, strict=True)]
        before = WEIGHTS.read_text("utf-8").partition("# Written by bench/fit_check.py")[0]
        table = [
            "# Written by bench/fit_check.py: do not edit. Fitted on the dev halves.",
            "[verifier]",
            *lines,
            f"bias = {bias:.5g}",
            f"denied_from = {denied_from:.5g}",
            f"usual_meaning = {usual:.5g}",
        ]
        WEIGHTS.write_text(before + "\n".join(table) + "\n", "utf-8")


if __name__ == "__main__":
    main()
