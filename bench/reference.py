"""Our figures against other people's code: BM25 alone against bm25s, dense alone against numpy,
over the same documents, questions and vectors, measured by the same measures.

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
from ragstone.evaluate.metrics import ranking_measures
from ragstone.evaluate.run import SEARCH_ALONE, Options, run_questions
from ragstone.evaluate.workbench import Workbench, changed
from ragstone.index.analyze import query_terms, terms
from ragstone.settings import load_settings
from sets import CACHE, DEFAULT_DATA

DEPTH = 100


def by_bm25s(dataset: Dataset, k1: float, b: float, *, own_words: bool) -> dict[str, list[str]]:
    """`own_words`: cut into words by bm25s itself, with its stop words and an English stemmer."""
    texts = [one.contextual_text for one in dataset.passages]
    asked = [one.text for one in dataset.questions]
    if own_words:
        stemmer = Stemmer.Stemmer("english")
        cut = {"stopwords": "en", "stemmer": stemmer, "show_progress": False,
               "return_ids": False}  # fmt: skip
        documents, questions = bm25s.tokenize(texts, **cut), bm25s.tokenize(asked, **cut)
    else:
        documents = [list(terms(text)) for text in texts]
        questions = [list(query_terms(text)) for text in asked]
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index(documents, show_progress=False)
    found = {}
    for one, wanted in zip(dataset.questions, questions, strict=True):
        scores = index.get_scores(list(dict.fromkeys(wanted)))
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        found[one.id] = [dataset.passages[at].id for at in order if scores[at] > 0]
    return found


def by_numpy(bench: Workbench) -> dict[str, list[str]]:
    """Every vector against every question, nothing else."""
    dataset = bench.dataset
    engine = bench.engine(bench.settings)
    last = engine.catalog.counts("default").last_change
    changes = engine.catalog.changes("default", after=0, limit=last)
    chunks, vectors = engine.catalog.indexable([c.keys for c in changes], dimension=384)
    bench.learn_questions(dataset.questions)
    asked = bench.embedder.embed([one.text for one in dataset.questions])
    engine.close()
    orders = np.argsort(-(asked @ vectors.T), axis=1, kind="stable")[:, :DEPTH]
    return {
        one.id: [chunks[at].document_name for at in order]
        for one, order in zip(dataset.questions, orders, strict=True)
    }


def mean(dataset: Dataset, rankings: dict[str, list[str]]) -> float:
    grades = {one.id: one.grades for one in dataset.questions}
    return float(np.mean(list(ranking_measures(grades, rankings)["ndcg@10"].values())))


async def ours(bench: Workbench, method: str) -> float:
    settings = changed(bench.settings, SEARCH_ALONE)
    options = Options(method=method)  # type: ignore[arg-type]
    run = await run_questions(bench, settings, options, name=method)
    return mean(bench.dataset, {one.id: list(one.ranking) for one in run.outcomes})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--sets", nargs="*", default=["scifact"])
    parser.add_argument("--work", type=Path, default=CACHE / "evaluate")
    options = parser.parse_args()
    print("| set | search | Ragstone | other | its nDCG@10 | difference |")
    print("|---|---|---|---|---|---|")
    for name in options.sets:
        settings = load_settings(flags={"evaluate.directory": options.work}, environ={}).settings
        bench = Workbench(load_dataset(options.data / name), settings)
        bench.prepare()
        k1, b = settings.retrieve.bm25_k1, settings.retrieve.bm25_b
        keyword, dense = (asyncio.run(ours(bench, one)) for one in ("keyword", "semantic"))
        same = mean(bench.dataset, by_bm25s(bench.dataset, k1, b, own_words=False))
        other = mean(bench.dataset, by_bm25s(bench.dataset, k1, b, own_words=True))
        exact = mean(bench.dataset, by_numpy(bench))
        for search, figure, label, theirs in (
            (f"BM25 alone, k1 {k1}, b {b}", keyword, "bm25s, our words", same),
            (f"BM25 alone, k1 {k1}, b {b}", keyword, "bm25s, its own words", other),
            ("dense alone", dense, "numpy, exact", exact),
        ):
            gap = figure - theirs
            print(f"| {name} | {search} | {figure:.4f} | {label} | {theirs:.4f} | {gap:+.4f} |")


if __name__ == "__main__":
    main()
