"""One search pipeline after another over the same questions, at little cost.

What does not change between two settings is computed once: the questions' vectors, the lists of the
index, the chunks, the cross-encoder's scores. Everything else is the real pipeline.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ragstone.evaluate.bootstrap import Values
from ragstone.evaluate.datasets import Question
from ragstone.evaluate.metrics import labelled, ranking_measures
from ragstone.evaluate.workbench import Told, Workbench, quiet
from ragstone.plugins import PartContext
from ragstone.query.assemble import assemble
from ragstone.query.ladder import Ladder
from ragstone.query.pipeline import Pipeline
from ragstone.query.refine.rerank import CrossEncoderReranker
from ragstone.settings import Settings
from ragstone.stages import Catalog, Found, Index, Vectors, Within
from ragstone.trace import Trace
from ragstone.types import Chunk, Query

_TOP = 10
# So many questions are asked once more, with nothing remembered, to see what a value costs.
_TIMED = 15


class RememberedIndex:
    """An index that is asked only once for the same list."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._dense: dict[tuple[bytes, int], list[Found]] = {}
        self._keyword: dict[tuple[str, int, float, float], list[Found]] = {}

    def dense(
        self, collection: str, vector: Vectors, *, limit: int, within: Within | None = None
    ) -> list[Found]:
        if within is not None:
            return self._index.dense(collection, vector, limit=limit, within=within)
        key = (vector.tobytes(), limit)
        if key not in self._dense:
            self._dense[key] = self._index.dense(collection, vector, limit=limit)
        return self._dense[key]

    def keyword(
        self, collection: str, text: str, *, limit: int, k1: float, b: float,
        within: Within | None = None,
    ) -> list[Found]:  # fmt: skip
        if within is not None:
            return self._index.keyword(collection, text, limit=limit, k1=k1, b=b, within=within)
        key = (text, limit, k1, b)
        if key not in self._keyword:
            self._keyword[key] = self._index.keyword(collection, text, limit=limit, k1=k1, b=b)
        return self._keyword[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


class RememberedCatalog:
    """A catalog that reads a chunk only once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._chunks: dict[int, Chunk] = {}

    def chunks(self, keys: Iterable[int]) -> dict[int, Chunk]:
        wanted = list(keys)
        missing = [key for key in wanted if key not in self._chunks]
        if missing:
            self._chunks.update(self._catalog.chunks(missing))
        return {key: self._chunks[key] for key in wanted if key in self._chunks}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


class RememberedScores:
    """A cross-encoder that looks only once at the same question and text."""

    def __init__(self, encoder: Any, known: dict[tuple[str, str], float]) -> None:
        self._encoder = encoder
        self._known = known

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        missing = [text for text in dict.fromkeys(texts) if (question, text) not in self._known]
        if missing:
            scores = self._encoder.score(question, missing)
            for text, score in zip(missing, scores, strict=True):
                self._known[question, text] = float(score)
        return [self._known[question, text] for text in texts]


@dataclass(frozen=True, slots=True)
class Measured:
    """Settings on some questions: nDCG@10 of each, and the similarities of the first hits."""

    quality: Values
    relevant: tuple[float, ...]
    """Similarities of the relevant hits among the first ten."""
    others: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(self.quality.mean()) if len(self.quality) else 0.0


class Sweeper:
    """Measures settings on a dataset's questions."""

    def __init__(self, bench: Workbench, questions: Sequence[Question], told: Told = quiet) -> None:
        bench.learn_questions(questions, told)
        self._bench = bench
        self._engine = bench.engine(bench.settings)
        self._catalog = cast("Catalog", RememberedCatalog(self._engine.catalog))
        self._index = cast("Index", RememberedIndex(self._engine.index))
        self._scores: dict[tuple[str, str], float] = {}

    def close(self) -> None:
        self._engine.close()

    async def measure(self, settings: Settings, questions: Sequence[Question]) -> Measured:
        pipeline = self._pipeline(settings, remembering=True)
        rankings: dict[str, list[str]] = {}
        relevant: list[float] = []
        others: list[float] = []
        for question in questions:
            query = self._query(question, settings)
            hits = await pipeline.search(query, Trace(question.id))
            rankings[question.id] = labelled(question, [hit.chunk for hit in hits])
            wanted = question.grades
            for hit in hits:
                similar = hit.scores.similarity
                if similar is not None:
                    label = labelled(question, [hit.chunk])[0]
                    (relevant if label in wanted else others).append(similar)
        found = ranking_measures({one.id: one.grades for one in questions}, rankings)["ndcg@10"]
        quality = np.array([found[one.id] for one in questions if one.id in found])
        return Measured(quality, tuple(relevant), tuple(others))

    async def cpu_ms(self, settings: Settings, questions: Sequence[Question]) -> float:
        """CPU time of one search, with nothing remembered but the question's vector."""
        pipeline = self._pipeline(settings, remembering=False)
        timed = questions[:_TIMED]
        begun = time.process_time()
        for question in timed:
            await pipeline.search(self._query(question, settings), Trace(question.id))
        return (time.process_time() - begun) * 1000 / max(1, len(timed))

    def _pipeline(self, settings: Settings, *, remembering: bool) -> Pipeline:
        engine = self._engine
        index = self._index if remembering else engine.index
        catalog = self._catalog if remembering else engine.catalog
        context = PartContext(self._bench.placed(settings), self._bench.embedder, index)
        pipeline = assemble(context, catalog, engine.provider, Ladder()).line
        if not remembering:
            return pipeline
        refiners = [
            replace(one, encoder=cast("Any", RememberedScores(one.encoder, self._scores)))
            if isinstance(one, CrossEncoderReranker)
            else one
            for one in pipeline.refiners
        ]
        return replace(pipeline, refiners=refiners)

    def _query(self, question: Question, settings: Settings) -> Query:
        return Query(
            id=question.id, text=question.text, collection=self._bench.collection,
            method=settings.retrieve.method, top_k=_TOP, mmr_lambda=settings.refine.mmr_lambda,
        )  # fmt: skip
