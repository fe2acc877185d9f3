"""Every question of a dataset asked once: a workbench and settings in → one outcome per question.

Outcomes are written down as they come, in a file whose name says what they depend on. A run that
was stopped goes on where it was; one that is complete costs nothing the second time.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstone.engine import Engine
from ragstone.errors import RagstoneError, SettingsError
from ragstone.evaluate.datasets import Dataset, Question
from ragstone.evaluate.metrics import judged, labelled, meets, same_evidence
from ragstone.evaluate.workbench import Told, Workbench, quiet, safe_name
from ragstone.filters import Not, is_in
from ragstone.protocols import Chat
from ragstone.query.check.review import grounding
from ragstone.query.explain import trace_chunk
from ragstone.settings import Settings
from ragstone.trace import QueryRun
from ragstone.types import Answer, Hits, RetrievalMethod

# As deep as the deepest measure looks.
DEPTH = 100
# Similarities of the first hits are kept, for the curve of the threshold.
_SHOWN = 20
# Nothing but the search itself.
SEARCH_ALONE: dict[str, Any] = {
    "retrieve.candidates": 100,
    "refine.min_similarity": 0.0,
    "refine.reranker_enabled": False,
    "refine.duplicate_similarity": 1.0,
    "refine.mmr_lambda": 1.0,
}


@dataclass(frozen=True, slots=True)
class Options:
    """What is done with each question."""

    method: RetrievalMethod | None = None
    answers: bool = False
    judge: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question: the facts, from which every measure is computed."""

    id: str
    ranking: tuple[str, ...] = ()
    hits: tuple[tuple[str, float, float | None], ...] = ()
    """Label, score and similarity of the first hits."""
    ways: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """For each target what every stage said of its chunk."""
    answer: str | None = None
    short: str = ""
    """The words marked as the answer proper, where there are any."""
    status: str = ""
    confidence: float = 0.0
    groundedness: float = 0.0
    citation_precision: float = 0.0
    citation_recall: float = 0.0
    cited: tuple[str, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds of each stage."""
    latency_ms: float = 0.0
    cpu_ms: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    notes: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    judged: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    def as_line(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def of_line(cls, line: str) -> Outcome:
        value = json.loads(line)
        lists = ("ranking", "cited", "notes", "degraded")
        value.update({name: tuple(value[name]) for name in lists})
        value["hits"] = tuple((label, score, similar) for label, score, similar in value["hits"])
        return cls(**value)


@dataclass(frozen=True, slots=True)
class Run:
    """The outcomes of one system on one dataset, in the order of its questions."""

    name: str
    dataset: Dataset
    settings: Settings
    outcomes: tuple[Outcome, ...]
    directory: Path
    options: Options = field(default_factory=Options)
    seconds: float = 0.0

    @property
    def by_id(self) -> dict[str, Outcome]:
        return {outcome.id: outcome for outcome in self.outcomes}


async def run_questions(
    bench: Workbench, settings: Settings, options: Options, *, name: str, told: Told = quiet
) -> Run:
    """Ask what has not been asked yet."""
    engine = bench.engine(settings)
    try:
        if options.judge:
            check_model(engine, "--judge")
        stamp = bench.stamp(engine, settings, dataclasses.replace(options, again=False))
        folder = bench.work / "runs" / f"{safe_name(bench.dataset.name)}-{stamp}"
        book = ResultsBook(folder / "results.jsonl", again=options.again)
        begun = time.perf_counter()
        questions = bench.dataset.questions
        for number, question in enumerate(questions):
            told(f"asking ({name})", number, len(questions))
            if question.id not in book.outcomes:
                book.add(await outcome_of(engine, question, options, bench.collection))
        seconds = time.perf_counter() - begun
        outcomes = tuple(book.outcomes[one.id] for one in questions)
        return Run(name, bench.dataset, settings, outcomes, folder, options, seconds)
    finally:
        engine.close()


def check_model(engine: Engine, wanted_by: str) -> None:
    """Refuse what only a language model can do where there is none."""
    if not isinstance(engine.provider, Chat):
        raise SettingsError(
            f"{wanted_by} needs a provider with a language model, and "
            f"'{engine.provider.name}' has none.",
            hint="Choose one with --set LLM_PROVIDER=openai, for example.",
        )


class ResultsBook:
    """A file of outcomes, one per line. What a kill left of a line is cut off."""

    def __init__(self, path: Path, *, again: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        if again:
            path.unlink(missing_ok=True)
        self.outcomes: dict[str, Outcome] = {}
        if path.is_file():
            self._read()

    def _read(self) -> None:
        whole = self._path.read_bytes()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            with self._path.open("r+b") as file:
                file.truncate(end)
        for line in whole[:end].decode("utf-8").splitlines():
            outcome = Outcome.of_line(line)
            if not outcome.error:  # what failed is tried again
                self.outcomes[outcome.id] = outcome

    def add(self, outcome: Outcome) -> None:
        self.outcomes[outcome.id] = outcome
        with self._path.open("a", encoding="utf-8") as file:
            file.write(outcome.as_line() + "\n")


async def outcome_of(
    engine: Engine, question: Question, options: Options, collection: str
) -> Outcome:
    """One question's outcome; a failure is one too, and the others go on."""
    try:
        if question.given is not None:
            outcome = _of_given(engine, question)
        else:
            outcome = await _asked(engine, question, options, collection)
        if options.judge and outcome.answer and isinstance(engine.provider, Chat):
            verdicts = await judged(engine.provider, question, outcome.answer)
            outcome = dataclasses.replace(outcome, judged=verdicts)
    except RagstoneError as error:
        return Outcome(question.id, error=str(error))
    return outcome


async def _asked(engine: Engine, question: Question, options: Options, collection: str) -> Outcome:
    limits = Not(is_in("document_name", list(question.without))) if question.without else None
    answer: Answer | None = None
    if options.answers:  # before the search, so that its times are those of a new question
        answer = await engine.ask(
            question.text, collection=collection, method=options.method, filters=limits
        )
    hits, run = await engine.search_traced(
        question.text, collection=collection, method=options.method, top_k=DEPTH, filters=limits
    )
    found = Outcome(
        question.id,
        ranking=tuple(labelled(question, [hit.chunk for hit in hits])),
        hits=tuple(
            (_label(question, hit.chunk), round(hit.score, 4), _rounded(hit.scores.similarity))
            for hit in hits[:_SHOWN]
        ),
        ways=_ways(question, hits, run),
        **_costs([span.as_dict() for span in run.trace.spans]),
    )
    if answer is None:
        return found
    return dataclasses.replace(
        found, **_answered(question, answer), **_costs(answer.trace["spans"]), notes=answer.notes,
        degraded=answer.degraded,
    )  # fmt: skip


def _label(question: Question, chunk: Any) -> str:
    return labelled(question, [chunk])[0]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _answered(question: Question, answer: Answer) -> dict[str, Any]:
    chunks = {source.number: source.hit.chunk for source in answer.sources}
    cited = {
        _label(question, chunks[one.number]) for one in answer.citations if one.number in chunks
    }
    spans = [answer.text[start:end] for start, end in answer.highlights]
    return {
        "answer": answer.text,
        "short": spans[0] if spans else "",
        "status": answer.status,
        "confidence": answer.confidence,
        "groundedness": answer.groundedness_score,
        "citation_precision": answer.citation_precision,
        "citation_recall": answer.citation_recall,
        "cited": tuple(sorted(cited)),
    }


def _costs(spans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Times, tokens and cost out of a trace."""
    stages: dict[str, float] = {}
    for span in spans:
        stages[span["stage"]] = round(stages.get(span["stage"], 0.0) + span["duration_ms"], 3)
    outer = _outermost(spans)
    counts = [span["counts"] for span in spans]
    costs = [one["cost_usd"] for one in counts if one.get("cost_usd") is not None]
    return {
        "stages": stages,
        "latency_ms": round(sum(span["duration_ms"] for span in outer), 3),
        "cpu_ms": round(sum(span["cpu_ms"] for span in outer), 3),
        "input_tokens": sum(one.get("input_tokens") or 0 for one in counts),
        "output_tokens": sum(one.get("output_tokens") or 0 for one in counts),
        "cost_usd": sum(costs) if costs else None,
    }


def _outermost(spans: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that are not inside another: a further attempt holds the spans of its own search."""
    found: list[Mapping[str, Any]] = []
    end = 0.0
    for span in sorted(spans, key=lambda one: (one["started_ms"], -one["duration_ms"])):
        stop = span["started_ms"] + span["duration_ms"]
        if not found or stop > end:
            found.append(span)
            end = stop
    return found


# A question with hundreds of targets need not explain them all.
_MOST_WAYS = 5


def _ways(question: Question, hits: Hits, run: QueryRun) -> dict[str, list[dict[str, Any]]]:
    """The way of each target's best chunk through the stages, as far as one was seen."""
    if not question.targets:
        return {}
    waterfall = run.trace.waterfall.as_dict()
    seen = run.trace.waterfall.chunks()
    ways: dict[str, list[dict[str, Any]]] = {}
    order = [hit.chunk for hit in hits]
    returned = {chunk.key for chunk in order}
    order += [chunk for chunk in seen if chunk.key not in returned]
    for target in question.targets[:_MOST_WAYS]:
        chunk = next((one for one in order if meets(one, target)), None)
        ways[target.label] = [
            {"stage": step.stage, "outcome": step.outcome, "rank": step.rank,
             "score": step.score, "reason": step.reason}
            for step in (trace_chunk(waterfall, chunk.key) if chunk else ())
        ]  # fmt: skip
    return ways


def _of_given(engine: Engine, question: Question) -> Outcome:
    """Another system's answer: its contexts ranked against the reference, its claims checked."""
    assert question.given is not None
    given = question.given
    labels: list[str] = []
    for at, context in enumerate(given.contexts or given.context_ids):
        name = given.context_ids[at] if at < len(given.context_ids) else ""
        found = next(
            (one.label for one in question.targets
             if (name and name == one.document) or (one.text and same_evidence(context, one.text))),
            None,
        )  # fmt: skip
        labels.append(found or name or f"context {at + 1}")
    checked = grounding(given.response, given.contexts, engine.embedder, threshold=0.6)
    claims = checked.claims
    cited = [one for one in claims if one.citations]
    return Outcome(
        question.id,
        ranking=tuple(dict.fromkeys(labels)),
        answer=given.response,
        status="answered",
        confidence=round(checked.support_score, 4),
        groundedness=round(checked.support_score, 4),
        citation_precision=_share(cited, "supported"),
        citation_recall=len(cited) / len(claims) if claims else 0.0,
    )


def _share(claims: Sequence[Any], verdict: str) -> float:
    return sum(one.verdict == verdict for one in claims) / len(claims) if claims else 0.0
