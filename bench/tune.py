"""Run the sweeps behind the defaults, on the tuning half of the questions: the analyzer, BM25's k1
and b, and fusion with its normalisation, weight and depth.

    python bench/tune.py                     # about ten minutes on one core
    python bench/tune.py --sets cranfield    # one set
"""

from __future__ import annotations

import argparse
import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import Stemmer
from numpy.typing import NDArray

from ragstone.index.analyze import STOP_WORDS, extract_query_terms, extract_terms
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.retrieve.fuse import Normalisation, normalise_scores
from ranking import measure_ranking
from sets import DEFAULT_DATA, RetrievalSet, add_title, list_sets, load_set

Analyzer = Callable[[str], Sequence[str]]
Scores = NDArray[np.float64]
_english = Stemmer.Stemmer("english")


def split_words(text: str) -> list[str]:
    """Split into words in lower case."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char if char.isalnum() else " " for char in plain).split()


def stem_english(text: str) -> list[str]:
    """Drop English stop words and stem, whatever the language."""
    return [str(_english.stemWord(word)) for word in split_words(text) if word not in STOP_WORDS]


ANALYZERS: dict[str, tuple[Analyzer, Analyzer]] = {
    "words": (split_words, split_words),
    "English stems": (stem_english, stem_english),
    "in use": (extract_terms, extract_query_terms),
}
GRID = [(k1, b) for k1 in (0.9, 1.2, 1.6, 2.0) for b in (0.5, 0.75, 0.9)]
NORMALISATIONS: tuple[Normalisation, ...] = ("theoretical", "minmax", "zscore")
WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8)
DEPTHS = (50, 100, 200)


class Bm25:
    """Scores all documents at once: exact, and fast enough for datasets of this size."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self.lengths = np.array([len(document) for document in documents], dtype=np.float64)
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for at, document in enumerate(documents):
            for term, count in Counter(document).items():
                postings[term].append((at, count))
        self.postings = {term: np.array(found) for term, found in postings.items()}

    def scores(self, wanted: Sequence[str], *, k1: float, b: float) -> Scores:
        total = len(self.lengths)
        found = np.zeros(total)
        for term in dict.fromkeys(wanted):
            if term not in self.postings:
                continue
            places, counts = self.postings[term].T
            idf = math.log(1 + (total - len(places) + 0.5) / (len(places) + 0.5))
            norm = k1 * (1 - b + b * self.lengths[places] / self.lengths.mean())
            found[places] += idf * counts * (k1 + 1) / (counts + norm)
        return found


def compute_ndcg(scores: Scores, relevant: frozenset[int]) -> float:
    best = [int(at) for at in np.argsort(-scores, kind="stable")[:50] if scores[at] > 0]
    return measure_ranking(best, relevant)[0]


def fuse_scores(dense: Scores, keyword: Scores, how: str, weight: float, depth: int) -> Scores:
    """Return the fused score of every document of either list; 0 for the others."""
    first = np.argsort(-dense, kind="stable")[:depth]
    second = np.argsort(-keyword, kind="stable")[:depth]
    second = second[keyword[second] > 0]
    result = np.zeros(len(dense))
    if how == "rrf":
        result[first] += weight / (60 + np.arange(1, len(first) + 1))
        result[second] += (1 - weight) / (60 + np.arange(1, len(second) + 1))
        return result
    listed = np.union1d(first, second) if how == "theoretical" else first
    cosines = {int(at): float(dense[at]) for at in listed}
    matches = {int(at): float(keyword[at]) for at in second}
    for scores, share in (
        (normalise_scores(cosines, how, bounded=True), weight),  # type: ignore[arg-type]
        (normalise_scores(matches, how), 1 - weight),  # type: ignore[arg-type]
    ):
        for at, score in scores.items():
            result[at] += share * score + 1e-9
    return result


def sweep_set(one: RetrievalSet, max_questions: int) -> dict[str, float]:
    """Return the mean nDCG@10 of every variant on one dataset."""
    places = one.take_half("tune", max_questions=max_questions)
    relevant = {at: one.judgements[one.query_ids[at]] for at in places}
    texts = add_title(one.titles, one.texts)
    found: dict[str, list[float]] = defaultdict(list)
    for name, (for_documents, for_questions) in ANALYZERS.items():
        index = Bm25([for_documents(text) for text in texts])
        for at in places:
            wanted = for_questions(one.queries[at])
            for k1, b in GRID if name == "in use" else [(1.2, 0.75)]:
                scores = index.scores(wanted, k1=k1, b=b)
                found[f"BM25, {name}, k1 {k1}, b {b}"].append(compute_ndcg(scores, relevant[at]))
            if name != "in use":
                continue
            keyword = index.scores(wanted, k1=1.2, b=0.75)
            dense = (one.document_vectors @ one.query_vectors[at]).astype(np.float64)
            for how in ("rrf", *NORMALISATIONS):
                for weight in WEIGHTS:
                    for depth in DEPTHS:
                        scores = fuse_scores(dense, keyword, how, weight, depth)
                        label = f"{how}, weight {weight}, depth {depth}"
                        found[label].append(compute_ndcg(scores, relevant[at]))
    return {name: float(np.mean(values)) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--queries", type=int, default=100, help="maximum questions per dataset")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    options = parser.parse_args()
    embedder = OnnxEmbedder()
    means: dict[str, list[float]] = defaultdict(list)
    for name in options.sets or list_sets(options.data):
        for variant, mean in sweep_set(
            load_set(name, options.data, embedder), options.queries
        ).items():
            means[variant].append(mean)
        print(f"{name} done", flush=True)
    ranked = sorted(means, key=lambda variant: -float(np.mean(means[variant])))
    for variant in ranked:
        print(f"{np.mean(means[variant]):.4f}  {variant}")


if __name__ == "__main__":
    main()
