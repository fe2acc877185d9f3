"""Tune the settings: try the values of each on one half of the questions, check on the other half.

A value is chosen only if it is better by more than the standard error of the paired difference:
smaller gains are chance more often than not.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ragstone.errors import InputError
from ragstone.evaluate.datasets import Dataset, Question
from ragstone.evaluate.metrics import (
    Interval,
    Values,
    label_chunks,
    measure_rankings,
    paired_bootstrap,
)
from ragstone.evaluate.summary import ThresholdPoint, compute_threshold_curve, recommend_threshold
from ragstone.evaluate.workbench import Progress, Workbench, ignore_progress
from ragstone.fallback import Fallbacks
from ragstone.models.cache import QuestionBatcher, add_vector_cache
from ragstone.plugins import PartContext
from ragstone.protocols import Catalog, Index, ScoredKey, Vectors
from ragstone.query.answer import Pipeline
from ragstone.query.build import build_pipeline
from ragstone.query.refine.rerank import CrossEncoderReranker, PairScorer, RerankStep
from ragstone.settings import Settings, get_value, preset_values
from ragstone.settings.change import change_settings
from ragstone.trace import QueryRun
from ragstone.types import Chunk, Query

_TOP_K = 10
# This many questions are asked again without caches, to measure what a value costs.
_TIMED_QUESTIONS = 15


class CachedIndex:
    """An index that searches only once for the same list."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lists: dict[tuple[Any, ...], list[ScoredKey]] = {}

    def search_dense(self, collection: str, vector: Vectors, **options: Any) -> list[ScoredKey]:
        search = self._index.search_dense
        return self._search_once(search, (collection, vector), vector.tobytes(), options)

    def search_keyword(self, collection: str, text: str, **options: Any) -> list[ScoredKey]:
        return self._search_once(self._index.search_keyword, (collection, text), text, options)

    def _search_once(
        self,
        search: Callable[..., list[ScoredKey]],
        arguments: tuple[Any, ...],
        key: str | bytes,
        options: Mapping[str, Any],
    ) -> list[ScoredKey]:
        if options.get("scope") is not None:  # a filtered search is not cached
            return search(*arguments, **options)
        full_key = (key, *sorted(options.items()))
        if full_key not in self._lists:
            self._lists[full_key] = search(*arguments, **options)
        return self._lists[full_key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


class CachedCatalog:
    """A catalog that reads a chunk only once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._chunks: dict[int, Chunk] = {}

    def chunks(self, keys: Iterable[int]) -> dict[int, Chunk]:
        keys = list(keys)
        missing = [key for key in keys if key not in self._chunks]
        if missing:
            self._chunks.update(self._catalog.chunks(missing))
        return {key: self._chunks[key] for key in keys if key in self._chunks}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


class CachedScorer:
    """Score the same question and passage only once."""

    def __init__(self, scorer: PairScorer, known: dict[tuple[str, str], float]) -> None:
        self._scorer = scorer
        self._known = known

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        missing = [text for text in dict.fromkeys(passages) if (question, text) not in self._known]
        if missing:
            scores = self._scorer.score(question, missing)
            for text, score in zip(missing, scores, strict=True):
                self._known[question, text] = float(score)
        return [self._known[question, text] for text in passages]


@dataclass(frozen=True, slots=True)
class SearchQuality:
    """nDCG@10 of each question, and the similarities of the first hits."""

    quality: Values
    relevant: tuple[float, ...]
    """Similarities of the relevant hits among the first ten."""
    others: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(self.quality.mean()) if len(self.quality) else 0.0


class Sweeper:
    """Measures settings on the questions of a dataset; caches searches and scores."""

    def __init__(
        self, bench: Workbench, questions: Sequence[Question], progress: Progress = ignore_progress
    ) -> None:
        bench.embed_questions(questions, progress)
        self._bench = bench
        self._engine = bench.open_engine(bench.settings)
        self._catalog = cast("Catalog", CachedCatalog(self._engine.catalog))
        self._index = cast("Index", CachedIndex(self._engine.index))
        self._scores: dict[tuple[str, str], float] = {}

    def close(self) -> None:
        self._engine.close()

    async def measure(self, settings: Settings, questions: Sequence[Question]) -> SearchQuality:
        pipeline = self._build_pipeline(settings, cached=True)
        rankings: dict[str, list[str]] = {}
        relevant: list[float] = []
        others: list[float] = []
        for question in questions:
            query = self._build_query(question, settings)
            hits = (await pipeline.search(query, QueryRun(question.id))).hits
            rankings[question.id] = label_chunks(question, [hit.chunk for hit in hits])
            for hit in hits:
                similar = hit.scores.similarity
                if similar is not None:
                    label = label_chunks(question, [hit.chunk])[0]
                    (relevant if label in question.grades else others).append(similar)
        found = measure_rankings({one.id: one.grades for one in questions}, rankings)["ndcg@10"]
        quality = np.array([found[one.id] for one in questions if one.id in found])
        return SearchQuality(quality, tuple(relevant), tuple(others))

    async def measure_cpu_ms(self, settings: Settings, questions: Sequence[Question]) -> float:
        """Measure the CPU time of one search without caches, but for the question's vector."""
        pipeline = self._build_pipeline(settings, cached=False)
        timed = questions[:_TIMED_QUESTIONS]
        begun = time.process_time()
        for question in timed:
            await pipeline.search(self._build_query(question, settings), QueryRun(question.id))
        return (time.process_time() - begun) * 1000 / max(1, len(timed))

    def _build_pipeline(self, settings: Settings, *, cached: bool) -> Pipeline:
        engine = self._engine
        index = self._index if cached else engine.index
        catalog = self._catalog if cached else engine.catalog
        vectors = add_vector_cache(self._bench.embedder)
        context = PartContext(
            self._bench.adapt_settings(settings),
            vectors,
            index,
            catalog,
            Fallbacks(),
            QuestionBatcher(vectors),
            provider=engine.provider,
            quoting=engine.provider,
        )
        pipeline = build_pipeline(context)
        if not cached:
            return pipeline
        known = self._scores
        refiners = [
            RerankStep(replace(one.reranker, scorer=CachedScorer(one.reranker.scorer, known)))
            if isinstance(one, RerankStep) and isinstance(one.reranker, CrossEncoderReranker)
            else one
            for one in pipeline.refiners
        ]
        return replace(pipeline, refiners=refiners)

    def _build_query(self, question: Question, settings: Settings) -> Query:
        return Query(
            id=question.id,
            text=question.text,
            collection=self._bench.collection,
            method=settings.retrieve.method,
            top_k=_TOP_K,
            mmr_lambda=settings.refine.mmr_lambda,
        )


# In the order of the pipeline: the input of a later step depends on the earlier ones.
SPACE: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("retrieve.bm25_k1", (0.6, 0.9, 1.2, 1.6, 2.0)),
    ("retrieve.bm25_b", (0.3, 0.5, 0.75, 0.9)),
    ("retrieve.dense_weight", (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9)),
    ("retrieve.candidates", (20, 50, 100, 200)),
    ("refine.rerank_top_k", (5, 10, 20, 40)),
    ("refine.rerank_weight", (0.1, 0.2, 0.3, 0.5, 0.7)),
    ("refine.mmr_lambda", (0.5, 0.7, 0.85, 0.95, 1.0)),
)
_MIN_QUESTIONS = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """One value with its mean nDCG@10 on the tuning half and its CPU time per search."""

    value: float
    quality: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """All values tried for one setting, the one before and the one chosen."""

    path: str
    trials: tuple[Trial, ...]
    before: float
    chosen: float


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The result of tuning, with its check on the held-back half."""

    dataset: Dataset
    settings: Settings
    """The settings before tuning."""
    sweeps: tuple[Sweep, ...]
    curve: tuple[ThresholdPoint, ...]
    threshold: float
    """The recommended similarity threshold."""
    values: Mapping[str, float]
    """Values to set, by path; empty if nothing better was found."""
    before: float
    after: float
    interval: Interval
    tuning_count: int
    check_count: int
    check_point: ThresholdPoint | None = None
    """The shares that the recommended threshold keeps on the held-back half."""
    rejected: Mapping[str, float] = field(default_factory=dict)
    """Values that were better on the tuning half, but not on the other."""

    @property
    def sentence(self) -> str:
        low, high = self.interval
        if not self.values:
            return (
                f"Keep the settings as they are: nothing did better on the held-back half "
                f"(nDCG@10 {self.before:.4f}, {self.check_count} questions)."
            )
        return (
            f"nDCG@10 on the held-back half: {self.before:.4f} → {self.after:.4f} "
            f"({self.after - self.before:+.4f}, 95 % {low:+.4f} to {high:+.4f}, "
            f"{self.check_count} questions)."
        )


async def tune_settings(
    bench: Workbench,
    *,
    max_questions: int = 400,
    max_checks: int = 1000,
    progress: Progress = ignore_progress,
) -> TuningResult:
    """Try the values of SPACE on one half of the questions, and check on the other half."""
    judged = _keep_judged(bench.dataset)
    tuning = judged.take_half("tune").take_sample(max_questions).questions
    held_back = judged.take_half("report").take_sample(max_checks).questions
    if min(len(tuning), len(held_back)) < _MIN_QUESTIONS:
        # Only questions that were made from documents have an origin.
        more = (
            "Ingest more documents, or make more questions with --count"
            if bench.dataset.origin
            else "Use --from-documents to make questions"
        )
        raise InputError(
            f"The dataset '{bench.dataset.name}' has too few judged questions to tune on: "
            f"{len(tuning)} and {len(held_back)} in its halves.",
            hint=f"Each half needs {_MIN_QUESTIONS}. {more}.",
        )
    sweeper = Sweeper(bench, [*tuning, *held_back], progress)
    try:
        return await _tune_and_check(bench, sweeper, tuning, held_back, progress)
    finally:
        sweeper.close()


def _keep_judged(dataset: Dataset) -> Dataset:
    """Keep the questions with a target to search for."""
    judged = [one for one in dataset.questions if one.grades and one.given_answer is None]
    return replace(dataset, questions=tuple(judged))


async def _tune_and_check(
    bench: Workbench,
    sweeper: Sweeper,
    tuning: Sequence[Question],
    held_back: Sequence[Question],
    progress: Progress,
) -> TuningResult:
    start = bench.settings
    current = change_settings(start, {"refine.min_similarity": 0.0})
    best = await sweeper.measure(current, tuning)
    sweeps: list[Sweep] = []
    space = [(path, values) for path, values in SPACE if _is_applicable(path, start)]
    for number, (path, values) in enumerate(space):
        progress(f"tuning {path}", number, len(space))
        sweep, current, best = await _sweep(sweeper, current, best, path, values, tuning)
        sweeps.append(sweep)
    curve = compute_threshold_curve(best.relevant, best.others)
    threshold = recommend_threshold(curve)
    progress("checking", len(space), len(space))
    better = {one.path: one.chosen for one in sweeps if one.chosen != one.before}
    chosen, rejected, first, last = await _check_on_held_back(
        sweeper, start, {**better, "refine.min_similarity": threshold}, held_back
    )
    unfiltered = await sweeper.measure(current, held_back)
    check_curve = compute_threshold_curve(unfiltered.relevant, unfiltered.others)
    return TuningResult(
        bench.dataset,
        start,
        tuple(sweeps),
        tuple(curve),
        threshold,
        chosen,
        before=first.mean,
        after=last.mean,
        interval=paired_bootstrap(last.quality, first.quality),
        tuning_count=len(tuning),
        check_count=len(held_back),
        check_point=next((one for one in check_curve if one.threshold == threshold), None),
        rejected=rejected,
    )


def _is_applicable(path: str, settings: Settings) -> bool:
    if path.startswith("refine.rerank"):
        return settings.refine.reranker_enabled and settings.refine.reranker == "cross_encoder"
    method = settings.retrieve.method
    if path == "retrieve.dense_weight":
        return method == "hybrid" and settings.retrieve.fusion == "convex"
    return method != "semantic" if path.startswith("retrieve.bm25") else True


async def _sweep(
    sweeper: Sweeper,
    current: Settings,
    best: SearchQuality,
    path: str,
    values: Sequence[float],
    questions: Sequence[Question],
) -> tuple[Sweep, Settings, SearchQuality]:
    """Try each value of one setting; the next sweep begins with the one chosen."""
    before = float(get_value(current, path))
    trials: list[Trial] = []
    chosen, chosen_settings, chosen_quality = before, current, best
    for value in sorted({*values, before}):
        settings = change_settings(current, {path: value})
        measured = best if value == before else await sweeper.measure(settings, questions)
        cpu_ms = await sweeper.measure_cpu_ms(settings, questions)
        trials.append(Trial(value, measured.mean, cpu_ms))
        better = measured.mean > chosen_quality.mean
        if better and is_gain(measured.quality, best.quality):
            chosen, chosen_settings, chosen_quality = value, settings, measured
    return Sweep(path, tuple(trials), before, chosen), chosen_settings, chosen_quality


def is_gain(ours: Values, theirs: Values) -> bool:
    """Return whether `ours` is better by more than one standard error of the paired difference."""
    gap = ours - theirs
    if len(gap) < 2:
        return False
    return float(gap.mean()) > float(gap.std(ddof=1)) / math.sqrt(len(gap))


async def _check_on_held_back(
    sweeper: Sweeper, start: Settings, values: Mapping[str, float], held_back: Sequence[Question]
) -> tuple[dict[str, float], dict[str, float], SearchQuality, SearchQuality]:
    """Accept all values, all but the threshold, or none: the first choice that does not lose."""
    first = await sweeper.measure(start, held_back)
    without = {path: value for path, value in values.items() if path != "refine.min_similarity"}
    for attempt in (dict(values), without):
        changes = {p: v for p, v in attempt.items() if float(get_value(start, p)) != v}
        if not changes:
            continue
        measured = await sweeper.measure(change_settings(start, changes), held_back)
        if measured.mean >= first.mean:
            rejected = {p: v for p, v in values.items() if p not in attempt}
            return changes, rejected, first, measured
    return {}, dict(values), first, first


def _list_changed_settings(settings: Settings) -> list[str]:
    """List the settings that differ from the preset: the figures depend on them."""
    preset = change_settings(Settings(), preset_values(settings.preset))
    paths = [
        f"{section}.{name}"
        for section in ("understand", "retrieve", "refine")
        for name in type(get_value(preset, section)).model_fields
    ]
    return [
        path
        for path in paths
        if get_value(settings, path) not in (None, get_value(preset, path))  # TOML has no null
    ]


def render_settings_file(tuned: TuningResult, *, date: str) -> str:
    """Render a ragstone.toml with the tuned values and the settings that tuning began with."""
    lines = [
        f"# Written by `ragstone tune` on {date}, from {tuned.dataset.name}:",
        f"# {tuned.tuning_count} questions to tune on, {tuned.check_count} held back.",
        f"# {tuned.sentence}",
        f'preset = "{tuned.settings.preset}"',
    ]
    sections: dict[str, list[str]] = {}
    tuned_settings = change_settings(tuned.settings, tuned.values)
    for path in sorted({*tuned.values, *_list_changed_settings(tuned.settings)}):
        section, _, name = path.rpartition(".")
        # TOML and JSON write texts, numbers and booleans alike.
        value = json.dumps(get_value(tuned_settings, path), ensure_ascii=False, default=str)
        sections.setdefault(section, []).append(f"{name} = {value}")
    for section, entries in sections.items():
        lines += ["", f"[{section}]", *entries]
    return "\n".join(lines) + "\n"
