"""Measure embedders on the tuning sets: dense and hybrid search, the coded index, CPU time.

    python -m training.embedder.measure vectors NAME MODEL.onnx [--tokens 512]
    python -m training.embedder.measure tables minilm bge-small gte-small student [--half report]
    python -m training.embedder.measure weights student [--half tune]
    python -m training.embedder.measure codes student [--grow 200000]
    python -m training.embedder.measure speed MODEL.onnx …

`vectors` keeps what it computes under training/out/embedder-vectors; the others read that. Fusion
weights are chosen on the tune halves, for each embedder by itself; tables are of the report halves.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .data import DATA, ROOT, SETS, collect_documents, read_lines, stable_number
from .weights import Array

sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]

KEPT = ROOT / "training/out/embedder-vectors"
QUESTIONS = 300  # at most, of one half of one set
FORMER_WEIGHT, FORMER_FOREIGN = 0.65, 0.3  # shipped with all-MiniLM-L6-v2
WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8)
FOREIGN = {"xquad/ru"}  # in a script that the word pieces do not know
DEPTH = 100
BATCH_TOKENS = 256


class Collection:
    """One tuning set: documents, judged questions, and their halves."""

    def __init__(self, name: str, data: Path = DATA) -> None:
        self.name = name
        self.texts = list(collect_documents(data, name))
        rows = list(read_lines(data / name / "corpus.jsonl"))
        places = {str(row["_id"]): at for at, row in enumerate(rows)}
        judged: dict[str, set[int]] = {}
        for line in (data / name / "qrels.tsv").read_text().splitlines()[1:]:
            question, document, grade = line.split("\t")
            if int(grade) > 0:
                judged.setdefault(question, set()).add(places[document])
        rows = list(read_lines(data / name / "queries.jsonl"))
        rows = [row for row in rows if str(row["_id"]) in judged]
        self.questions = [str(row["text"]) for row in rows]
        self.ids = [str(row["_id"]) for row in rows]
        self.relevant = [frozenset(judged[one]) for one in self.ids]

    def take_half(self, half: str) -> list[int]:
        """Give the places of the questions of one half, in the order of their hash."""
        wanted = 0 if half == "tune" else 1
        hashed = sorted((stable_number(one), at) for at, one in enumerate(self.ids))
        return [at for number, at in hashed if number % 2 == wanted][:QUESTIONS]

    def vectors(self, model: str) -> tuple[Array, Array]:
        stem = self.name.replace("/", "-")
        return np.load(KEPT / model / f"{stem}.d.npy"), np.load(KEPT / model / f"{stem}.q.npy")

    def has_vectors(self, model: str) -> bool:
        return (KEPT / model / f"{self.name.replace('/', '-')}.d.npy").is_file()


# ── Vectors ───────────────────────────────────────────────────────────────────────────────────


def make_embedder(model: Path, tokens: int) -> Callable[[Sequence[str]], Array]:
    """Open a model; texts of similar length share a batch."""
    import onnxruntime as ort

    from .cut import open_tokenizer

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = ort.InferenceSession(str(model), settings, providers=["CPUExecutionProvider"])
    tokenizer = open_tokenizer()

    def run(rows: list[list[int]]) -> Array:
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for at, row in enumerate(rows):
            ids[at, : len(row)], mask[at, : len(row)] = row, 1
        found: Array = session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})[0]
        return found

    def embed(texts: Sequence[str]) -> Array:
        rows = [one.ids for one in tokenizer.encode_batch_fast(list(texts))]
        rows = [row if len(row) <= tokens else [*row[: tokens - 1], row[-1]] for row in rows]
        vectors = np.zeros((len(rows), 384), np.float32)
        batch: list[int] = []
        for at in sorted(range(len(rows)), key=lambda at: len(rows[at])):
            if batch and (len(batch) + 1) * len(rows[at]) > BATCH_TOKENS:
                vectors[batch], batch = run([rows[one] for one in batch]), []
            batch.append(at)
        vectors[batch] = run([rows[one] for one in batch])
        return vectors

    return embed


def compute_vectors(name: str, model: Path, tokens: int) -> None:
    embed = make_embedder(model, tokens)
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    for one in map(Collection, SETS):
        if not one.has_vectors(name):
            stem = one.name.replace("/", "-")
            np.save(folder / f"{stem}.q.npy", embed(one.questions))
            np.save(folder / f"{stem}.d.npy", embed(one.texts))
            print(name, one.name, flush=True)


# ── Tables ────────────────────────────────────────────────────────────────────────────────────


def ndcg(ranking: Sequence[int], relevant: frozenset[int]) -> float:
    gains = [1 / np.log2(at + 2) for at, place in enumerate(ranking[:10]) if place in relevant]
    return float(sum(gains) / sum(1 / np.log2(at + 2) for at in range(min(10, len(relevant)))))


def score(scores: Array, relevant: frozenset[int]) -> float:
    return ndcg(np.argsort(-scores, kind="stable")[:10].tolist(), relevant)


def measure_half(one: Collection, model: str, half: str, keyword: list[Array]) -> dict[str, Array]:
    """Measure nDCG@10 of every question for dense search and each kind of fusion."""
    from tune import fuse_scores

    documents, questions = one.vectors(model)
    found: dict[str, list[float]] = {}
    for at, words in zip(one.take_half(half), keyword, strict=True):
        dense = (documents @ questions[at]).astype(np.float64)
        row = {"dense": dense, "BM25": words}
        for how in ("theoretical", "minmax"):
            for weight in WEIGHTS:
                row[f"{how} {weight}"] = fuse_scores(dense, words, how, weight, DEPTH)
        for name, scores in row.items():
            found.setdefault(name, []).append(score(scores, one.relevant[at]))
    return {name: np.array(values) for name, values in found.items()}


def score_keywords(one: Collection, half: str) -> list[Array]:
    from tune import Bm25, extract_query_terms, extract_terms

    index = Bm25([extract_terms(text) for text in one.texts])
    return [
        index.scores(extract_query_terms(one.questions[at]), k1=1.2, b=0.75)
        for at in one.take_half(half)
    ]


def choose_fusion(tune: dict[str, dict[str, Array]]) -> tuple[str, str]:
    """Choose the fusion that is best on the tune halves, for known and for foreign scripts."""
    chosen = []
    for foreign in (False, True):
        sets = [rows for name, rows in tune.items() if (name in FOREIGN) == foreign]
        kinds = [kind for kind in next(iter(tune.values())) if kind not in ("dense", "BM25")]
        chosen.append(
            max(kinds, key=lambda kind: float(np.mean([rows[kind].mean() for rows in sets])))
            if sets
            else f"theoretical {FORMER_FOREIGN}"
        )
    return chosen[0], chosen[1]


def print_tables(models: Sequence[str], half: str) -> None:
    collections = [one for one in map(Collection, SETS) if all(map(one.has_vectors, models))]
    keyword = {
        which: {one.name: score_keywords(one, which) for one in collections}
        for which in ("tune", half)
    }
    results: dict[str, dict[str, dict[str, Array]]] = {"dense": {}, "hybrid": {}, "fitted": {}}
    for model in models:
        rows = {
            which: {
                one.name: measure_half(one, model, which, keyword[which][one.name])
                for one in collections
            }
            for which in ("tune", half)
        }
        known, foreign = choose_fusion(rows["tune"])
        print(f"{model}: fusion chosen on the tune halves: {known}; foreign script: {foreign}")
        for name, found in rows[half].items():
            former = FORMER_FOREIGN if name in FOREIGN else FORMER_WEIGHT
            kinds = {
                "dense": "dense",
                "hybrid": f"theoretical {former}",
                "fitted": foreign if name in FOREIGN else known,
            }
            for table, kind in kinds.items():
                results[table].setdefault(model, {})[name] = found[kind]
    titles = {
        "dense": "dense",
        "hybrid": f"hybrid, theoretical {FORMER_WEIGHT} (foreign script {FORMER_FOREIGN})",
        "fitted": "hybrid, fusion chosen on the tune halves for each embedder",
    }
    for table, title in titles.items():
        print_table(f"{title}, nDCG@10, {half} halves", results[table], models[0])


def print_weights(model: str, half: str) -> None:
    """Print the mean nDCG@10 of every fusion, for known and for foreign scripts."""
    rows = {
        one.name: measure_half(one, model, half, score_keywords(one, half))
        for one in map(Collection, SETS)
        if one.has_vectors(model)
    }
    for foreign in (False, True):
        sets = [found for name, found in rows.items() if (name in FOREIGN) == foreign]
        for kind in sets[0] if sets else ():
            mean = np.mean([found[kind].mean() for found in sets])
            print(f"{'foreign' if foreign else 'known'} script, {half}: {kind:16} {mean:.4f}")


def draw_means(values: Array, rounds: int = 2000) -> Array:
    """Draw the questions again with replacement, many times, and give the mean of each draw."""
    generator = np.random.default_rng(0)
    means: Array = values[generator.integers(0, len(values), (rounds, len(values)))].mean(1)
    return means


def print_table(title: str, results: dict[str, dict[str, Array]], base: str) -> None:
    names = list(results[base])
    print(f"\n| {title} | {' | '.join(names)} | mean | less {base} | worse on | better on |")
    print("|---" * (len(names) + 5) + "|")
    for model, rows in results.items():
        cells = " | ".join(f"{rows[name].mean():.3f}" for name in names)
        mean = np.mean([rows[name].mean() for name in names])
        pairs = [(rows[name], results[base][name]) for name in names]
        gain = np.mean([(ours - theirs).mean() for ours, theirs in pairs])
        draws = np.stack([draw_means(ours - theirs) for ours, theirs in pairs])
        low, high = np.percentile(draws.mean(0), [2.5, 97.5])
        bounds = {
            name: np.percentile(draw, [2.5, 97.5]) for name, draw in zip(names, draws, strict=True)
        }
        worse = ", ".join(name for name, (_, top) in bounds.items() if top < 0) or "none"
        better = ", ".join(name for name, (bottom, _) in bounds.items() if bottom > 0) or "none"
        print(
            f"| {model} | {cells} | **{mean:.4f}** | {gain:+.4f} ({low:+.4f} to {high:+.4f}) "
            f"| {worse} | {better} |"
        )


# ── Index and time ────────────────────────────────────────────────────────────────────────────


def grow_vectors(vectors: Array, size: int) -> Array:
    """Add copies with noise of length 0.4 until there are `size` vectors."""
    generator, parts = np.random.default_rng(0), [vectors]
    while (missing := size - sum(map(len, parts))) > 0:
        taken = vectors[generator.permutation(len(vectors))[:missing]]
        noisy = taken + generator.normal(0, 0.4 / np.sqrt(384), taken.shape)
        parts.append((noisy / np.linalg.norm(noisy, axis=1, keepdims=True)).astype(np.float32))
    return np.concatenate(parts)


def measure_codes(model: str, size: int) -> None:
    """Measure recall@10 of the coded index over the documents of all sets together.

    A result counts if it is as similar as the exact tenth: of copies any will do.
    """
    from ragstone.index.vectors import Codes, DenseIndex, VectorFile

    found = [one.vectors(model) for one in map(Collection, SETS) if one.has_vectors(model)]
    vectors = np.concatenate([documents for documents, _ in found]).astype(np.float32)
    vectors = grow_vectors(vectors, size)
    questions = np.concatenate([asked[:QUESTIONS] for _, asked in found]).astype(np.float32)
    file = VectorFile(384, np.arange(len(vectors), dtype=np.int64), np.ascontiguousarray(vectors))
    index = DenseIndex(file, dead=[], codes=Codes.train(file))
    hits = 0
    for question in questions:
        exact = vectors @ question
        tenth = np.partition(exact, -10)[-10] - 1e-6
        hits += sum(exact[one.key] >= tenth for one in index.search(question, limit=10, scope=None))
    print(f"{model}: recall@10 of the coded index {hits / len(questions) / 10:.4f}", end=" ")
    print(f"({len(vectors)} vectors, {len(questions)} questions)")


def measure_speed(models: Sequence[Path], rounds: int = 40) -> None:
    """Print CPU ms by number of tokens, the models taking turns so that load meets all of them."""
    import onnxruntime as ort

    sessions: list[Any] = []
    for model in models:
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        sessions.append(ort.InferenceSession(str(model), settings))
    for length in (10, 190, 500):
        ids = np.array([[101, *range(2000, 1998 + length), 102]])
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        spent: list[list[float]] = [[] for _ in models]
        for _ in range(rounds if length > 50 else 5 * rounds):
            for session, times in zip(sessions, spent, strict=True):
                begun = time.process_time()
                session.run(None, feed)
                times.append(1000 * (time.process_time() - begun))
        for model, times in zip(models, spent, strict=True):
            print(
                f"{model.parent.name}/{model.name}, {length} tokens: {min(times):.2f} CPU ms "
                f"at best, {np.median(times):.2f} median"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    vectors = commands.add_parser("vectors")
    vectors.add_argument("name")
    vectors.add_argument("model", type=Path)
    vectors.add_argument("--tokens", type=int, default=512)
    tables = commands.add_parser("tables")
    tables.add_argument("models", nargs="+")
    tables.add_argument("--half", choices=["tune", "report"], default="report")
    weights = commands.add_parser("weights")
    weights.add_argument("model")
    weights.add_argument("--half", choices=["tune", "report"], default="tune")
    codes = commands.add_parser("codes")
    codes.add_argument("model")
    codes.add_argument("--grow", type=int, default=0, help="number of vectors, with noisy copies")
    commands.add_parser("speed").add_argument("models", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "vectors":
        compute_vectors(options.name, options.model, options.tokens)
    elif options.command == "tables":
        print_tables(options.models, options.half)
    elif options.command == "weights":
        print_weights(options.model, options.half)
    elif options.command == "codes":
        measure_codes(options.model, options.grow)
    else:
        measure_speed(options.models)


if __name__ == "__main__":
    main()
