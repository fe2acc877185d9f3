"""Fit the check by words, which serves other languages than English, on one half of the claims.

    python bench/fit_support.py --data ../shared/data [--write]

Claims are split in two by their text; one half of wice, climate-fever and scifact fits (each set
as heavy as the others), the other is reported: AUROC of each signal and of the whole, and balanced
accuracy at the threshold that was best on the fitted half.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fit_answers import compute_auroc, fit_answering
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.check.words import FEATURES, compute_support_features
from ragstone.text import find_sentence_spans

ROOT = Path(__file__).parent.parent
WEIGHTS = ROOT / "src/ragstone/query/check/weights.toml"


def read_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def split_text(text: str) -> list[str]:
    return [text[start:end] for start, end in find_sentence_spans(text)]


def load_claims(data: Path) -> Iterator[tuple[str, str, list[str], bool]]:
    """Yield dataset, claim, sentences of the text, and whether it supports the claim."""
    for row in read_records(data / "wice/claim.dev.jsonl"):
        yield "wice", row["claim"], row["evidence"], row["label"] == "supported"
    for row in read_records(data / "climate-fever/pairs.jsonl"):
        if int(hashlib.sha256(row["claim"].encode()).hexdigest(), 16) % 4 < 2:
            supports = row["label"] == "SUPPORTS"
            yield "climate-fever", row["claim"], split_text(row["evidence"]), supports
    corpus = {row["_id"]: row["text"] for row in read_records(data / "scifact/corpus.jsonl")}
    for row in read_records(data / "scifact/claims_with_evidence.jsonl"):
        labels = {found["doc_id"]: found["label"] for found in row["evidence"]}
        for document in row["cited_doc_ids"]:
            if document in corpus:
                supports = labels.get(document) == "SUPPORT"
                yield "scifact", row["text"], split_text(corpus[document]), supports


def compute_balanced_accuracy(score: Any, y: Any, threshold: float) -> float:
    return float((np.mean(score[y] >= threshold) + np.mean(score[~y] < threshold)) / 2)


def find_best_threshold(score: Any, y: Any) -> float:
    """Return the threshold with the best balanced accuracy on the fitted half."""
    return max(
        np.linspace(0.05, 0.95, 91), key=lambda bar: compute_balanced_accuracy(score, y, bar)
    )


def compute_features(data: Path) -> tuple[Any, Any, Any, Any]:
    """Return dataset, label, features and half of every claim."""
    cache = ROOT / "bench/cache/support"
    cache.mkdir(parents=True, exist_ok=True)
    code = [ROOT / "src/ragstone/query/check" / f"{name}.py" for name in ("facts", "words")]
    stamp = hashlib.sha256(b"".join(file.read_bytes() for file in code)).hexdigest()[:12]
    kept = cache / f"features-{stamp}.pickle"
    rows = [row for row in load_claims(data) if row[2]]
    if kept.is_file():
        x = pickle.loads(kept.read_bytes())
    else:
        embedder = OnnxEmbedder()
        x = np.array(
            [compute_support_features(claim, text, embedder) for _, claim, text, _ in rows]
        )
        kept.write_bytes(pickle.dumps(x))
    y = np.array([supports for *_, supports in rows])
    name = np.array([row[0] for row in rows])
    fits = np.array([int(hashlib.md5(row[1].encode()).hexdigest(), 16) % 2 == 0 for row in rows])
    return name, y, x, fits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT / "../shared/data")
    parser.add_argument("--write", action="store_true", help=f"write {WEIGHTS.name}")
    options = parser.parse_args()
    name, y, x, fits = compute_features(options.data)
    importance = np.zeros(len(name))
    for one in set(name):
        for label in (True, False):
            these = (name == one) & (y == label)
            importance[these] = 1 / these.sum()
    # The penalty was chosen by cross-validation on the fitted half.
    weights, bias = fit_answering(x[fits], y[fits].astype(float), importance[fits], penalty=2e-2)
    score = 1 / (1 + np.exp(-(x @ weights + bias)))
    for one in dict.fromkeys(name):
        here, tuned = ~fits & (name == one), fits & (name == one)
        best = find_best_threshold(score[tuned], y[tuned])
        signals = ", ".join(
            f"{feature} {compute_auroc(x[here & y, i], x[here & ~y, i]):.3f}"
            for i, feature in enumerate(FEATURES)
        )
        print(
            f"{one}: {here.sum()} claims; "
            f"AUROC {compute_auroc(score[here & y], score[here & ~y]):.3f}, balanced accuracy "
            f"{compute_balanced_accuracy(score[here], y[here], best):.3f}; {signals}"
        )
    if options.write:
        lines = [f"{n} = {w:.5g}" for n, w in zip(FEATURES, weights, strict=True)]
        kept = WEIGHTS.read_text("utf-8").partition("[confidence]")
        WEIGHTS.write_text(
            "\n".join(
                [
                    "# Written by bench/fit_support.py: do not edit. Fitted on half of the claims",
                    "# of wice, climate-fever and scifact; bench/grounding.py reports the other.",
                    "[support]",
                    f"bias = {bias:.5g}",
                    *lines,
                    "",
                    "".join(kept[1:]),
                ]
            ),
            "utf-8",
        )


if __name__ == "__main__":
    main()
