"""Settings that fit a set of questions: each value searched in turn on one half of the questions,
and the outcome checked on the other half, which the search never sees.

A value is taken only when it is better by more than the standard error of the paired difference:
smaller gains are chance more often than not, and a setting that stays as it is needs no reason.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ragstone.errors import InputError
from ragstone.evaluate.compare import Kept, curve_of, recommended
from ragstone.evaluate.datasets import Dataset, Question
from ragstone.evaluate.metrics import Interval, Values, labelled, paired_bootstrap, ranking_measures
from ragstone.evaluate.workbench import Told, Workbench, changed, quiet
from ragstone.models.cache import QuestionBatcher, remembered
from ragstone.plugins import PartContext
from ragstone.protocols import Catalog, Found, Index, Vectors, Within
from ragstone.query.answer import Pipeline
from ragstone.query.build import build_pipeline
from ragstone.query.fallback import Fallbacks
from ragstone.query.refine.rerank import CrossEncoderReranker
from ragstone.settings import Settings, preset_values
from ragstone.trace import QueryRun
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
            hits = (await pipeline.search(query, QueryRun(question.id))).hits
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
            await pipeline.search(self._query(question, settings), QueryRun(question.id))
        return (time.process_time() - begun) * 1000 / max(1, len(timed))

    def _pipeline(self, settings: Settings, *, remembering: bool) -> Pipeline:
        engine = self._engine
        index = self._index if remembering else engine.index
        catalog = self._catalog if remembering else engine.catalog
        vectors = remembered(self._bench.embedder)
        context = PartContext(
            self._bench.placed(settings),
            vectors,
            index,
            catalog,
            Fallbacks(),
            QuestionBatcher(vectors),
            provider=engine.provider,
            quoting=engine.provider,
        )
        pipeline = build_pipeline(context)
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


# In the order of the pipeline: what a later step sees depends on the earlier ones.
SPACE: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("retrieve.bm25_k1", (0.6, 0.9, 1.2, 1.6, 2.0)),
    ("retrieve.bm25_b", (0.3, 0.5, 0.75, 0.9)),
    ("retrieve.dense_weight", (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9)),
    ("retrieve.candidates", (20, 50, 100, 200)),
    ("refine.rerank_top_k", (5, 10, 20, 40)),
    ("refine.rerank_weight", (0.1, 0.2, 0.3, 0.5, 0.7)),
    ("refine.mmr_lambda", (0.5, 0.7, 0.85, 0.95, 1.0)),
)
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class Tried:
    """One value: mean nDCG@10 on the tuning half, and CPU milliseconds per search."""

    value: float
    quality: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Swept:
    """All values of one setting, the one before and the one taken."""

    path: str
    tried: tuple[Tried, ...]
    before: float
    taken: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning found, and what the held-back half says of it."""

    dataset: Dataset
    settings: Settings
    """Those it began with."""
    swept: tuple[Swept, ...]
    curve: tuple[Kept, ...]
    threshold: float
    """The recommended similarity threshold."""
    values: Mapping[str, float]
    """What to set, by path; empty when nothing better was found."""
    before: float
    after: float
    interval: Interval
    tuned_on: int
    checked_on: int
    kept_on_check: Kept | None = None
    """What the recommended threshold keeps on the held-back half."""
    rejected: Mapping[str, float] = field(default_factory=dict)
    """What looked better on the tuning half and was not on the other."""

    @property
    def sentence(self) -> str:
        low, high = self.interval
        if not self.values:
            return (
                f"Keep the settings as they are: nothing did better on the held-back half "
                f"(nDCG@10 {self.before:.4f}, {self.checked_on} questions)."
            )
        return (
            f"nDCG@10 on the held-back half: {self.before:.4f} → {self.after:.4f} "
            f"({self.after - self.before:+.4f}, 95 % {low:+.4f} to {high:+.4f}, "
            f"{self.checked_on} questions)."
        )


async def tune(
    bench: Workbench, *, most: int = 400, check: int = 1000, told: Told = quiet
) -> Tuned:
    """Search the space on one half, check on the other."""
    judged = _judged(bench.dataset)
    learning = judged.half("tune").limited(most).questions
    holding = judged.half("report").limited(check).questions
    if min(len(learning), len(holding)) < _FEWEST:
        raise InputError(
            f"The dataset '{bench.dataset.name}' has too few judged questions to tune on: "
            f"{len(learning)} and {len(holding)} in its halves.",
            hint=f"Each half needs {_FEWEST}; --from-documents makes questions from documents.",
        )
    sweeper = Sweeper(bench, [*learning, *holding], told)
    try:
        return await _tuned(bench, sweeper, learning, holding, told)
    finally:
        sweeper.close()


def _judged(dataset: Dataset) -> Dataset:
    """Only what has a target that can be searched for."""
    judged = [one for one in dataset.questions if one.grades and one.given is None]
    return replace(dataset, questions=tuple(judged))


async def _tuned(
    bench: Workbench, sweeper: Sweeper, learning: Sequence[Question],
    holding: Sequence[Question], told: Told,
) -> Tuned:  # fmt: skip
    start = bench.settings
    current = changed(start, {"refine.min_similarity": 0.0})
    best = await sweeper.measure(current, learning)
    swept: list[Swept] = []
    space = [(path, values) for path, values in SPACE if _applies(path, start)]
    for number, (path, values) in enumerate(space):
        told(f"tuning {path}", number, len(space))
        step, current, best = await _sweep(sweeper, current, best, path, values, learning)
        swept.append(step)
    curve = curve_of(best.relevant, best.others)
    threshold = recommended(curve)
    told("checking", len(space), len(space))
    found = {one.path: one.taken for one in swept if one.taken != one.before}
    chosen, rejected, first, last = await _checked(
        sweeper, start, {**found, "refine.min_similarity": threshold}, holding
    )
    plain = await sweeper.measure(current, holding)
    return Tuned(
        bench.dataset, start, tuple(swept), tuple(curve), threshold, chosen, first.mean, last.mean,
        paired_bootstrap(last.quality, first.quality), len(learning), len(holding),
        _at(curve_of(plain.relevant, plain.others), threshold), rejected,
    )  # fmt: skip


def _at(curve: Sequence[Kept], threshold: float) -> Kept | None:
    return next((one for one in curve if one.threshold == threshold), None)


def _applies(path: str, settings: Settings) -> bool:
    if path.startswith("refine.rerank"):
        return settings.refine.reranker_enabled and settings.refine.reranker == "cross_encoder"
    method = settings.retrieve.method
    if path == "retrieve.dense_weight":
        return method == "hybrid" and settings.retrieve.fusion == "convex"
    return method != "semantic" if path.startswith("retrieve.bm25") else True


async def _sweep(
    sweeper: Sweeper, current: Settings, best: Measured, path: str, values: Sequence[float],
    questions: Sequence[Question],
) -> tuple[Swept, Settings, Measured]:  # fmt: skip
    """Try each value of one setting; the next sweep begins with the one taken."""
    before = float(value_at(current, path))
    tried: list[Tried] = []
    taken, taken_settings, taken_measured = before, current, best
    for value in sorted({*values, before}):
        settings = changed(current, {path: value})
        measured = best if value == before else await sweeper.measure(settings, questions)
        tried.append(Tried(value, measured.mean, await sweeper.cpu_ms(settings, questions)))
        better = measured.mean > taken_measured.mean
        if better and is_gain(measured.quality, best.quality):
            taken, taken_settings, taken_measured = value, settings, measured
    return Swept(path, tuple(tried), before, taken), taken_settings, taken_measured


def is_gain(ours: Values, theirs: Values) -> bool:
    """Better by more than one standard error of the paired difference."""
    gap = ours - theirs
    if len(gap) < 2:
        return False
    return float(gap.mean()) > float(gap.std(ddof=1)) / math.sqrt(len(gap))


async def _checked(
    sweeper: Sweeper, start: Settings, values: Mapping[str, float], holding: Sequence[Question]
) -> tuple[dict[str, float], dict[str, float], Measured, Measured]:
    """What the held-back half lets through: everything, all but the threshold, or nothing."""
    first = await sweeper.measure(start, holding)
    without = {path: value for path, value in values.items() if path != "refine.min_similarity"}
    for attempt in (dict(values), without):
        real = {p: v for p, v in attempt.items() if float(value_at(start, p)) != v}
        if not real:
            continue
        measured = await sweeper.measure(changed(start, real), holding)
        if measured.mean >= first.mean:
            rejected = {p: v for p, v in values.items() if p not in attempt}
            return real, rejected, first, measured
    return {}, dict(values), first, first


def value_at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _of_ones_own(settings: Settings) -> list[str]:
    """What the search was set to beyond its preset: without it the figures would be another's."""
    plain = changed(Settings(), preset_values(settings.preset))
    paths = [
        f"{section}.{name}"
        for section in ("understand", "retrieve", "refine")
        for name in type(value_at(plain, section)).model_fields
    ]
    return [
        path
        for path in paths
        if value_at(settings, path) not in (None, value_at(plain, path))  # TOML knows no nothing
    ]


def settings_file(tuned: Tuned, *, when: str) -> str:
    """A ragstone.toml with what tuning found and what it began with."""
    lines = [
        f"# Written by `ragstone tune` on {when}, from {tuned.dataset.name}:",
        f"# {tuned.tuned_on} questions to tune on, {tuned.checked_on} held back.",
        f"# {tuned.sentence}",
        f'preset = "{tuned.settings.preset}"',
    ]
    sections: dict[str, list[str]] = {}
    tuned_settings = changed(tuned.settings, tuned.values)
    for path in sorted({*tuned.values, *_of_ones_own(tuned.settings)}):
        section, _, name = path.rpartition(".")
        # A text, a number or a truth is written the same in TOML and JSON.
        value = json.dumps(value_at(tuned_settings, path), ensure_ascii=False, default=str)
        sections.setdefault(section, []).append(f"{name} = {value}")
    for section, entries in sections.items():
        lines += ["", f"[{section}]", *entries]
    return "\n".join(lines) + "\n"
