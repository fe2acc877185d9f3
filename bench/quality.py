"""Measure retrieval quality on every dataset: each method, fusion and preset, and the peers, on the
half of the questions that was not used for tuning.

    python bench/quality.py                   # Ragstone alone
    .venv-bench/bin/python bench/quality.py --peers    # where the peers are: make bench
    python bench/quality.py --half tune       # what tuning looks at
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.engine import Engine
from ragstone.evaluate.metrics import paired_bootstrap, stratified_bootstrap
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import NewDocument, Vectors
from ragstone.settings import load_settings
from ragstone.types import Chunk, Document
from ranking import METRICS, measure_ranking
from sets import CACHE, DEFAULT_DATA, HERE, Half, RetrievalSet, add_title, list_sets, load_set

DEPTH = 50
PEERS = ("txtai", "haystack", "llama-index", "langchain", "lancedb")
Scores = NDArray[np.float64]

# Each system is a preset with changes; `method` is an option of the query.
SYSTEMS: dict[str, dict[str, Any]] = {
    "dense alone": {"preset": "minimal", "method": "semantic"},
    "BM25 alone": {"preset": "minimal", "method": "keyword"},
    "RRF 60": {"preset": "minimal", "retrieve.fusion": "rrf"},
    "convex, min-max, 0.5": {
        "preset": "minimal",
        "retrieve.normalisation": "minmax",
        "retrieve.dense_weight": 0.5,
        "retrieve.foreign_weight": 0.5,
    },
    "convex, z-score, 0.5": {
        "preset": "minimal",
        "retrieve.normalisation": "zscore",
        "retrieve.dense_weight": 0.5,
        "retrieve.foreign_weight": 0.5,
    },
    "convex, theoretical": {"preset": "minimal"},
    "minimal": {"preset": "minimal"},
    "classic": {"preset": "classic"},
    "balanced": {"preset": "balanced"},
}


class KnownEmbedder(OnnxEmbedder):
    """The shipped embedder with the known vectors of the questions."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Vectors] = {}

    def embed(self, texts: Any) -> Vectors:
        if all(text in self.known for text in texts):
            return np.stack([self.known[text] for text in texts])
        return super().embed(texts)


def open_engine(one: RetrievalSet, embedder: OnnxEmbedder, **flags: Any) -> Engine:
    """Open an engine over the documents, each one chunk; fill its store once."""
    stamp = hashlib.sha256(one.document_vectors.tobytes()).hexdigest()[:12]
    directory = CACHE / "engines" / f"{one.name.replace('/', '-')}-{stamp}"
    # Two sets have questions of more than a thousand characters.
    flags = {"data.directory": directory, "understand.max_chars": 100_000, **flags}
    fresh = not (directory / "complete").is_file()
    if fresh:
        shutil.rmtree(directory, ignore_errors=True)
    engine = Engine(load_settings(flags=flags, environ={}).settings, embedder=embedder)
    if fresh:
        _fill_catalog(engine, one)
        (directory / "complete").touch()
    return engine


def _fill_catalog(engine: Engine, one: RetrievalSet) -> None:
    batch = []
    for at, (title, text) in enumerate(zip(one.titles, one.texts, strict=True)):
        name = f"d{at}"
        document = Document(
            id=name,
            collection="default",
            source=name,
            name=name,
            media_type="text/plain",
            sha256=hashlib.sha256(f"{at}\0{text}".encode()).hexdigest(),
            text=text,
            chunk_count=1,
        )
        chunk = Chunk(
            document_id=name,
            index=0,
            text=text,
            start=0,
            end=len(text),
            document_name=name,
            heading_path=(title,) if title else (),
        )
        batch.append(NewDocument(document, (chunk,), one.document_vectors[at : at + 1]))
    engine.catalog.add(batch, embedder=engine.embedder.name)
    engine.index.refresh("default")


async def run_questions(
    one: RetrievalSet, embedder: KnownEmbedder, places: list[int], system: dict[str, Any]
) -> tuple[Scores, float]:
    """Return the metrics of every question, and the CPU ms of one search without embedding."""
    flags = {name: value for name, value in system.items() if name != "method"}
    engine = open_engine(one, embedder, **flags)
    embedder.known = dict(zip(one.queries, one.query_vectors, strict=True))
    rows = []
    begun = time.process_time()
    for at in places:
        hits = await engine.search(one.queries[at], method=system.get("method"), top_k=DEPTH)
        ranking = [int(hit.chunk.document_id[1:]) for hit in hits]
        rows.append(measure_ranking(ranking, one.judgements[one.query_ids[at]]))
    spent = (time.process_time() - begun) * 1000 / len(places)
    engine.close()
    return np.array(rows), spent


def run_peers(one: RetrievalSet, places: list[int], half: Half) -> dict[str, Scores]:
    """Return the rankings of the peers, made once in a separate process."""
    folder = CACHE / "peers" / f"{one.name.replace('/', '-')}-{half}-{len(places)}"
    if not (folder / "task.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "documents.npy", one.document_vectors)
        np.save(folder / "queries.npy", one.query_vectors[places])
        task = {
            "texts": add_title(one.titles, one.texts),
            "queries": [one.queries[at] for at in places],
        }
        (folder / "task.json").write_text(json.dumps(task))
    subprocess.run([sys.executable, HERE / "peers.py", folder], check=True, stdout=sys.stderr)
    scores = {}
    for peer in PEERS:
        rankings = json.loads((folder / f"{peer}.json").read_text())
        scores[peer] = np.array(
            [
                measure_ranking(ranking, one.judgements[one.query_ids[at]])
                for at, ranking in zip(places, rankings, strict=True)
            ]
        )
    return scores


def render_report(results: dict[str, dict[str, Scores]], cost: dict[str, float]) -> str:
    """Render Markdown tables: nDCG@10 by dataset, mean metrics, and balanced against each."""
    names = list(results)
    systems = list(next(iter(results.values())))
    lines = [f"| nDCG@10 | {' | '.join(names)} | mean |", f"|---|{'---|' * (len(names) + 1)}"]
    for system in systems:
        means = [results[name][system][:, 0].mean() for name in names]
        cells = " | ".join(f"{mean:.3f}" for mean in means)
        lines.append(f"| {system} | {cells} | **{np.mean(means):.4f}** |")
    lines += ["", f"| mean over the sets | {' | '.join(METRICS)} | CPU ms |", "|---|" + "---|" * 5]
    for system in systems:
        means = np.mean([results[name][system].mean(axis=0) for name in names], axis=0)
        milliseconds = f"{cost[system]:.1f}" if system in cost else ""
        cells = " | ".join(f"{mean:.4f}" for mean in means)
        lines.append(f"| {system} | {cells} | {milliseconds} |")
    return "\n".join([*lines, "", *_compare(results, systems)])


def _compare(results: dict[str, dict[str, Scores]], systems: list[str]) -> list[str]:
    lines = [
        "| balanced against | difference | 95 % interval | worse on (significantly) |",
        "|---|---|---|---|",
    ]
    for system in systems:
        if system in ("balanced", "careful"):
            continue
        pairs = [(found["balanced"][:, 0], found[system][:, 0]) for found in results.values()]
        low, high = stratified_bootstrap(pairs)
        mean = np.mean([(ours - theirs).mean() for ours, theirs in pairs])
        worse = [
            name
            for name, (ours, theirs) in zip(results, pairs, strict=True)
            if paired_bootstrap(ours, theirs)[1] < 0
        ]
        interval = f"{low:+.4f} to {high:+.4f}"
        lines.append(f"| {system} | {mean:+.4f} | {interval} | {', '.join(worse) or 'none'} |")
    return lines


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--half", choices=["tune", "report"], default="report")
    parser.add_argument("--queries", type=int, default=300, help="maximum questions per dataset")
    parser.add_argument("--sets", nargs="*", help="only these sets")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument(
        "--careful", type=Path, metavar="MODELS", help="with the cross-encoder there: slow"
    )
    options = parser.parse_args()
    embedder = KnownEmbedder()
    systems = dict(SYSTEMS)
    if options.careful:
        systems["careful"] = {"preset": "careful", "data.models": options.careful}
    results: dict[str, dict[str, Scores]] = {}
    spent: dict[str, list[float]] = {}
    for name in options.sets or list_sets(options.data):
        one = load_set(name, options.data, embedder)
        places = one.take_half(options.half, max_questions=options.queries)
        results[name] = {}
        for system, flags in systems.items():
            results[name][system], milliseconds = await run_questions(one, embedder, places, flags)
            spent.setdefault(system, []).append(milliseconds)
        if options.peers:
            results[name].update(run_peers(one, places, options.half))
        best = {system: f"{scores[:, 0].mean():.3f}" for system, scores in results[name].items()}
        print(f"{name}: {len(places)} questions, {best}", flush=True)
    table = render_report(results, {system: float(np.mean(cost)) for system, cost in spent.items()})
    print(f"\n{table}")
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / f"quality-{options.half}.md").write_text(table + "\n")
    means = {
        system: dict(
            zip(
                METRICS,
                np.mean(
                    [found[system].mean(axis=0) for found in results.values()], axis=0
                ).tolist(),
                strict=True,
            )
        )
        for system in systems
    }
    (out / f"quality-{options.half}.json").write_text(json.dumps(means, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
