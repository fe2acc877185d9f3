"""Use evidence and answers again while a collection stays as it is.

`EvidenceCache` keeps what was found: a model's answers differ, what the search finds does not.
`AnswerCache` keeps answers that would be the same again (quoted ones, and those of a model at
temperature 0; on request also sampled ones), and lets callers who ask the same at the same moment
share one piece of work.
"""

from __future__ import annotations

import asyncio
import hmac
import pickle
import sys
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from ragstone.catalog.journal import pack_evidence
from ragstone.derived import DerivedStore, Value, build_key, name_answers
from ragstone.errors import StoreError
from ragstone.events import Event, Finished, SourcesFound, Token
from ragstone.evidence import Evidence
from ragstone.protocols import Catalog, Index
from ragstone.query.middleware import EventStream, Handler
from ragstone.threads import PerLoop, run_in_thread, run_in_thread_if_blocking
from ragstone.trace import PackedObject, PackedTrace, PastWaterfall, QueryRun
from ragstone.types import Answer, Query

T = TypeVar("T")
Key: TypeAlias = tuple[Hashable, ...]
Events: TypeAlias = AsyncGenerator[Event, None]
_SIGNATURE_BYTES = 32


class VersionedCache(Generic[T]):
    """Keep the most recently used values by key, each valid for one state of its collection."""

    def __init__(self, *, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._values: OrderedDict[Key, tuple[int, T, int]] = OrderedDict()
        self.size_bytes = 0
        # Callers without an event loop ask from threads of their own.
        self._lock = threading.Lock()

    def get(self, key: Key, version: int) -> T | None:
        with self._lock:
            held = self._values.get(key)
            if held is None or held[0] != version:
                return None
            self._values.move_to_end(key)
            return held[1]

    def put(self, key: Key, version: int, value: T) -> None:
        size = measure_bytes((key, value))
        if size > self._max_bytes:
            return
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = (version, value, size)
            self.size_bytes += size - (before[2] if before else 0)
            while len(self._values) > self._max_entries or self.size_bytes > self._max_bytes:
                _, (_, _, gone) = self._values.popitem(last=False)
                self.size_bytes -= gone


def get_settled_version(catalog: Catalog, index: Index, collection: str) -> int | None:
    """Return the state of a collection that an answer will rest on; None while it changes."""
    version = catalog.last_change(collection)
    try:
        seen = index.last_change(collection)
    except StoreError:  # the search meets it again, and knows what to do without
        return None
    # An index follows the catalog; what it finds before it has caught up is soon out of date.
    return version if seen == version else None


_LIMITS = attrgetter(*(one.name for one in fields(Query) if one.name not in ("id", "filter")))


def build_cache_key(query: Query) -> Key:
    """Return a question with everything that limits its search and its answer."""
    # A filter may hold lists, which cannot be compared by hash.
    return (*_LIMITS(query), query.filter and repr(query.filter))


def measure_bytes(value: Any) -> int:
    """Return the memory of a value with all that it holds, each object counted once."""
    seen: set[int] = set()
    total, left = 0, [value]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        kind = type(one)
        if kind not in _parts_of:
            _parts_of[kind] = _find_parts(kind)
        if (list_parts := _parts_of[kind]) is not None:
            left += list_parts(one)
    return total


_parts_of: dict[type, Callable[[Any], Iterable[Any]] | None] = {}


def _find_parts(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    """Return the function that lists what a value of this type holds; None if it holds nothing."""
    if issubclass(kind, tuple | list):
        return iter
    if issubclass(kind, PackedTrace):
        return attrgetter("own", "evidence")
    if issubclass(kind, PackedObject):
        return lambda one: (one.content,)
    if issubclass(kind, Mapping):
        return lambda one: (*one.keys(), *one.values())
    if is_dataclass(kind):
        names = [field.name for field in fields(kind)]
        return lambda one: [getattr(one, name) for name in names]
    return None


def delete_shared_answers(derived: DerivedStore, collections: Iterable[str]) -> None:
    """Delete the answers that processes share: a deleted question may be in no file."""
    derived.delete_owners([name_answers(one) for one in collections])


class SharedAnswers:
    """Keep answers for all processes of a server, in the file of derived values.

    Only processes that were given the same `secret` can read them: it names one run of one server,
    whose settings are the same in every process, and shows that nobody else wrote the answer.
    """

    def __init__(self, derived: DerivedStore, secret: bytes) -> None:
        self._derived = derived
        self._secret = secret

    def get(self, key: Key, version: int) -> Answer | None:
        name = self._build_name(key, version)
        content = self._derived.get_many([name]).get(name, b"")
        signature, packed = content[:_SIGNATURE_BYTES], content[_SIGNATURE_BYTES:]
        if not packed or not hmac.compare_digest(signature, self._sign(packed)):
            return None
        answer: Answer = pickle.loads(packed)  # noqa: S301  signed by a process of this server
        return answer

    def put(self, key: Key, version: int, answer: Answer) -> None:
        def pack() -> list[Value]:
            packed = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
            owner = name_answers(answer.collection)
            return [(self._build_name(key, version), owner, self._sign(packed) + packed)]

        self._derived.put_later(pack)

    def _build_name(self, key: Key, version: int) -> bytes:
        return build_key("answer", self._secret, version, key)

    def _sign(self, packed: bytes) -> bytes:
        return hmac.digest(self._secret, packed, "sha256")


@dataclass(frozen=True, slots=True)
class _CachedEvidence:
    evidence: Evidence
    waterfall: PackedObject
    notes: tuple[str, ...]


class EvidenceCache:
    """Keep the evidence of recent questions, bounded in number and in bytes."""

    def __init__(self, catalog: Catalog, index: Index, *, max_entries: int, max_bytes: int) -> None:
        self._catalog = catalog
        self._index = index
        self._found: VersionedCache[_CachedEvidence] = VersionedCache(
            max_entries=max_entries, max_bytes=max_bytes
        )

    async def get_or_search(
        self,
        query: Query,
        run: QueryRun,
        search: Callable[[Query, QueryRun], Awaitable[Evidence]],
    ) -> Evidence:
        """Return what was found for a query before, or what `search` finds now."""
        version = await run_in_thread_if_blocking(
            self._catalog, get_settled_version, self._catalog, self._index, query.collection
        )
        if version is None or run.degraded:
            return await search(query, run)
        key = build_cache_key(replace(query, temperature=0.0, model="", history=()))
        known = self._found.get(key, version)
        if known is not None:
            with run.span("repeat.evidence") as span:
                run.trace.waterfall = PastWaterfall(known.waterfall)
                span.count(
                    chunks_in=known.evidence.chunks_found,
                    chunks_used=len(known.evidence.sources),
                    grade=known.evidence.grade,
                )
                for note in known.notes:
                    span.note(note)
            # Of several readings the same one was chosen.
            chosen = known.evidence.query
            resolved = replace(query, text=chosen.text, route=chosen.route, outline=chosen.outline)
            return replace(known.evidence, query=resolved)
        earlier = len(run.notes)
        evidence = await search(query, run)
        if not run.degraded:
            packed = PackedObject.pack(run.trace.waterfall.as_dict())
            self._found.put(
                key, version, _CachedEvidence(evidence, packed, tuple(run.notes[earlier:]))
            )
        return evidence


class AnswerCache:
    """Keep recent answers, and share the work on those that are being asked."""

    def __init__(
        self,
        catalog: Catalog,
        index: Index,
        *,
        answers_repeat: bool,
        keeps_sampled: bool,
        max_entries: int,
        max_bytes: int,
        query_log: str,
        shared: SharedAnswers | None = None,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._shared = shared
        self._answers_repeat = answers_repeat
        self._keeps_sampled = keeps_sampled
        self._max_entries = max_entries
        self._query_log = query_log
        self.answers: VersionedCache[Answer] = VersionedCache(
            max_entries=max_entries, max_bytes=max_bytes
        )
        self._running: PerLoop[dict[Key, _Work]] = PerLoop(dict)

    async def handle(self, query: Query, run: QueryRun, next_: Handler) -> EventStream:
        """Give an answer that is there, one that is being made, or a new one."""
        # Do not share the result of a degraded query.
        version = None
        if not run.degraded:
            version = await run_in_thread_if_blocking(self._catalog, self._version_for, query)
        if version is None:
            return (await next_(query, run)).then(self._pack)
        key = build_cache_key(query)
        running = self._running.get()
        work = running.get((version, *key))
        known = self.answers.get(key, version) if work is None else None
        if known is None and work is None and self._shared is not None:
            known = await self._get_shared(self._shared, key, version)
            # Another caller may have begun meanwhile.
            work = running.get((version, *key))
        if known is not None:
            return EventStream(_replay(query, known, run))
        if work is not None:
            return EventStream(_join(work, query, run))

        async def keep(answer: Answer) -> Answer:
            return await self._keep(key, version, answer, is_sampled=self._is_sampled(query))

        begun = running[version, *key] = _Work(
            (await next_(query, run)).then(keep),
            # What is slow to stop may find another piece of work in its place.
            lambda: running.get((version, *key)) is begun and running.pop((version, *key)),
        )
        return EventStream(begun.follow())

    async def _get_shared(self, shared: SharedAnswers, key: Key, version: int) -> Answer | None:
        """Return the answer that another process of the server has written, or this one now."""
        known = await run_in_thread("store", shared.get, key, version)
        if known is None:
            return self.answers.get(key, version)
        self.answers.put(key, version, known)
        return known

    def _version_for(self, query: Query) -> int | None:
        """Return the state that an answer will rest on; None when it is not shared."""
        is_kept = self._keeps_sampled or not self._is_sampled(query)
        if not self._max_entries or not is_kept or query.mode == "plain":
            return None
        return get_settled_version(self._catalog, self._index, query.collection)

    def _is_sampled(self, query: Query) -> bool:
        """Return True when a model may write another answer to the same question."""
        return not self._answers_repeat and query.temperature != 0

    async def _keep(self, key: Key, version: int, answer: Answer, *, is_sampled: bool) -> Answer:
        """Keep an answer, but not a degraded or refused one: the next may be whole, and a
        moderator may change its mind. A model that found no answer may find one next time."""
        packed = await self._pack(answer)
        is_final = not is_sampled or packed.status == "answered"
        if is_final and not packed.degraded and packed.status != "refused":
            assert isinstance(packed.trace, PackedTrace)
            bare = PackedTrace({}, packed.trace.evidence)
            kept = replace(packed, trace=bare)
            self.answers.put(key, version, kept)
            if self._shared is not None:
                self._shared.put(key, version, kept)
        return packed

    async def _pack(self, answer: Answer) -> Answer:
        evidence = pack_evidence(answer, query_log=self._query_log)
        return replace(answer, trace=PackedTrace(answer.trace, evidence))


class _Work:
    """Make one answer for all callers who wait for it, as long as any of them waits."""

    def __init__(self, events: EventStream, ended: Callable[[], object]) -> None:
        self._ended = ended
        self._so_far: list[Event] = []
        self._news = asyncio.Event()
        self._listeners = 0
        self._over = False
        self._error: BaseException | None = None
        self._task = asyncio.create_task(self._run(events))

    async def follow(self) -> Events:
        """Yield everything from the beginning, then what comes; raise the failure of the work."""
        self._listeners += 1
        position = 0
        try:
            while True:
                while position < len(self._so_far):
                    yield self._so_far[position]
                    position += 1
                if self._over:
                    break
                await self._news.wait()
            if self._error is not None:
                raise self._error
        finally:
            self._listeners -= 1
            if not self._listeners and not self._over:
                self._ended()  # nobody may join what is being stopped
                self._task.cancel()
                await asyncio.wait({self._task})

    async def _run(self, events: EventStream) -> None:
        try:
            async for event in events:
                self._so_far.append(event)
                self._notify()
        except Exception as error:  # noqa: BLE001  each of those who wait raises it
            self._error = error
        except asyncio.CancelledError as error:
            self._error = error
            raise
        finally:
            await events.aclose()
            self._over = True
            self._ended()
            self._notify()

    def _notify(self) -> None:
        self._news.set()
        self._news.clear()


async def _join(work: _Work, query: Query, run: QueryRun) -> Events:
    """Yield the events of work that another caller started, under the id of this query."""
    answer: Answer | None = None
    with run.span("repeat") as span:
        events = work.follow()
        try:
            async for event in events:
                if isinstance(event, Finished):
                    answer = event.answer
                    span.note("The same question was already running: its answer is shared.")
                else:
                    yield event
        finally:
            await events.aclose()
    assert answer is not None, "work ends with Finished or with an error"
    yield _finish_with_own_id(query, answer, run)


async def _replay(query: Query, answer: Answer, run: QueryRun) -> Events:
    """Yield the events of an answer that is there already, under the id of this query."""
    with run.span("repeat") as span:
        # The note names no user and no id: another user may have asked.
        span.note("The same was asked before, and the collection has not changed since.")
    yield SourcesFound(answer.sources)
    yield Token(answer.text, verified=True)
    yield _finish_with_own_id(query, answer, run)


def _finish_with_own_id(query: Query, answer: Answer, run: QueryRun) -> Finished:
    # The waterfall is that of the first time: nothing has changed since.
    assert isinstance(answer.trace, PackedTrace)
    own = {**run.as_dict(), "degraded": list(answer.degraded)}
    return Finished(
        replace(
            answer,
            query_id=query.id,
            cached=True,
            notes=tuple(dict.fromkeys((*answer.notes, *run.notes))),
            usage=(),
            trace=PackedTrace(own, answer.trace.evidence),
            **run.measure(),
        )
    )
