"""Ask every question of a dataset once: a workbench and settings in → one outcome per question.

Each outcome is stored at once, in a folder whose name is a hash of everything it depends on. A run
that was stopped continues where it stopped; a complete one costs nothing the second time.
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
from ragstone.evaluate.metrics import is_match, is_same_evidence, judge_answer, label_chunks
from ragstone.evaluate.workbench import Progress, Workbench, ignore_progress, make_safe_name
from ragstone.filters import Not, match_any
from ragstone.protocols import Chat
from ragstone.query.check.review import check_against_facts
from ragstone.query.explain import trace_chunk
from ragstone.settings import Settings
from ragstone.settings.change import UNREFINED
from ragstone.trace import QueryRun
from ragstone.types import Answer, Hits, RetrievalMethod

# The deepest measure looks at this many hits.
DEPTH = 100
# Store the similarities of the first hits, for the curve of the threshold.
_STORED_HITS = 20
# Search without any refinement.
SEARCH_ALONE: dict[str, Any] = {"retrieve.candidates": 100, **UNREFINED}


@dataclass(frozen=True, slots=True)
class Options:
    """Say what to do with each question."""

    method: RetrievalMethod | None = None
    answers: bool = False
    judge: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one question: the facts from which every measure is computed."""

    id: str
    ranking: tuple[str, ...] = ()
    hits: tuple[tuple[str, float, float | None], ...] = ()
    """Label, score and similarity of the first hits."""
    target_steps: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """What each stage did with the best chunk of each target."""
    answer: str | None = None
    short: str = ""
    """The words highlighted as the answer proper, if any."""
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
    judge_scores: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    def as_line(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> Outcome:
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
    bench: Workbench,
    settings: Settings,
    options: Options,
    *,
    name: str,
    progress: Progress = ignore_progress,
) -> Run:
    """Ask the questions that have no stored outcome yet."""
    engine = bench.open_engine(settings)
    try:
        if options.judge:
            require_language_model(engine, "--judge")
        stamp = bench.hash_inputs(engine, settings, dataclasses.replace(options, again=False))
        folder = bench.work / "runs" / f"{make_safe_name(bench.dataset.name)}-{stamp}"
        results = ResultsFile(folder / "results.jsonl", again=options.again)
        begun = time.perf_counter()
        questions = bench.dataset.questions
        for number, question in enumerate(questions):
            progress(f"asking ({name})", number, len(questions))
            if question.id not in results.outcomes:
                results.add(await ask_question(engine, question, options, bench.collection))
        seconds = time.perf_counter() - begun
        outcomes = tuple(results.outcomes[one.id] for one in questions)
        return Run(name, bench.dataset, settings, outcomes, folder, options, seconds)
    finally:
        engine.close()


def require_language_model(engine: Engine, flag: str) -> None:
    """Refuse a flag that needs a language model if the provider has none."""
    if not isinstance(engine.provider, Chat):
        raise SettingsError(
            f"{flag} needs a provider with a language model; '{engine.provider.name}' has none.",
            hint="Choose one, e.g. with --set LLM_PROVIDER=openai.",
        )


class ResultsFile:
    """A file of outcomes, one per line. Cuts off an incomplete last line, as a kill leaves it."""

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
            outcome = Outcome.from_line(line)
            if not outcome.error:  # a failed question is asked again
                self.outcomes[outcome.id] = outcome

    def add(self, outcome: Outcome) -> None:
        self.outcomes[outcome.id] = outcome
        with self._path.open("a", encoding="utf-8") as file:
            file.write(outcome.as_line() + "\n")


async def ask_question(
    engine: Engine, question: Question, options: Options, collection: str
) -> Outcome:
    """Ask one question; an error becomes its outcome, so that the run goes on."""
    try:
        if question.given_answer is not None:
            outcome = _check_given_answer(engine, question)
        else:
            outcome = await _search_and_answer(engine, question, options, collection)
        if options.judge and outcome.answer and isinstance(engine.provider, Chat):
            verdicts = await judge_answer(engine.provider, question, outcome.answer)
            outcome = dataclasses.replace(outcome, judge_scores=verdicts)
    except RagstoneError as error:
        return Outcome(question.id, error=str(error))
    return outcome


async def _search_and_answer(
    engine: Engine, question: Question, options: Options, collection: str
) -> Outcome:
    hidden = list(question.hidden_documents)
    limits = Not(match_any("document_name", hidden)) if hidden else None
    answer: Answer | None = None
    if options.answers:  # before the search, so that no cache shortens its times
        answer = await engine.ask(
            question.text, collection=collection, method=options.method, filters=limits
        )
    hits, run = await engine.search_traced(
        question.text, collection=collection, method=options.method, top_k=DEPTH, filters=limits
    )
    outcome = Outcome(
        question.id,
        ranking=tuple(label_chunks(question, [hit.chunk for hit in hits])),
        hits=tuple(
            (_label_chunk(question, hit.chunk), round(hit.score, 4), _round(hit.scores.similarity))
            for hit in hits[:_STORED_HITS]
        ),
        target_steps=_trace_targets(question, hits, run),
        **_cost_fields([span.as_dict() for span in run.trace.spans]),
    )
    if answer is None:
        return outcome
    return dataclasses.replace(
        outcome,
        **_answer_fields(question, answer),
        **_cost_fields(answer.trace["spans"]),
        notes=answer.notes,
        degraded=answer.degraded,
    )


def _label_chunk(question: Question, chunk: Any) -> str:
    return label_chunks(question, [chunk])[0]


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _answer_fields(question: Question, answer: Answer) -> dict[str, Any]:
    chunks = {source.number: source.hit.chunk for source in answer.sources}
    cited = {
        _label_chunk(question, chunks[one.number])
        for one in answer.citations
        if one.number in chunks
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


def _cost_fields(spans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum times, tokens and cost of a trace."""
    stages: dict[str, float] = {}
    for span in spans:
        stages[span["stage"]] = round(stages.get(span["stage"], 0.0) + span["duration_ms"], 3)
    outer = _outer_spans(spans)
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


def _outer_spans(spans: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Drop the spans inside another span: a second attempt contains those of its search."""
    outer: list[Mapping[str, Any]] = []
    end = 0.0
    for span in sorted(spans, key=lambda one: (one["started_ms"], -one["duration_ms"])):
        stop = span["started_ms"] + span["duration_ms"]
        if not outer or stop > end:
            outer.append(span)
            end = stop
    return outer


# A question may have hundreds of targets: trace only the first.
_MAX_TRACED_TARGETS = 5


def _trace_targets(
    question: Question, hits: Hits, run: QueryRun
) -> dict[str, list[dict[str, Any]]]:
    """Return what each stage did with the best chunk of each target."""
    if not question.targets:
        return {}
    waterfall = run.trace.waterfall.as_dict()
    seen = run.trace.waterfall.chunks()
    steps: dict[str, list[dict[str, Any]]] = {}
    chunks = [hit.chunk for hit in hits]
    returned = {chunk.key for chunk in chunks}
    chunks += [chunk for chunk in seen if chunk.key not in returned]
    for target in question.targets[:_MAX_TRACED_TARGETS]:
        chunk = next((one for one in chunks if is_match(one, target)), None)
        steps[target.label] = [
            {name: getattr(step, name) for name in ("stage", "outcome", "rank", "score", "reason")}
            for step in (trace_chunk(waterfall, chunk.key) if chunk else ())
        ]
    return steps


def _check_given_answer(engine: Engine, question: Question) -> Outcome:
    """Measure another system's answer: rank its contexts and check its claims."""
    assert question.given_answer is not None
    given = question.given_answer
    labels: list[str] = []
    for at, context in enumerate(given.contexts or given.context_ids):
        name = given.context_ids[at] if at < len(given.context_ids) else ""
        found = next(
            (
                one.label
                for one in question.targets
                if (name and name == one.document)
                or (one.text and is_same_evidence(context, one.text))
            ),
            None,
        )
        labels.append(found or name or f"context {at + 1}")
    checked = check_against_facts(given.response, given.contexts)
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
