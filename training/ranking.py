"""Print the ranker's table: nDCG@10 of the first 20 hits, reordered by the rank head.

    PYTHONPATH=src:bench:. python -m training.ranking --model training/out/reading/model.onnx

The first 20 come from the convex fusion of BM25 and the shipped embedder (the weights of the
`balanced` preset). The rank score is blended with the fused one; the weight is chosen on the tune
halves of all sets together and reported on the report halves. Needs the product installed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer

import sets
from ragstone.models.embedder import OnnxEmbedder
from ranking import measure_ranking
from training.predict import Predictor
from training.rows import DATA, OUT

Array = np.ndarray[Any, Any]
SETS = (
    "squad2-dev-half",
    "anthropic-docs-rag",
    "codebase-contextual",
    "cranfield",
    "cisi",
    "cacm",
    "scifact",
)
DENSE, DEPTH, FIRST = 0.75, 100, 20
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def scale(values: Array) -> Array:
    """Bring values to 0..1."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def fuse(one: Any, questions: list[int]) -> list[tuple[Array, Array]]:
    """Return the first 20 documents and their fused scores for each question."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    texts = list(sets.add_title(one.titles, one.texts))
    index.index(bm25s.tokenize(texts, stemmer=stemmer, show_progress=False), show_progress=False)
    result = []
    for at in questions:
        words = bm25s.tokenize([one.queries[at]], stemmer=stemmer, show_progress=False)
        hits, marks = index.retrieve(words, k=min(DEPTH, len(texts)), show_progress=False)
        dense = one.document_vectors @ one.query_vectors[at]
        near = np.argsort(-dense)[:DEPTH]
        chosen = np.union1d(hits[0], near)
        keyword = np.zeros(len(texts))
        keyword[hits[0]] = scale(marks[0])
        vector = np.zeros(len(texts))
        vector[near] = scale(dense[near])
        total = DENSE * vector[chosen] + (1 - DENSE) * keyword[chosen]
        order = np.argsort(-total, kind="stable")[:FIRST]
        result.append((chosen[order], total[order]))
    return result


def rank_scores(predictor: Predictor, question: str, texts: list[str]) -> Array:
    """Return the rank head's score of each text."""
    return np.array([one.score for one in predictor.predict([(question, t) for t in texts])])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", type=Path, default=OUT / "reading/model.onnx")
    parser.add_argument("--tokenizer", type=Path, default=OUT / "base/tokenizer.json")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--most", type=int, default=60, help="questions of each half")
    parser.add_argument("--longest", type=int, default=192, help="tokens of a pair")
    options = parser.parse_args()
    sets.CACHE = OUT / "vectors"
    predictor = Predictor(options.model, options.tokenizer, longest=options.longest)
    embedder = OnnxEmbedder()
    results: dict[str, dict[str, Array]] = {}
    spent = count = 0.0
    for name in SETS:
        one = sets.load_set(name, options.data, embedder)
        results[name] = {}
        for half in ("tune", "report"):
            questions = one.take_half(half, max_questions=options.most)
            table = []
            for at, (hits, fused) in zip(questions, fuse(one, questions), strict=True):
                texts = [sets.add_title((one.titles[i],), (one.texts[i],))[0] for i in hits]
                begun = time.process_time()
                score = 1 / (1 + np.exp(-rank_scores(predictor, one.queries[at], texts) / 2))
                spent, count = spent + time.process_time() - begun, count + 1
                relevant = one.judgements[one.query_ids[at]]
                table.append(
                    [
                        measure_ranking(
                            list(
                                hits[
                                    np.argsort(
                                        -((1 - w) * scale(fused) + w * scale(score)), kind="stable"
                                    )
                                ]
                            ),
                            relevant,
                        )[0]
                        for w in WEIGHTS
                    ]
                )
            results[name][half] = np.array(table)
        means = {half: table.mean(0).round(3).tolist() for half, table in results[name].items()}
        print(name, means, flush=True)
    tune = np.mean([r["tune"].mean(0) for r in results.values()], axis=0)
    best = int(tune.argmax())
    print(
        "mean of the tune halves by weight:",
        dict(zip(WEIGHTS, tune.round(4).tolist(), strict=True)),
    )
    print(f"chosen weight {WEIGHTS[best]}; {1000 * spent / count:.0f} CPU ms a question of {FIRST}")
    print(
        "| set (report half) | questions | fused | rank head alone | blended | difference ± 95 % |"
    )
    print("|---|---|---|---|---|---|")
    for name, result in results.items():
        table = result["report"]
        gain = table[:, best] - table[:, 0]
        error = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
        means = table.mean(0)
        print(
            f"| {name} | {len(table)} | {means[0]:.3f} | {means[-1]:.3f} | {means[best]:.3f} | "
            f"{gain.mean():+.3f} ± {error:.3f} |"
        )


if __name__ == "__main__":
    main()
