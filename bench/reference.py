"""Compare our figures with other code: BM25 alone with bm25s, dense alone with numpy, over the same
documents, questions and vectors, with the same measures.

    python bench/reference.py                       # scifact: minutes at first, seconds afterwards
    python bench/reference.py --sets cranfield
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import bm25s
import numpy as np
import Stemmer

from ragstone.evaluate.datasets import Dataset, load_dataset
from ragstone.evaluate.metrics import measure_rankings
from ragstone.evaluate.run import SEARCH_ALONE, Options, run_questions
from ragstone.evaluate.workbench import Workbench
from ragstone.index.analyze import extract_query_terms, extract_terms
from ragstone.settings import load_settings
from ragstone.settings.change import change_settings
from sets import CACHE, DEFAULT_DATA

DEPTH = 100


def rank_by_bm25s(
    dataset: Dataset, k1: float, b: float, *, own_words: bool
) -> dict[str, list[str]]:
    """Rank with bm25s; with `own_words` by its own tokenizer, stop words and stemmer."""
    texts = [one.contextual_text for one in dataset.passages]
    asked = [one.text for one in dataset.questions]
    if own_words:
        stemmer = Stemmer.Stemmer("english")
        cut = {"stopwords": "en", "stemmer": stemmer, "show_progress": False, "return_ids": False}
        documents, questions = bm25s.tokenize(texts, **cut), bm25s.tokenize(asked, **cut)
    else:
        documents = [list(extract_terms(text)) for text in texts]
        questions = [list(extract_query_terms(text)) for text in asked]
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index(documents, show_progress=False)
    found = {}
    for one, wanted in zip(dataset.questions, questions, strict=True):
        scores = index.get_scores(list(dict.fromkeys(wanted)))
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        found[one.id] = [dataset.passages[at].id for at in order if scores[at] > 0]
    return found


def rank_by_numpy(bench: Workbench) -> dict[str, list[str]]:
    """Rank by comparing every vector with every question."""
    dataset = bench.dataset
    engine = bench.open_engine(bench.settings)
    last = engine.catalog.counts("default").last_change
    changes = engine.catalog.changes("default", after=0, limit=last)
    chunks, vectors = engine.catalog.chunks_with_vectors([c.keys for c in changes], dimension=384)
    bench.embed_questions(dataset.questions)
    asked = bench.embedder.embed([one.text for one in dataset.questions])
    engine.close()
    orders = np.argsort(-(asked @ vectors.T), axis=1, kind="stable")[:, :DEPTH]
    return {
        one.id: [chunks[at].document_name for at in order]
        for one, order in zip(dataset.questions, orders, strict=True)
    }


def compute_mean(dataset: Dataset, rankings: dict[str, list[str]]) -> float:
    grades = {one.id: one.grades for one in dataset.questions}
    return float(np.mean(list(measure_rankings(grades, rankings)["ndcg@10"].values())))


async def measure_ours(bench: Workbench, method: str) -> float:
    settings = change_settings(bench.settings, SEARCH_ALONE)
    options = Options(method=method)  # type: ignore[arg-type]
    run = await run_questions(bench, settings, options, name=method)
    return compute_mean(bench.dataset, {one.id: list(one.ranking) for one in run.outcomes})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--sets", nargs="*", default=["scifact"])
    parser.add_argument("--work", type=Path, default=CACHE / "evaluate")
    options = parser.parse_args()
    print("| set | search | Ragstone | other | its nDCG@10 | difference |")
    print("|---|---|---|---|---|---|")
    for name in options.sets:
        # Whole documents, as the other systems have them: as long as the embedder reads.
        flags = {"evaluate.directory": options.work, "ingest.chunk_tokens": 512}
        settings = load_settings(flags=flags, environ={}).settings
        bench = Workbench(load_dataset(options.data / name), settings)
        bench.prepare()
        k1, b = settings.retrieve.bm25_k1, settings.retrieve.bm25_b
        keyword, dense = (asyncio.run(measure_ours(bench, one)) for one in ("keyword", "semantic"))
        same = compute_mean(bench.dataset, rank_by_bm25s(bench.dataset, k1, b, own_words=False))
        other = compute_mean(bench.dataset, rank_by_bm25s(bench.dataset, k1, b, own_words=True))
        exact = compute_mean(bench.dataset, rank_by_numpy(bench))
        for search, figure, label, theirs in (
            (f"BM25 alone, k1 {k1}, b {b}", keyword, "bm25s, our words", same),
            (f"BM25 alone, k1 {k1}, b {b}", keyword, "bm25s, its own words", other),
            ("dense alone", dense, "numpy, exact", exact),
        ):
            gap = figure - theirs
            print(f"| {name} | {search} | {figure:.4f} | {label} | {theirs:.4f} | {gap:+.4f} |")


if __name__ == "__main__":
    main()
