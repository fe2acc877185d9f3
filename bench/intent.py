"""Fit the intent router on one half of smalltalk-vs-question, report on the other half, and look
for real questions that the hard rules would take for small talk.

    python bench/intent.py          # figures of the constants in use
    python bench/intent.py --fit    # new constants, from the half for tuning
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.understand.intent import (
    Exemplars,
    is_known_script,
    load_exemplars,
)
from ragstone.query.understand.small_talk import classify_small_talk, match_small_talk
from ragstone.settings import load_settings
from ragstone.text import normalize_words
from ragstone.types import SMALL_TALK
from sets import CACHE, DEFAULT_DATA, list_sets

# How much each kind of utterance counts in the fit, 100 for each retrieval set. Commands to a
# voice assistant are rare among questions to documents.
_COUNTS = {"smalltalk": 1500, "question": 1500, "oos": 100, "task": 150}


def compute_features(exemplars: Exemplars, text: str, vector: NDArray[np.float32]) -> list[float]:
    similarities = exemplars.vectors @ vector
    talk = np.array([intent in SMALL_TALK for intent in exemplars.intents])
    words = normalize_words(text)
    strange = sum(word not in exemplars.talk_words for word in words)
    return [
        float(np.sort(similarities[talk])[-3:].mean()),
        float(np.sort(similarities[~talk])[-3:].mean()),
        strange / max(1, len(words)),
        float(np.log1p(strange)),
        1.0,
    ]


def fit_weights(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]
) -> list[float]:
    """Fit a logistic regression with Newton's method."""
    beta = np.zeros(x.shape[1])
    for _ in range(200):
        p = 1 / (1 + np.exp(-x @ beta))
        gradient = x.T @ (weight * (p - y)) / weight.sum() + 1e-6 * beta
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x / weight.sum()
        beta -= np.linalg.solve(hessian + 1e-6 * np.eye(len(beta)), gradient)
    return [round(float(value), 2) for value in beta]


def embed_texts(texts: list[str], embedder: OnnxEmbedder) -> NDArray[np.float32]:
    stamp = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
    file = CACHE / f"intent-{stamp}.npy"
    if not file.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(file, embedder.embed(texts))
    vectors: NDArray[np.float32] = np.load(file)
    return vectors


def load_utterances(data: Path) -> tuple[list[str], list[str]]:
    """Return texts and labels of smalltalk-vs-question and of the retrieval sets."""
    lines = (data / "smalltalk-vs-question" / "train.jsonl").read_text("utf-8").splitlines()
    rows = [(row["text"], row["label"]) for row in map(json.loads, lines)]
    for name in list_sets(data):
        lines = (data / name / "queries.jsonl").read_text("utf-8").splitlines()
        rows += [(json.loads(line)["text"], f"set {name}") for line in lines]
    return [text for text, _ in rows], [label for _, label in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    texts, names = load_utterances(options.data)
    labels = np.array(names)
    halves = np.array([hashlib.sha256(text.encode()).digest()[0] % 2 for text in texts])
    embedder = OnnxEmbedder()
    exemplars = load_exemplars(embedder, own_file=None, cache=CACHE)
    vectors = embed_texts(texts, embedder)
    if options.fit:
        readable = np.array([is_known_script(embedder, text) for text in texts])
        x = np.array(
            [compute_features(exemplars, t, v) for t, v in zip(texts, vectors, strict=True)]
        )
        share = {label: 1 / (labels == label).sum() for label in set(names)}
        weight = np.array([_COUNTS.get(label, 100) * share[label] for label in names])
        tune = (halves == 0) & readable
        print(
            "constants:",
            fit_weights(x[tune], (labels == "smalltalk")[tune].astype(float), weight[tune]),
        )
        return
    threshold = load_settings(environ={}).settings.understand.intent_confidence
    begun = time.process_time()
    layer = []
    for text, vector in zip(texts, vectors, strict=True):
        if match_small_talk(text) is not None:
            layer.append(0)
        elif (talk := classify_small_talk(text)) is not None and talk.probability >= threshold:
            layer.append(1)
        elif not is_known_script(embedder, text):
            layer.append(2)
        else:
            layer.append(1 if exemplars.compare(text, vector).small_talk >= threshold else 2)
    routing = (time.process_time() - begun) * 1000 / len(texts)
    begun = time.process_time()
    for text in texts[:300]:
        embedder.embed([text])
    embedding = (time.process_time() - begun) * 1000 / 300
    taken = np.array(layer) < 2
    for half, name in ((0, "tuning half"), (1, "report half")):
        pair = (halves == half) & np.isin(labels, ["smalltalk", "question"])
        right = float((taken == (labels == "smalltalk"))[pair].mean())
        print(f"{name}: {right:.2%} of {pair.sum()} right (smalltalk against question)")
        for label in dict.fromkeys(names):
            mine = (halves == half) & (labels == label)
            print(f"    {label}: {taken[mine].mean():.2%} of {mine.sum()} taken for small talk")
    print(f"CPU ms per question: routing {routing:.2f}, embedding {embedding:.2f}")
    wrong = [
        text
        for text, label, at in zip(texts, names, layer, strict=True)
        if at == 0 and label != "smalltalk"
    ]
    others = int((labels != "smalltalk").sum())
    print(f"hard rules: {len(wrong)} of {others} other utterances taken for small talk {wrong}")


if __name__ == "__main__":
    main()
