"""Measure late interaction over the first hits, against the search alone and the shipped reranker.

The vectors of single tokens come from the shipped embedder: its graph computes them before it
pools them. The score of a passage is MaxSim: each token of the question takes its most similar
token of the passage, and the mean of these is the score (Khattab and Zaharia 2020, "ColBERT").

    python bench/late_interaction.py --queries 50

Prints nDCG@10 for weights of the score in the blend, on the tuning half, and the CPU ms of a
question.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.evaluate.metrics import stratified_bootstrap
from ragstone.models.embedder import OnnxEmbedder, open_session, pad_rows, read_model_file
from ragstone.query.refine.rerank import ReadingScorer
from ragstone.reading.model import load_reading_model
from sets import DEFAULT_DATA, add_title, load_set
from tune_refine import Question, compute_ndcg, load_questions, scale_logits

SETS = ("cranfield", "squad2-dev-half", "codebase-contextual", "anthropic-docs-rag")
WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
# Output of the last layer, before pooling. A protobuf message that is appended to another is merged
# into it, so these bytes make it an output of the graph: model.graph.output.name.
HIDDEN = "t152"
_ADD_OUTPUT = b"\x3a\x08\x62\x06\x0a\x04" + HIDDEN.encode()
_SKIPPED = frozenset({101, 102})  # [CLS] and [SEP]


class TokenVectors:
    """Embed texts as one unit vector per token."""

    def __init__(self, embedder: OnnxEmbedder) -> None:
        self._embedder = embedder
        content = read_model_file(embedder.tokenizer_file.parent, "model.onnx")
        self._session = open_session(content + _ADD_OUTPUT, threads=1)

    def embed(self, text: str) -> NDArray[np.float32]:
        row = self._embedder.tokenizer.encode(text).ids[: self._embedder.max_tokens]
        ids, mask = pad_rows([row])
        hidden: Any = self._session.run([HIDDEN], {"input_ids": ids, "attention_mask": mask})[0][0]
        kept = hidden[[at for at, token in enumerate(row) if token not in _SKIPPED]]
        lengths = np.linalg.norm(kept, axis=1, keepdims=True)
        unit: NDArray[np.float32] = kept / np.maximum(lengths, 1e-6)
        return unit

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return the MaxSim of each passage, from -1 to 1."""
        asked = self.embed(question)
        return [float((asked @ self.embed(one).T).max(axis=1).mean()) for one in passages]


def order_by(
    question: Question, scores: NDArray[np.float64], weight: float, depth: int
) -> list[int]:
    order, fused = question.ranked()
    head = (1 - weight) * fused[:depth] + weight * scores
    first = order[:depth][np.argsort(-head, kind="stable")]
    return [*map(int, first), *map(int, order[depth:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--queries", type=int, default=50, help="maximum questions per dataset")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--half", choices=["tune", "report"], default="tune")
    parser.add_argument("--depths", type=int, nargs="*", default=(20, 50))
    options = parser.parse_args()
    embedder = OnnxEmbedder()
    tokens = TokenVectors(embedder)
    reading = ReadingScorer(load_reading_model())
    scorers: dict[str, Callable[[str, Sequence[str]], Sequence[float]]] = {
        "late interaction": tokens.score,
        "reading": reading.score,
    }
    found: dict[tuple[str, int, str, float], list[NDArray[np.float64]]] = defaultdict(list)
    spent: dict[tuple[str, int], list[float]] = defaultdict(list)
    plain: list[NDArray[np.float64]] = []
    for name in options.sets:
        one = load_set(name, options.data, embedder)
        texts = add_title(one.titles, one.texts)
        asked = load_questions(one, options.half, options.queries, embedder)
        plain.append(np.array([compute_ndcg(q.ranked()[0].tolist(), q.relevant) for q in asked]))
        values: dict[tuple[str, int, str, float], list[float]] = defaultdict(list)
        for question in asked:
            passages = [texts[at] for at in question.ranked()[0][: max(options.depths)]]
            for label, score in scorers.items():
                begun = time.process_time()
                given = np.array(score(question.text, passages))
                each = (time.process_time() - begun) * 1000 / max(len(passages), 1)
                for depth in options.depths:
                    spent[label, depth].append(each * min(depth, len(passages)))
                    head = given[:depth]
                    shapes = {"min-max": scale_logits(head, "min-max")}
                    if label == "reading":
                        shapes["sigmoid"] = scale_logits(head, "sigmoid of a quarter")
                    else:
                        shapes["as it is"] = head
                    for shape, scaled in shapes.items():
                        for weight in WEIGHTS:
                            listed = order_by(question, scaled, weight, depth)
                            values[label, depth, shape, weight].append(
                                compute_ndcg(listed, question.relevant)
                            )
        for variant, row in values.items():
            found[variant].append(np.array(row))
        print(f"{name}: {len(asked)} questions", flush=True)
    print_tables(options.sets, plain, found, spent)


def print_tables(
    names: Sequence[str],
    plain: Sequence[NDArray[np.float64]],
    found: dict[tuple[str, int, str, float], list[NDArray[np.float64]]],
    spent: dict[tuple[str, int], list[float]],
) -> None:
    means = [float(row.mean()) for row in plain]
    print(f"\n| reranker, first hits, scale, weight | {' | '.join(names)} | mean | gain, 95 % |")
    print(f"|---|{'---|' * (len(names) + 2)}")
    cells = " | ".join(f"{mean:.3f}" for mean in means)
    print(f"| none (`balanced`) | {cells} | **{np.mean(means):.4f}** | |")
    for (label, depth, shape, weight), rows in found.items():
        means = [float(row.mean()) for row in rows]
        low, high = stratified_bootstrap(list(zip(rows, plain, strict=True)))
        cells = " | ".join(f"{mean:.3f}" for mean in means)
        print(
            f"| {label}, {depth}, {shape}, {weight} | {cells} | **{np.mean(means):.4f}** "
            f"| {low:+.4f} to {high:+.4f} |"
        )
    for (label, depth), row in spent.items():
        print(f"{label}, first {depth}: {np.median(row):.0f} CPU ms a question (median)")


if __name__ == "__main__":
    main()
