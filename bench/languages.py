"""Measure search in several languages, and questions in one language about documents in another.

    python bench/languages.py                                # the shipped embedder
    python bench/languages.py --models MODELS                # and the multilingual one

MODELS is where `ragstone models pull multilingual` put it. The sets are the languages
of xquad under `../shared/data`. bm25s with the stemmer of the language is the measure of keyword
search.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import bm25s
import numpy as np
import Stemmer

from ragstone.engine import Engine
from ragstone.evaluate.datasets import Dataset, hash_text, load_dataset
from ragstone.index.analyze import LANGUAGES
from ragstone.ingest.metadata import detect_language
from ragstone.models.embedder import OnnxEmbedder, build_embedder
from ragstone.protocols import Embedder, NewDocument, Vectors
from ragstone.settings import load_settings
from ragstone.types import Chunk, Document
from ranking import measure_ranking
from sets import DEFAULT_DATA

_DEPTH = 10


class RememberingEmbedder:
    """Embed every text once: the same questions are asked of several collections."""

    waits = False

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.name, self.dimension = embedder.name, embedder.dimension
        self.max_tokens = embedder.max_tokens
        self.languages = getattr(embedder, "languages", None)
        self._known: dict[str, Vectors] = {}

    def embed(self, texts: list[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])

    def token_starts(self, text: str) -> object:
        return self._embedder.token_starts(text)


def compute_ndcg(dataset: Dataset, rankings: dict[str, list[str]]) -> float:
    """Return the mean nDCG@10 over the questions of a set."""
    places = {passage.id: at for at, passage in enumerate(dataset.passages)}
    values = [
        measure_ranking(
            [places[one] for one in rankings[question.id]],
            {places[label] for label in question.grades},
        )[0]
        for question in dataset.questions
    ]
    return float(np.mean(values))


def take_questions(dataset: Dataset, count: int) -> Dataset:
    """Take the judged questions with the smallest hashes: the same ones in every language."""
    judged = [question for question in dataset.questions if question.grades]
    chosen = sorted(judged, key=lambda question: hash_text(question.id))[:count]
    return replace(dataset, questions=tuple(chosen))


def rank_with_bm25s(dataset: Dataset, language: str) -> dict[str, list[str]]:
    stemmer = Stemmer.Stemmer(LANGUAGES[language])
    options = {"stemmer": stemmer, "show_progress": False}
    if language in {"en", "de", "es", "ru", "tr", "zh"}:
        options["stopwords"] = language
    texts = [passage.contextual_text for passage in dataset.passages]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, **options), show_progress=False)
    questions = bm25s.tokenize([one.text for one in dataset.questions], **options)
    found, _ = index.retrieve(questions, k=_DEPTH, show_progress=False)
    ids = [passage.id for passage in dataset.passages]
    return {
        question.id: [ids[at] for at in row]
        for question, row in zip(dataset.questions, found, strict=True)
    }


def fill_engine(engine: Engine, dataset: Dataset) -> None:
    """Store every passage as a document of one chunk, with its language as an ingest finds it."""
    batch = []
    texts = [passage.contextual_text for passage in dataset.passages]
    vectors = engine.embedder.embed(texts)
    for at, (passage, text) in enumerate(zip(dataset.passages, texts, strict=True)):
        document = Document(
            id=f"d{at}", collection="default", source=f"d{at}", name=passage.id,
            media_type="text/plain", sha256=f"d{at}", text=text, status="indexed",
            metadata={"language": detect_language(text)}, chunk_count=1, created_at=0.0,
        )  # fmt: skip
        chunk = Chunk(document.id, 0, text, 0, len(text), document_name=passage.id)
        batch.append(NewDocument(document, (chunk,), vectors[at : at + 1]))
    engine.catalog.add(batch, embedder=engine.embedder.name)
    engine.index.refresh("default")


async def rank_with_engine(
    engine: Engine, questions: list[tuple[str, str]], method: str
) -> dict[str, list[str]]:
    rankings = {}
    for question_id, text in questions:
        hits = await engine.search(text, method=method, top_k=_DEPTH)
        names = [hit.chunk.document_name for hit in hits]
        rankings[question_id] = list(dict.fromkeys(names))
    return rankings


async def measure_language(
    language: str, dataset: Dataset, others: dict[str, Dataset], embedder: Embedder
) -> list[str]:
    """Measure one collection with its own questions, and with those of other languages."""
    preset = "multilingual" if embedder.name.startswith("use-") else "balanced"
    lines = []
    with tempfile.TemporaryDirectory() as directory:
        flags = {"data.directory": directory, "preset": preset, "understand.max_chars": 100_000}
        settings = load_settings(flags=flags).settings
        async with Engine(settings, embedder=embedder) as engine:
            fill_engine(engine, dataset)
            own = [(one.id, one.text) for one in dataset.questions]
            figures = [compute_ndcg(dataset, rank_with_bm25s(dataset, language))]
            for method in ("keyword", "semantic", "hybrid"):
                found = await rank_with_engine(engine, own, method)
                figures.append(compute_ndcg(dataset, found))
            lines.append(f"| {language} | " + " | ".join(f"{one:.3f}" for one in figures) + " |")
            for other, questions in others.items():
                asked = [(one.id, one.text) for one in questions.questions]
                values = [
                    compute_ndcg(dataset, await rank_with_engine(engine, asked, method))
                    for method in ("keyword", "semantic", "hybrid")
                ]
                cells = " | ".join(f"{one:.3f}" for one in values)
                lines.append(f"| {other} → {language} | | {cells} |")
    return lines


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA)
    parser.add_argument("--models", type=Path, help="the folder of pulled models")
    parser.add_argument("--queries", type=int, default=300, help="questions of each language")
    parser.add_argument("--only", default="", help="one embedder: shipped or multilingual")
    options = parser.parse_args()
    sets = {
        folder.name: take_questions(load_dataset(folder), options.queries)
        for folder in sorted((options.data / "xquad").iterdir())
        if folder.is_dir()
    }
    embedders: list[Embedder] = [] if options.only == "multilingual" else [OnnxEmbedder()]
    if options.models:
        flags = {"data.models": options.models, "preset": "multilingual"}
        embedders.append(build_embedder(load_settings(flags=flags).settings))
    for embedder in embedders:
        print(
            f"\n{embedder.name}\n\n| | bm25s | keyword | semantic | hybrid |\n|---|---|---|---|---|"
        )
        remembering = RememberingEmbedder(embedder)
        for language, dataset in sets.items():
            others = {name: one for name, one in sets.items() if language == "en" and name != "en"}
            for line in await measure_language(language, dataset, others, remembering):
                print(line, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
