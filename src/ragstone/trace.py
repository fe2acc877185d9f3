"""The record of one query: every stage, when it ran, how long, what went in and came out, and the
waterfall: what each stage said of each chunk, returned or not.

A trace is passed along explicitly; it is not kept in a ContextVar, because an abandoned async
generator cannot reset one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, ParamSpec, Protocol, TypeAlias, TypeVar

from ragstone.packed import PackedObject
from ragstone.system import lower_thread_priority
from ragstone.types import Answer, Chunk, Hits, Scores

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _aside() -> ThreadPoolExecutor:
    """One thread, and one that steps back: several would take the event loop's turns away, and with
    them the tokens of the answers that are being written."""
    return ThreadPoolExecutor(1, "aside", initializer=lower_thread_priority, initargs=(5,))


@dataclass(slots=True)
class Span:
    """One stage: `counts` are its figures, `notes` what it had to say."""

    stage: str
    started_ms: float
    duration_ms: float = 0.0
    cpu_ms: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str | None = None

    def count(self, **figures: Any) -> None:
        self.counts.update(figures)

    async def aside(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Work for the processor in another thread, so that other answers go on meanwhile."""

        def timed() -> T:
            begun = time.thread_time()
            try:
                return work(*given, **named)
            finally:
                self.cpu_ms += (time.thread_time() - begun) * 1000

        return await asyncio.get_running_loop().run_in_executor(_aside(), timed)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "started_ms": round(self.started_ms, 3),
            "duration_ms": round(self.duration_ms, 3),
            "cpu_ms": round(self.cpu_ms, 3),
            "counts": self.counts,
            "notes": list(self.notes),
            "error": self.error,
        }


_SEARCHES = ("retrieve.semantic", "retrieve.keyword")
_VERDICTS = tuple(one.name for one in fields(Scores))
_Lines: TypeAlias = dict[int, dict[str, Any]]


class Listed(Protocol):
    """One line of a ranked list."""

    @property
    def key(self) -> int: ...
    @property
    def score(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One stage's word on one chunk. `outcome` is found, kept, dropped or absent."""

    stage: str
    outcome: str
    rank: int | None = None
    score: float | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


class Waterfall:
    """The stages in their order, and what each said of the chunks that it saw.

    The stages only hand over what they have at hand; lines are drawn up when somebody asks.
    """

    def __init__(self) -> None:
        self._stages: list[tuple[str, Mapping[str, Any], Callable[[], _Lines]]] = []
        self._hits: list[Hits] = []

    def listed(self, stage: str, found: Sequence[Listed], *, depth: int) -> None:
        """A search's own list."""
        last = round(found[-1].score, 4) if found else None
        cutoff = {"depth": depth, "listed": len(found), "last_score": last}
        self._stages.append((stage, cutoff, lambda: _listed_lines(found)))

    def scored(self, stage: str, scores: Mapping[int, float], *, kept: Sequence[int]) -> None:
        """A stage that gave every chunk a score and kept the best."""
        last = round(scores[kept[-1]], 4) if kept else None
        cutoff = {"depth": len(kept), "listed": len(scores), "last_score": last}
        self._stages.append((stage, cutoff, lambda: _scored_lines(scores, kept)))

    def passed(self, stage: str, before: Hits, after: Hits, figures: Mapping[str, Any]) -> None:
        """A stage that hits went through: which came out, where, and what is said of them."""
        self._hits.append(before)
        self._stages.append((stage, figures, lambda: _passed_lines(before, after)))

    def branch(self) -> Waterfall:
        other = Waterfall()
        other._stages, other._hits = [*self._stages], [*self._hits]
        return other

    def chunks(self) -> list[Chunk]:
        """Every chunk that a stage saw whole, the earliest first."""
        return list({hit.chunk.key: hit.chunk for hits in self._hits for hit in hits}.values())

    def as_dict(self) -> Mapping[str, Any]:
        return {
            "ids": {str(hit.chunk.key): hit.chunk.id for hits in self._hits for hit in hits},
            "stages": [
                {
                    "stage": stage,
                    "cutoff": {k: v for k, v in cutoff.items() if not isinstance(v, list)},
                    "lines": {str(key): line for key, line in lines().items()},
                }
                for stage, cutoff, lines in self._stages
            ],
        }


class PastWaterfall(Waterfall):
    """One that was drawn up for an earlier query that found the same."""

    def __init__(self, drawn: PackedObject) -> None:
        super().__init__()
        self._drawn = drawn

    def branch(self) -> Waterfall:
        return PastWaterfall(self._drawn)

    def as_dict(self) -> Mapping[str, Any]:
        return self._drawn


def _listed_lines(found: Sequence[Listed]) -> _Lines:
    return {
        one.key: {"rank": rank, "score": round(one.score, 4), "kept": True}
        for rank, one in enumerate(found, start=1)
    }


def _scored_lines(scores: Mapping[int, float], kept: Sequence[int]) -> _Lines:
    inside = set(kept)
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return {
        key: {"rank": rank, "score": round(scores[key], 4), "kept": key in inside}
        for rank, key in enumerate(order, start=1)
    }


def _passed_lines(before: Hits, after: Hits) -> _Lines:
    lines: _Lines = {}
    for rank, hit in enumerate(before, start=1):
        lines[hit.chunk.key] = {"was": rank, "score": round(hit.score, 4), "kept": False}
    for rank, hit in enumerate(after, start=1):
        verdicts = {name: getattr(hit.scores, name) for name in _VERDICTS}
        lines.setdefault(hit.chunk.key, {}).update(
            {name: round(value, 4) if isinstance(value, float) else value
             for name, value in verdicts.items() if value is not None},
            rank=rank, score=round(hit.score, 4), kept=True,
        )  # fmt: skip
    return lines


class Watcher(Protocol):
    """Told of each stage when it ends and of each answer: logs, metrics, spans."""

    def stage(self, trace: Trace, span: Span) -> None: ...
    def answered(self, answer: Answer) -> None: ...


class Trace:
    """The spans of one query, in the order in which they began."""

    watchers: ClassVar[tuple[Watcher, ...]] = ()
    """Those of the whole process: a log and a page of metrics are the process's own."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.started_at = time.time()
        self._zero = time.perf_counter()
        self.spans: list[Span] = []
        self.degraded: list[str] = []
        self.waterfall = Waterfall()

    @classmethod
    def tell(cls, answer: Answer) -> None:
        """Tell the watchers that an answer is finished."""
        for watcher in cls.watchers:
            watcher.answered(answer)

    def branch(self) -> Trace:
        """A trace that begins with everything so far and goes its own way from here."""
        other = Trace(self.request_id)
        other.started_at, other._zero = self.started_at, self._zero
        other.spans, other.degraded = [*self.spans], [*self.degraded]
        other.waterfall = self.waterfall.branch()
        return other

    @contextmanager
    def span(self, stage: str) -> Iterator[Span]:
        """Time a stage; an exception is written down and passes on."""
        begun, cpu = time.perf_counter(), time.thread_time()
        span = Span(stage, (begun - self._zero) * 1000)
        self.spans.append(span)
        try:
            yield span
        except BaseException as error:
            span.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            span.duration_ms = (time.perf_counter() - begun) * 1000
            # Of a stage that stepped aside, this thread's time would be that of other answers.
            span.cpu_ms = span.cpu_ms or (time.thread_time() - cpu) * 1000
            for watcher in self.watchers:
                watcher.stage(self, span)

    def degrade(self, reason: str) -> None:
        """Something optional failed and the answer goes on without it."""
        if reason not in self.degraded:
            self.degraded.append(reason)

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._zero) * 1000

    def duration_ms(self, *stages: str) -> float:
        """Time spent in the named stages together."""
        return sum(span.duration_ms for span in self.spans if span.stage in stages)

    def notes(self) -> list[str]:
        return [note for span in self.spans for note in span.notes]

    def as_dict(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id,
            "started_at": self.started_at,
            "total_ms": round(self.elapsed_ms(), 3),
            "degraded": list(self.degraded),
            "spans": [span.as_dict() for span in self.spans],
            "waterfall": self.waterfall.as_dict(),
        }


def explain(waterfall: Mapping[str, Any], key: int) -> list[Step]:
    """The way of one chunk through the stages, as far as it came. `waterfall` is `as_dict()`."""
    steps: list[Step] = []
    alive = True
    for entry in waterfall["stages"]:
        stage, line = entry["stage"], entry["lines"].get(str(key))
        if line is None:
            if stage in _SEARCHES:
                steps.append(Step(stage, "absent", reason=_outside(entry["cutoff"])))
            elif alive:
                steps.append(Step(stage, "absent", reason="No search listed it."))
                alive = False
            continue
        said = {name: value for name, value in line.items()
                if name not in ("rank", "score", "kept", "was")}  # fmt: skip
        if line["kept"]:
            outcome = "found" if stage in _SEARCHES else "kept"
            steps.append(Step(stage, outcome, line.get("rank"), line["score"], said))
        else:
            reason = _dropped(stage, entry["cutoff"], line)
            steps.append(Step(stage, "dropped", line.get("rank"), line["score"], said, reason))
            alive = False
    return steps


def _outside(cutoff: Mapping[str, Any]) -> str:
    if cutoff.get("listed", 0) < cutoff.get("depth", 0):
        return "It does not match at all."
    return (
        f"Not among the first {cutoff.get('depth')}; the last of them has {cutoff['last_score']}."
    )


_LEFT_OUT = {
    "refine.deduplicate": "It says nearly the same as a hit before it.",
    "refine.merge": "It stands inside the passage of a hit before it.",
    "ground.context": "The prompt's context was full.",
}


def _dropped(stage: str, cutoff: Mapping[str, Any], line: Mapping[str, Any]) -> str:
    if stage == "fuse":
        return (
            f"Rank {line['rank']} after fusion; only the first {cutoff['depth']} go on "
            f"(the last has {cutoff['last_score']})."
        )
    if stage == "refine.filter":
        return f"Its similarity is below {cutoff.get('threshold_used')}."
    if stage == "refine.select":
        return (
            f"Rank {line['was']}; {cutoff.get('chunks_out')} hits were chosen "
            f"(λ {cutoff.get('mmr_lambda')})."
        )
    return _LEFT_OUT.get(stage, "This step left it out.")
