"""Run the sweeps behind the refine steps and the rest of fusion, on the tuning half: similarity
filter, near-duplicates, λ of MMR, the share of an embedder that does not know the script, and with
`--rerank` the weight of the cross-encoder over the first 20 hits.

    python bench/tune_refine.py
    python bench/tune_refine.py --rerank MODELS --queries 40   # slow: 20 pairs a question
    python bench/tune_refine.py --rerank MODELS --half report --weights 0.3

MODELS is where `ragstone models pull ms-marco-minilm-l12` put it. The scores of
pairs are kept in bench/cache, so that a second run costs nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluate.metrics import stratified_bootstrap
from ragstone.index.analyze import extract_query_terms, extract_terms
from ragstone.models.embedder import OnnxEmbedder
from ragstone.models.reranker import CrossEncoder
from ragstone.query.refine.select import find_distinct, maximal_marginal_relevance
from ragstone.query.retrieve.languages import is_known_script
from ranking import measure_ranking
from sets import CACHE, DEFAULT_DATA, Half, RetrievalSet, add_title, list_sets, load_set
from tune import Bm25, Scores, fuse_scores

DENSE_WEIGHT, FOREIGN_WEIGHT, DEPTH, FLOOR = 0.75, 0.4, 100, 2
MIN_SIMILARITIES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
DUPLICATES = (1.0, 0.99, 0.98, 0.97, 0.95, 0.9)
LAMBDAS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
FOREIGN_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.65)
RERANK_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RERANK_DEPTH = 20
# The width of the sigmoid over a logit; 0 is the list's own scale.
SHAPES = {"sigmoid": 1.0, "sigmoid of a half": 2.0, "sigmoid of a quarter": 4.0, "min-max": 0.0}
_HYPHENATED = re.compile(r"\w+(?:[-.']\w+)+")


@dataclass(frozen=True)
class Question:
    """A question with the scores of every document, and the fused list to refine."""

    text: str
    relevant: frozenset[int]
    dense: Scores
    keyword: Scores
    known_script: bool

    def ranked(self, weight: float | None = None) -> tuple[NDArray[np.int64], Scores]:
        if weight is None:
            weight = DENSE_WEIGHT if self.known_script else FOREIGN_WEIGHT
        scores = fuse_scores(self.dense, self.keyword, "theoretical", weight, DEPTH)
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        order = order[scores[order] > 0]
        return order, scores[order]


def keep_compounds(analyze: Callable[[str], Sequence[str]]) -> Callable[[str], list[str]]:
    """Extract terms, and keep `time-sharing` as one term too."""
    return lambda text: [*analyze(text), *_HYPHENATED.findall(text.casefold())]


def load_questions(
    one: RetrievalSet,
    half: Half,
    max_questions: int,
    embedder: OnnxEmbedder,
    *,
    hyphens: bool = False,
) -> list[Question]:
    for_documents = keep_compounds(extract_terms) if hyphens else extract_terms
    for_questions = keep_compounds(extract_query_terms) if hyphens else extract_query_terms
    index = Bm25([for_documents(text) for text in add_title(one.titles, one.texts)])
    return [
        Question(
            one.queries[at],
            one.judgements[one.query_ids[at]],
            (one.document_vectors @ one.query_vectors[at]).astype(np.float64),
            index.scores(for_questions(one.queries[at]), k1=1.2, b=0.75),
            is_known_script(embedder, one.queries[at]),
        )
        for at in one.take_half(half, max_questions=max_questions)
    ]


def compute_ndcg(ranking: Sequence[int], relevant: frozenset[int]) -> float:
    return measure_ranking([int(at) for at in ranking], relevant)[0]


def compute_recall(ranking: Sequence[int], relevant: frozenset[int]) -> float:
    return measure_ranking([int(at) for at in ranking], relevant)[1]


def sweep_set(one: RetrievalSet, asked: Sequence[Question]) -> dict[str, float]:
    """Return the mean of every variant on one dataset."""
    found: dict[str, list[float]] = defaultdict(list)
    for question in asked:
        relevant = question.relevant
        order, scores = question.ranked()
        vectors = one.document_vectors[order]
        for least in MIN_SIMILARITIES:
            kept = order[question.dense[order] >= least]
            kept = kept if len(kept) >= FLOOR else order[:FLOOR]
            found[f"similarity at least {least}, nDCG@10"].append(compute_ndcg(kept, relevant))
            found[f"similarity at least {least}, hits left"].append(len(kept))
        for threshold in DUPLICATES:
            kept = order[find_distinct(vectors, threshold=threshold)] if threshold < 1 else order
            found[f"duplicates from {threshold}, nDCG@10"].append(compute_ndcg(kept, relevant))
        spread = (scores - scores.min()) / ((scores.max() - scores.min()) or 1.0)
        for share in LAMBDAS:
            chosen = order[
                maximal_marginal_relevance(
                    spread.astype(np.float32), vectors, diversity_lambda=share, limit=10
                )
            ]
            found[f"λ {share}, nDCG@10"].append(compute_ndcg(chosen, relevant))
            found[f"λ {share}, recall@10"].append(compute_recall(chosen, relevant))
        if not question.known_script:
            for weight in FOREIGN_WEIGHTS:
                listed = question.ranked(weight)[0]
                found[f"foreign weight {weight}, nDCG@10"].append(compute_ndcg(listed, relevant))
        own = fuse_own_lists(question)
        found["each list's own similarities only, nDCG@10"].append(compute_ndcg(own, relevant))
        found["similarities completed, nDCG@10"].append(compute_ndcg(order, relevant))
    return {name: float(np.mean(values)) for name, values in found.items()}


def fuse_own_lists(question: Question) -> NDArray[np.int64]:
    """Fuse so that a hit of keywords alone has similarity 0."""
    weight = DENSE_WEIGHT if question.known_script else FOREIGN_WEIGHT
    first = np.argsort(-question.dense, kind="stable")[:DEPTH]
    second = np.argsort(-question.keyword, kind="stable")[:DEPTH]
    result = np.zeros(len(question.dense))
    result[first] += weight * question.dense[first]
    result[second] += (1 - weight) * question.keyword[second] / (question.keyword.max() or 1.0)
    return np.argsort(-result, kind="stable")[:DEPTH]


class PairScores:
    """The logits of the cross-encoder, computed once per pair."""

    def __init__(self, models: Path) -> None:
        self._encoder = CrossEncoder(models)
        self._file = CACHE / "rerank.jsonl"
        self._known: dict[str, float] = {}
        if self._file.is_file():
            self._known = dict(map(json.loads, self._file.read_text("utf-8").splitlines()))

    def of(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        names = [
            hashlib.sha256(f"{question}\0{text}".encode()).hexdigest()[:24] for text in passages
        ]
        missing = [at for at, name in enumerate(names) if name not in self._known]
        if missing:
            logits = self._encoder.score(question, [passages[at] for at in missing])
            with self._file.open("a", encoding="utf-8") as file:
                for at, logit in zip(missing, logits, strict=True):
                    self._known[names[at]] = round(float(logit), 5)
                    file.write(json.dumps([names[at], self._known[names[at]]]) + "\n")
        return np.array([self._known[name] for name in names])


def scale_logits(logits: NDArray[np.float64], shape: str) -> NDArray[np.float64]:
    """Scale logits to 0 to 1: each by a sigmoid of some width, or by the list."""
    if shape == "min-max":
        spread = float(logits.max() - logits.min()) or 1.0
        return (logits - logits.min()) / spread
    return np.array([1 / (1 + math.exp(-logit / SHAPES[shape])) for logit in logits])


def rerank(question: Question, logits: NDArray[np.float64], weight: float, shape: str) -> list[int]:
    order, scores = question.ranked()
    head = (1 - weight) * scores[:RERANK_DEPTH] + weight * scale_logits(logits, shape)
    first = order[:RERANK_DEPTH][np.argsort(-head, kind="stable")]
    return [*map(int, first), *map(int, order[RERANK_DEPTH:])]


def render_rerank_table(
    names: Sequence[str], options: argparse.Namespace, embedder: OnnxEmbedder
) -> None:
    pairs = PairScores(options.rerank)
    rows: dict[tuple[str, float], list[NDArray[np.float64]]] = {
        (shape, weight): [] for shape in SHAPES for weight in options.weights
    }
    plain: list[NDArray[np.float64]] = []
    for name in names:
        one = load_set(name, options.data, embedder)
        texts = add_title(one.titles, one.texts)
        asked = load_questions(one, options.half, options.queries, embedder)
        logits = [
            pairs.of(question.text, [texts[at] for at in question.ranked()[0][:RERANK_DEPTH]])
            for question in asked
        ]
        plain.append(np.array([compute_ndcg(q.ranked()[0].tolist(), q.relevant) for q in asked]))
        for (shape, weight), found in rows.items():
            values = [
                compute_ndcg(rerank(q, scores, weight, shape), q.relevant)
                for q, scores in zip(asked, logits, strict=True)
            ]
            found.append(np.array(values))
        print(f"{name}: {len(asked)} questions", flush=True)
    print(
        f"\n| weight | {' | '.join(names)} | mean | gain, 95 % |\n|---|{'---|' * (len(names) + 2)}"
    )
    for (shape, weight), found in rows.items():
        means = [float(values.mean()) for values in found]
        low, high = stratified_bootstrap(list(zip(found, plain, strict=True)))
        cells = " | ".join(f"{mean:.3f}" for mean in means)
        gain = f"{low:+.4f} to {high:+.4f}"
        print(f"| {shape}, {weight} | {cells} | **{np.mean(means):.4f}** | {gain} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--queries", type=int, default=100, help="maximum questions per dataset")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    parser.add_argument("--half", choices=["tune", "report"], default="tune")
    parser.add_argument("--rerank", type=Path, metavar="MODELS")
    parser.add_argument("--weights", type=float, nargs="+", default=RERANK_WEIGHTS)
    options = parser.parse_args()
    embedder = OnnxEmbedder()
    names = options.sets or list_sets(options.data)
    if options.rerank:
        render_rerank_table(names, options, embedder)
        return
    means: dict[str, list[float]] = defaultdict(list)
    for name in names:
        one = load_set(name, options.data, embedder)
        asked = load_questions(one, options.half, options.queries, embedder)
        found = sweep_set(one, asked)
        whole = load_questions(one, options.half, options.queries, embedder, hyphens=True)
        for label, given in (("split", asked), ("kept whole too", whole)):
            values = [
                compute_ndcg(np.argsort(-q.keyword, kind="stable")[:50], q.relevant) for q in given
            ]
            found[f"BM25, hyphenated words {label}, nDCG@10"] = float(np.mean(values))
        for variant, mean in found.items():
            means[variant].append(mean)
        print(f"{name} done", flush=True)
    for variant, values in means.items():
        each = " ".join(f"{value:.3f}" for value in values)
        print(f"{np.mean(values):8.4f}  {variant:45}  {each}")


if __name__ == "__main__":
    main()
