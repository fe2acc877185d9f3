"""Our searches, measured by `run_questions`, against other people's code over the same chunks."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from ragstone.engine import Engine
from ragstone.evaluate.datasets import load_dataset
from ragstone.evaluate.metrics import label_chunks, measure_rankings
from ragstone.evaluate.run import SEARCH_ALONE, Options, ask_question
from ragstone.index.analyze import extract_query_terms, extract_terms
from ragstone.settings.change import change_settings
from ragstone.types import Chunk, RetrievalMethod

QUESTIONS = Path(str(resources.files("ragstone.samples") / "questions.jsonl"))


def chunks_of(engine: Engine) -> tuple[list[Chunk], np.ndarray]:
    last = engine.catalog.counts("default").last_change
    changes = engine.catalog.changes("default", after=0, limit=last)
    return engine.catalog.chunks_with_vectors([one.keys for one in changes], dimension=384)


def by_bm25s(chunks: list[Chunk], questions: list[str]) -> list[list[int]]:
    import bm25s

    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index([list(extract_terms(one.contextual_text)) for one in chunks], show_progress=False)
    orders = []
    for text in questions:
        scores = index.get_scores(list(dict.fromkeys(extract_query_terms(text))))
        orders.append([at for at in np.argsort(-scores, kind="stable")[:100] if scores[at] > 0])
    return orders


@pytest.mark.parametrize(
    ("method", "allowed"), [("keyword", 0.01), ("semantic", 0.005)], ids=["bm25s", "numpy"]
)
async def test_each_search_alone_measures_as_another_library_does(
    sample_engine: Engine, method: RetrievalMethod, allowed: float
) -> None:
    questions = [one for one in load_dataset(QUESTIONS).questions if one.targets]
    chunks, vectors = chunks_of(sample_engine)
    if method == "keyword":
        orders = by_bm25s(chunks, [one.text for one in questions])
    else:
        asked = sample_engine.embedder.embed([one.text for one in questions])
        orders = [list(np.argsort(-(vectors @ one), kind="stable")[:100]) for one in asked]
    theirs = {
        one.id: label_chunks(one, [chunks[at] for at in order])
        for one, order in zip(questions, orders, strict=True)
    }
    alone = Engine(
        change_settings(sample_engine.settings, SEARCH_ALONE),
        embedder=sample_engine.embedder,
        catalog=sample_engine.catalog,
        index=sample_engine.index,
    )
    ours = {
        one.id: (await ask_question(alone, one, Options(method=method), "default")).ranking
        for one in questions
    }
    grades = {one.id: one.grades for one in questions}
    means = [
        float(np.mean(list(measure_rankings(grades, found)["ndcg@10"].values())))
        for found in (ours, theirs)
    ]
    assert means[0] > 0.5
    assert abs(means[0] - means[1]) <= allowed
