"""Fit the classifier of messages and sentences, and write its table.

    python -m training.classifier           # figures on rows kept out of the fit
    python -m training.classifier --write   # then fit on everything, write classifier.npz

Each head is a multinomial logistic regression over hashed pieces of words and words
(`ragstone.reading.classifier`), with an L2 penalty, fitted by L-BFGS. Each half of the rows is
scored by a fit to the other one; these scores give the temperature that makes probabilities
honest, and move the scores so that at most `MAX_TAKEN` of the ordinary rows of the hard sources
pass the threshold. The last fit takes all rows. No pack for reporting is read.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse import csr_matrix

from ragstone.reading.classifier import BITS, HEADS, compute_features, find_rows
from training.classifier_rows import SHARES, Row, read_rows
from training.rows import DATA, OUT, ROOT

TABLE = ROOT / "src/ragstone/reading/classifier.npz"
FITTED = OUT / "classifier"
MAX_TAKEN = {
    "intent": 0.02, "stands_alone": 0.02, "route": 0.015, "questions": 0.02, "injection": 0.0005,
}  # fmt: skip
THRESHOLDS = {"intent": 0.75, "stands_alone": 0.5, "route": 0.5, "questions": 0.5, "injection": 0.5}
_PENALTIES = {
    "intent": 2e-7,
    "stands_alone": 5e-7,
    "route": 4e-7,
    "questions": 5e-7,
    "injection": 1e-7,
}
_COLUMNS = {"intent": 150_000, "route": 25_000, "injection": 75_000}
_OTHER_COLUMNS = 20_000
_FOLDS = 2

Matrix = Any
Floats = NDArray[np.float64]


def build_matrix(texts: Sequence[str]) -> tuple[Matrix, NDArray[np.uint64]]:
    """Return the values of each text's features, and the hash of each column."""
    hashes, owners, values = [], [], []
    for begin in range(0, len(texts), 1000):
        some, of, worth = compute_features(texts[begin : begin + 1000])
        hashes.append(some)
        owners.append(of + begin)
        values.append(worth)
    known, columns = np.unique(np.concatenate(hashes), return_inverse=True)
    shape = len(texts), len(known)
    matrix = csr_matrix((np.concatenate(values), (np.concatenate(owners), columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix, known


def rate_columns(matrix: Matrix, target: NDArray[np.int64], weights: Floats) -> Floats:
    """Rate each column by how much its share differs between one label and the others."""
    present = matrix.copy()
    present.data = np.ones_like(present.data)
    rows = np.asarray(present.sum(axis=0)).ravel()
    best = np.zeros(matrix.shape[1])
    for label in np.unique(target)[1:]:
        mine = target == label
        here = present[mine].T @ (weights[mine] / weights[mine].sum())
        there = present[~mine].T @ (weights[~mine] / weights[~mine].sum())
        best = np.maximum(best, (here - there) ** 2 / (here + there + 1e-12))
    return np.where(rows > 1, best, 0.0)


def weigh(rows: Sequence[Row], head: str) -> Floats:
    total = Counter(row.source for row in rows)
    weights = np.array([SHARES[head][row.source] / total[row.source] for row in rows])
    return np.asarray(weights / weights.sum())


def fit(
    matrix: Matrix, target: NDArray[np.int64], weights: Floats, classes: int, penalty: float
) -> tuple[Floats, Floats]:
    """Fit weights and biases; the first label is the base and has none."""
    width, wanted = matrix.shape[1], np.eye(classes)[target]

    def compute_loss(flat: Floats) -> tuple[float, Floats]:
        table = flat.reshape(width + 1, classes - 1)
        logits = np.zeros((len(target), classes))
        logits[:, 1:] = matrix @ table[:-1] + table[-1]
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        error = ((np.exp(logits) - wanted) * weights[:, None])[:, 1:]
        gradient = np.vstack([matrix.T @ error, error.sum(axis=0)])
        gradient[:-1] += 2 * penalty * table[:-1]
        loss = -(weights * logits[np.arange(len(target)), target]).sum()
        return float(loss + penalty * (table[:-1] ** 2).sum()), gradient.ravel()

    begin = np.zeros((width + 1) * (classes - 1))
    found = minimize(compute_loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    table = found.x.reshape(width + 1, classes - 1)
    return table[:-1], table[-1]


def score_out_of_fold(
    matrix: Matrix, target: NDArray[np.int64], rows: Sequence[Row], head: str
) -> Floats:
    """Return the scores of each row by a fit to the rows of the other folds."""
    classes = len(HEADS[head])
    digests = [hashlib.sha256((row.group or row.text).encode()).digest() for row in rows]
    fold = np.array([digest[2] % _FOLDS for digest in digests])
    scores = np.zeros((len(rows), classes))
    for number in range(_FOLDS):
        fitted, others = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        weights = weigh([rows[at] for at in fitted], head)
        table, bias = fit(matrix[fitted], target[fitted], weights, classes, _PENALTIES[head])
        scores[others, 1:] = matrix[others] @ table + bias
    return scores


def to_probabilities(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def calibrate(
    scores: Floats, target: NDArray[np.int64], weights: Floats, hard: NDArray[np.bool_], head: str
) -> tuple[float, float]:
    """Return the factor that makes the probabilities honest, and what to take off each score."""

    def compute_loss(factor: float) -> float:
        found = to_probabilities(scores * factor)[np.arange(len(target)), target]
        return float(-(weights * np.log(found + 1e-12)).sum())

    factor = float(minimize_scalar(compute_loss, bounds=(0.2, 5), method="bounded").x)
    threshold = THRESHOLDS[head]
    others = np.logaddexp.reduce(scores[hard & (target == 0)][:, 1:] * factor, axis=1)
    allowed = float(np.quantile(others, 1 - MAX_TAKEN[head]))
    return factor, allowed - float(np.log(threshold / (1 - threshold)))


def print_figures(
    rows: Sequence[Row], target: NDArray[np.int64], scores: Floats, head: str, *, show: bool
) -> None:
    """Print for each label how many rows are found, and for each source how many are taken."""
    labels, found = HEADS[head], to_probabilities(scores)
    taken = 1 - found[:, 0] >= THRESHOLDS[head]
    likely = np.where(taken, found[:, 1:].argmax(axis=1) + 1, 0)
    for source in dict.fromkeys(row.source for row in rows):
        mine = np.array([row.source == source for row in rows])
        base = mine & (target == 0)
        print(f"  {source}: ordinary rows taken {int(taken[base].sum())} of {int(base.sum())}; "
              f"others found {int((likely == target)[mine & ~base].sum())} of "
              f"{int((mine & ~base).sum())}")  # fmt: skip
    for at in np.argsort(found[:, 0]) if show else ():
        if likely[at] != target[at]:
            print(f"    {1 - found[at, 0]:.2f} {labels[target[at]]} → {labels[likely[at]]} "
                  f"({rows[at].source}): {rows[at].text[:150]!r}")  # fmt: skip


def quantize(table: Floats) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each column to 127 steps of its largest weight."""
    scale = np.abs(table).max(axis=0) / 127
    return np.rint(table / scale).astype(np.int8), scale.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--head", choices=tuple(HEADS), action="append")
    parser.add_argument("--show", action="store_true", help="print the rows that go wrong")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    for head in options.head or HEADS:
        rows = read_rows(head, options.data)
        target = np.array([HEADS[head].index(row.label) for row in rows])
        weights = weigh(rows, head)
        matrix, hashes = build_matrix([row.text for row in rows])
        rating = rate_columns(matrix, target, weights)
        best = np.argsort(-rating, kind="stable")[: _COLUMNS.get(head, _OTHER_COLUMNS)]
        best = np.sort(best[rating[best] > 0])
        matrix, hashes, rating = matrix[:, best], hashes[best], rating[best]
        print(f"{head}: {len(rows)} rows, {len(best)} columns", flush=True)
        scores = score_out_of_fold(matrix, target, rows, head)
        hard = np.array([row.is_hard for row in rows])
        factor, shift = calibrate(scores, target, weights, hard, head)
        print(f"  scores times {factor:.2f}, less {shift:.2f}")
        scores = scores * factor
        scores[:, 1:] -= shift
        print_figures(rows, target, scores, head, show=options.show)
        if options.write:
            table, bias = fit(matrix, target, weights, len(HEADS[head]), _PENALTIES[head])
            FITTED.mkdir(parents=True, exist_ok=True)
            np.savez(FITTED / head, table=(table * factor).astype(np.float32), hashes=hashes,
                     bias=bias * factor - shift, rating=rating)  # fmt: skip
    if options.write:
        write_table()


def write_table() -> None:
    """Write one table of all heads; where two hashes meet in a row, the better column stays."""
    fitted = {head: np.load(FITTED / f"{head}.npz") for head in HEADS}
    hashes = np.concatenate([head["hashes"] for head in fitted.values()])
    ratings = np.concatenate([head["rating"] / head["rating"].max() for head in fitted.values()])
    best_last = hashes[np.argsort(ratings, kind="stable")]
    owners = np.zeros(1 << BITS, np.uint64)
    owners[find_rows(best_last)[0]] = best_last
    stored: dict[str, Any] = {"marks": find_rows(owners)[1]}
    for head, found in fitted.items():
        places = find_rows(found["hashes"])[0]
        kept = owners[places] == found["hashes"]
        small, scale = quantize(found["table"])
        lines = np.zeros((small.shape[1], 1 << BITS), np.int8)
        lines[:, places[kept]] = small[kept].T
        stored |= {f"weights_{head}": lines, f"scales_{head}": scale,
                   f"biases_{head}": found["bias"].astype(np.float32)}  # fmt: skip
        print(f"{head}: {int((~kept).sum())} of {len(kept)} columns gave way")
    np.savez_compressed(TABLE, **stored)
    print(f"{TABLE.name}: {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
