"""Carry one query through the pipeline, and record for people what each stage did.

`QueryRun` holds the values that later steps and the answer need: what was degraded, notes, token
usage, times. `Trace` is write-only: with `NoTrace` in its place every answer stays the same.

A run is passed along explicitly. It is not a ContextVar, because an abandoned async generator
cannot reset one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, ParamSpec, Protocol, TypeAlias, TypeVar

from ragstone.admission import take_number
from ragstone.calls import Usage, sum_usage
from ragstone.threads import background_thread
from ragstone.types import LOCAL_OWNER, Answer, Chunk, Hits, Scores

WATERFALL = "waterfall"
_LENGTH_BYTES = 4


class PackedObject(Mapping[str, Any]):
    """Hold a JSON object as compressed text, and unpack it at each access."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content

    @classmethod
    def pack(cls, value: Mapping[str, Any]) -> PackedObject:
        if isinstance(value, PackedObject):
            return value
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return cls(zlib.compress(text.encode(), 1))

    def unpack(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(zlib.decompress(self.content))
        return value

    def __getitem__(self, name: str) -> Any:
        return self.unpack()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.unpack())

    def __len__(self) -> int:
        return len(self.unpack())


@dataclass(frozen=True, slots=True)
class PackedEvidence:
    """Hold the evidence and the waterfall of an answer, compressed.

    The id is the hash of the content, so that the same content is stored once.
    """

    id: str
    content: bytes

    @classmethod
    def pack(cls, value: Mapping[str, Any], waterfall: Mapping[str, Any]) -> PackedEvidence:
        head, tail = PackedObject.pack(value).content, PackedObject.pack(waterfall).content
        content = len(head).to_bytes(_LENGTH_BYTES) + head + tail
        # 32 hexadecimal digits: about 2^64 answers before two ids are equal by chance.
        return cls(hashlib.sha256(content).hexdigest()[:32], content)

    @property
    def waterfall(self) -> PackedObject:
        return PackedObject(self.content[_LENGTH_BYTES + self._head_bytes :])

    def unpack_value(self) -> dict[str, Any]:
        """Return everything but the waterfall."""
        return PackedObject(self.content[_LENGTH_BYTES:][: self._head_bytes]).unpack()

    @property
    def _head_bytes(self) -> int:
        return int.from_bytes(self.content[:_LENGTH_BYTES])


class PackedTrace(Mapping[str, Any]):
    """Hold the record of a query; its waterfall is unpacked at access."""

    __slots__ = ("evidence", "own")

    def __init__(self, own: Mapping[str, Any], evidence: PackedEvidence) -> None:
        self.own = {name: value for name, value in own.items() if name != WATERFALL}
        """The part that belongs to this query alone."""
        self.evidence = evidence

    def __getitem__(self, name: str) -> Any:
        return self.evidence.waterfall.unpack() if name == WATERFALL else self.own[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield WATERFALL

    def __len__(self) -> int:
        return len(self.own) + 1


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Span:
    """Record one stage: `counts` are its figures, `notes` are for the reader of the answer."""

    stage: str
    started_ms: float
    duration_ms: float = 0.0
    cpu_ms: float = 0.0
    counts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    usage: list[Usage] = field(default_factory=list)
    """The calls to models that this stage made."""

    def count_usage(self, usage: Usage) -> None:
        self.usage.append(replace(usage, stage=self.stage))
        total = sum_usage(self.usage)
        self.count(
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cached_tokens=total.cached_tokens,
            cost_usd=total.cost_usd,
        )

    def count(self, **figures: Any) -> None:
        self.counts.update(figures)

    def note(self, text: str) -> None:
        self.notes.append(text)

    async def run_in_background(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """Run CPU work in another thread, so that other answers go on meanwhile."""

        def run_timed() -> T:
            begun = time.thread_time()
            try:
                return work(*given, **named)
            finally:
                self.cpu_ms += (time.thread_time() - begun) * 1000

        return await asyncio.get_running_loop().run_in_executor(background_thread(), run_timed)

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


_VERDICTS = tuple(one.name for one in fields(Scores))
_Lines: TypeAlias = dict[int, dict[str, Any]]


class RankedItem(Protocol):
    """Describe one item of a ranked list."""

    @property
    def key(self) -> int: ...
    @property
    def score(self) -> float: ...


class Waterfall:
    """Record what each stage did with the chunks it got.

    A stage only hands over its lists; `as_dict` computes the lines.
    """

    def __init__(self) -> None:
        self._stages: list[tuple[str, Mapping[str, Any], Callable[[], _Lines]]] = []
        self._hits: list[Hits] = []

    def add_list(self, stage: str, found: Sequence[RankedItem], *, depth: int) -> None:
        """Record the list of one search."""
        last = round(found[-1].score, 4) if found else None
        cutoff = {"depth": depth, "listed": len(found), "last_score": last}
        self._stages.append((stage, cutoff, lambda: _build_list_lines(found)))

    def add_scores(self, stage: str, scores: Mapping[int, float], *, kept: Sequence[int]) -> None:
        """Record a stage that scored every chunk and kept the best."""
        last = round(scores[kept[-1]], 4) if kept else None
        cutoff = {"depth": len(kept), "listed": len(scores), "last_score": last}
        self._stages.append((stage, cutoff, lambda: _build_score_lines(scores, kept)))

    def add_step(self, stage: str, before: Hits, after: Hits, figures: Mapping[str, Any]) -> None:
        """Record a stage that hits went through: which came out, and where."""
        self._hits.append(before)
        self._stages.append((stage, figures, lambda: _build_step_lines(before, after)))

    def branch(self) -> Waterfall:
        other = Waterfall()
        other._stages, other._hits = [*self._stages], [*self._hits]
        return other

    def chunks(self) -> list[Chunk]:
        """Return every chunk that went through a stage, the earliest first."""
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
    """Repeat the waterfall of an earlier query with the same evidence."""

    def __init__(self, packed: PackedObject) -> None:
        super().__init__()
        self._packed = packed

    def branch(self) -> Waterfall:
        return PastWaterfall(self._packed)

    def as_dict(self) -> Mapping[str, Any]:
        return self._packed


def _build_list_lines(found: Sequence[RankedItem]) -> _Lines:
    return {
        one.key: {"rank": rank, "score": round(one.score, 4), "kept": True}
        for rank, one in enumerate(found, start=1)
    }


def _build_score_lines(scores: Mapping[int, float], kept: Sequence[int]) -> _Lines:
    inside = set(kept)
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return {
        key: {"rank": rank, "score": round(scores[key], 4), "kept": key in inside}
        for rank, key in enumerate(order, start=1)
    }


def _build_step_lines(before: Hits, after: Hits) -> _Lines:
    lines: _Lines = {}
    for rank, hit in enumerate(before, start=1):
        lines[hit.chunk.key] = {"was": rank, "score": round(hit.score, 4), "kept": False}
    for rank, hit in enumerate(after, start=1):
        line = {"rank": rank, "score": round(hit.score, 4), "kept": True}
        lines.setdefault(hit.chunk.key, {}).update(_list_verdicts(hit.scores), **line)
    return lines


# Most steps pass the scores on as they are, and a question has about six steps.
@lru_cache(maxsize=1_024)
def _list_verdicts(scores: Scores) -> Mapping[str, Any]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name in _VERDICTS
        if (value := getattr(scores, name)) is not None
    }


class Watcher(Protocol):
    """Follow the queries of this process: logs, metrics, OpenTelemetry."""

    def observe_stage(self, run: QueryRun, span: Span) -> None: ...
    def observe_answer(self, answer: Answer) -> None: ...


class Trace:
    """Record the stages of one query, in the order in which they began."""

    watchers: ClassVar[tuple[Watcher, ...]] = ()
    """The watchers of this process: it has one log and one page of metrics."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.waterfall = Waterfall()

    def add(self, span: Span) -> None:
        self.spans.append(span)

    def branch(self) -> Trace:
        other = Trace()
        other.spans, other.waterfall = [*self.spans], self.waterfall.branch()
        return other

    def as_dict(self) -> dict[str, Any]:
        return {
            "spans": [span.as_dict() for span in self.spans],
            "waterfall": self.waterfall.as_dict(),
        }

    @classmethod
    def notify(cls, answer: Answer) -> None:
        """Tell the watchers that an answer is finished."""
        for watcher in cls.watchers:
            watcher.observe_answer(answer)


class NoTrace(Trace):
    """Record nothing."""

    def add(self, span: Span) -> None:
        pass

    def branch(self) -> Trace:
        return NoTrace()

    def as_dict(self) -> dict[str, Any]:
        return {"spans": [], "waterfall": {}}


class QueryRun:
    """Carry the values that the steps of one query share, beside the query itself."""

    new_trace: ClassVar[Callable[[], Trace]] = Trace
    """Makes the record of a run; a test puts `NoTrace` here."""

    def __init__(
        self, request_id: str, *, owner: str = LOCAL_OWNER, session_id: str | None = None
    ) -> None:
        self.request_id = request_id
        self.owner = owner
        self.session_id = session_id
        self.number = take_number()
        self.started_at = time.time()
        self._zero = time.perf_counter()
        self.degraded: list[str] = []
        self.notes: list[str] = []
        self.usage: list[Usage] = []
        self.marks_claims = False
        """True when the reader of the stream wants verdicts while the answer is written."""
        self.asks_model = True
        """False when no call to a model can help: the collection is empty."""
        self.timings: dict[str, float] = {}
        self._found: dict[Hashable, Any] = {}
        self.trace = type(self).new_trace()

    def branch(self) -> QueryRun:
        """Return a run that starts with everything so far and goes its own way from here."""
        other = QueryRun(self.request_id, owner=self.owner, session_id=self.session_id)
        other.number, other.started_at, other._zero = self.number, self.started_at, self._zero
        other.degraded, other.notes = [*self.degraded], [*self.notes]
        other.usage, other.timings = [*self.usage], {**self.timings}
        other._found = {**self._found}
        other.trace = self.trace.branch()
        return other

    @contextmanager
    def span(self, stage: str) -> Iterator[Span]:
        """Time a stage. An exception is recorded and passes on."""
        begun, cpu = time.perf_counter(), time.thread_time()
        span = Span(stage, (begun - self._zero) * 1000)
        self.trace.add(span)
        try:
            yield span
        except BaseException as error:
            span.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            span.duration_ms = (time.perf_counter() - begun) * 1000
            # For a stage in another thread, the time of this thread belongs to other answers.
            span.cpu_ms = span.cpu_ms or (time.thread_time() - cpu) * 1000
            self.timings[stage] = self.timings.get(stage, 0.0) + span.duration_ms
            self.notes += span.notes
            self.usage += span.usage
            for watcher in Trace.watchers:
                watcher.observe_stage(self, span)

    def find_once(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what `find` returns, called once per query: a second search repeats the first."""
        if key not in self._found:
            self._found[key] = find()
        found: T = self._found[key]
        return found

    def degrade(self, reason: str) -> None:
        """Record that an optional part failed and the answer goes on without it."""
        if reason not in self.degraded:
            self.degraded.append(reason)

    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self._zero) * 1000

    def measure(self) -> dict[str, Any]:
        """Return the fields of `Answer` that tell when and how fast, also for a repeated one."""
        return {
            "started_at": self.started_at,
            "total_ms": round(self.elapsed_ms(), 3),
            "timings": {stage: round(ms, 3) for stage, ms in self.timings.items()},
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the record of this query, as the history stores it."""
        return {
            "request_id": self.request_id,
            "started_at": self.started_at,
            "total_ms": round(self.elapsed_ms(), 3),
            "degraded": list(self.degraded),
            **self.trace.as_dict(),
        }
