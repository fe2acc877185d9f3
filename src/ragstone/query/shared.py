"""Answers to questions that were asked before, as long as their collection has not changed, and to
those that somebody else is asking at this moment: one piece of work, and everybody gets its answer.

Only answers that would be the same again are shared: quoted ones, and those of a model at
temperature 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from ragstone.catalog.journal import evidence_of
from ragstone.packed import PackedTrace
from ragstone.protocols import Catalog, Index, Provider
from ragstone.query.cache import Kept, Key, asked, limits_of, settled_version
from ragstone.trace import Trace
from ragstone.types import Answer, Event, Finished, Query, SourcesFound, Token

Events: TypeAlias = AsyncGenerator[Event, None]


class RepeatedAnswers:
    """The `most` recent answers by question and everything that limits its search, at most
    `most_bytes` of them; and the work on those that are being asked."""

    def __init__(
        self, catalog: Catalog, index: Index, provider: Provider, *,
        most: int, most_bytes: int, query_log: str,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._index = index
        self._quotes = provider.name == "extractive"
        self._most = most
        self._query_log = query_log
        self.kept: Kept[Answer] = Kept(most=most, most_bytes=most_bytes)
        self._running: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, _Work]] = (
            WeakKeyDictionary()
        )

    async def events(
        self, query: Query, trace: Trace, anew: Callable[[Query, Trace], Events]
    ) -> Events:
        """The events of an answer: of one that is there, of one that is being made, or `anew`."""
        # What went wrong with this question alone, nobody else's answer shall say.
        version = None if trace.degraded else await asked(self._catalog, self._version, query)
        if version is None:
            async with aclosing(anew(query, trace)) as events:
                async for event in events:
                    yield self._packed(event) if isinstance(event, Finished) else event
            return
        key = limits_of(query)
        known = self.kept.find(key, version)
        if known is not None:
            for event in replay(query, known, trace):
                yield event
            return
        running = self._running.setdefault(asyncio.get_running_loop(), {})
        work = running.get((version, *key))
        if work is not None:
            async with aclosing(_joined(work, query, trace)) as events:
                async for event in events:
                    yield event
            return
        begun = running[version, *key] = _Work(
            self._keeping(key, version, anew(query, trace)),
            # What is slow to stop may find another piece of work in its place.
            lambda: running.get((version, *key)) is begun and running.pop((version, *key)),
        )
        async with aclosing(begun.follow()) as events:
            async for event in events:
                yield event

    def _version(self, query: Query) -> int | None:
        """The state of the collection that an answer will rest on; None: it is not shared."""
        if not self._most or not (self._quotes or query.temperature == 0):
            return None
        return settled_version(self._catalog, self._index, query.collection)

    async def _keeping(self, key: Key, version: int, events: Events) -> Events:
        async with aclosing(events):
            async for event in events:
                yield self._kept(key, version, event) if isinstance(event, Finished) else event

    def _kept(self, key: Key, version: int, event: Finished) -> Finished:
        """A degraded or refused answer is for those who wait for it, and not kept: the next one
        may be whole, and a moderator may change its mind."""
        packed = self._packed(event)
        answer = packed.answer
        if not answer.degraded and answer.status != "refused":
            assert isinstance(answer.trace, PackedTrace)
            bare = PackedTrace({}, answer.trace.evidence)
            self.kept.keep(key, version, replace(answer, trace=bare))
        return packed

    def _packed(self, event: Finished) -> Finished:
        answer = event.answer
        evidence = evidence_of(answer, query_log=self._query_log)
        return Finished(replace(answer, trace=PackedTrace(answer.trace, evidence)))


class _Work:
    """One answer in the making, and those who wait for it. It goes on while anybody does: whoever
    asked first may leave."""

    def __init__(self, events: Events, ended: Callable[[], object]) -> None:
        self._ended = ended
        self._so_far: list[Event] = []
        self._news = asyncio.Event()
        self._listeners = 0
        self._over = False
        self._error: BaseException | None = None
        self._task = asyncio.create_task(self._run(events))

    async def follow(self) -> Events:
        """Everything from the beginning, then what comes; a failure is that of all who wait."""
        self._listeners += 1
        told = 0
        try:
            while True:
                while told < len(self._so_far):
                    yield self._so_far[told]
                    told += 1
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

    async def _run(self, events: Events) -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    self._so_far.append(event)
                    self._tell()
        except Exception as error:  # noqa: BLE001  each of those who wait raises it
            self._error = error
        except asyncio.CancelledError as error:
            self._error = error
            raise
        finally:
            self._over = True
            self._ended()
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news.clear()


async def _joined(work: _Work, query: Query, trace: Trace) -> Events:
    """The events of somebody else's work, the answer under the id of this query."""
    answer: Answer | None = None
    with trace.span("repeat") as span:
        async with aclosing(work.follow()) as events:
            async for event in events:
                if isinstance(event, Finished):
                    answer = event.answer
                    span.note("The same was being asked already: one piece of work for both.")
                else:
                    yield event
    assert answer is not None, "work ends with Finished or with an error"
    yield _under_own_id(query, answer, trace)


def replay(query: Query, answer: Answer, trace: Trace) -> Iterator[Event]:
    """The events of an answer that is there already, under the id of this query."""
    with trace.span("repeat") as span:
        # Not by whom, nor under which id: that may have been somebody else.
        span.note("The same was asked before, and the collection has not changed since.")
    yield SourcesFound(answer.sources)
    yield Token(answer.text, verified=True)
    yield _under_own_id(query, answer, trace)


def _under_own_id(query: Query, answer: Answer, trace: Trace) -> Finished:
    # The way of the chunks is that of the first time: nothing has changed since.
    assert isinstance(answer.trace, PackedTrace)
    own = {**trace.as_dict(), "degraded": list(answer.degraded)}
    record = PackedTrace(own, answer.trace.evidence)
    return Finished(replace(answer, query_id=query.id, trace=record))
