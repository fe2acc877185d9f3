"""Parts behind a network say `waits = True` and are asked off the event loop; all others in place,
because a hop to a thread costs more than their work (848 against 134 requests/s measured)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

from ragstone.errors import StoreError
from ragstone.packed import PackedObject, PackedTrace
from ragstone.protocols import Catalog, Index
from ragstone.query.evidence import Evidence
from ragstone.trace import PastWaterfall, Trace
from ragstone.types import Query

P = ParamSpec("P")
T = TypeVar("T")


async def asked(part: object, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What `work`, which asks `part`, gives."""
    if getattr(part, "waits", False):
        return await asyncio.to_thread(work, *given, **named)
    return work(*given, **named)


Key: TypeAlias = tuple[Hashable, ...]


class Kept(Generic[T]):
    """The most recently used values by key, each valid for one state of its collection."""

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._values: OrderedDict[Key, tuple[int, T, int]] = OrderedDict()
        self.held_bytes = 0
        # Callers without an event loop ask from threads of their own.
        self._lock = threading.Lock()

    def find(self, key: Key, version: int) -> T | None:
        with self._lock:
            held = self._values.get(key)
            if held is None or held[0] != version:
                return None
            self._values.move_to_end(key)
            return held[1]

    def keep(self, key: Key, version: int, value: T) -> None:
        size = size_of((key, value))
        if size > self._most_bytes:
            return
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = (version, value, size)
            self.held_bytes += size - (before[2] if before else 0)
            while len(self._values) > self._most or self.held_bytes > self._most_bytes:
                _, (_, _, gone) = self._values.popitem(last=False)
                self.held_bytes -= gone


def settled_version(catalog: Catalog, index: Index, collection: str) -> int | None:
    """The state of a collection that an answer will rest on; None while it changes."""
    version = catalog.last_change(collection)
    try:
        seen = index.last_change(collection)
    except StoreError:  # the search meets it again, and knows what to do without
        return None
    # An index follows the catalog; what it finds before it has caught up is soon out of date.
    return version if seen == version else None


_LIMITS = attrgetter(*(one.name for one in fields(Query) if one.name not in ("id", "filter")))


def limits_of(query: Query) -> Key:
    """A question and everything that limits its search and its answer."""
    # A filter may hold lists, which cannot be compared by hash.
    return (*_LIMITS(query), query.filter and repr(query.filter))


def size_of(value: Any) -> int:
    """The memory of a value with all that it holds, each object counted once."""
    seen: set[int] = set()
    total, left = 0, [value]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        if isinstance(one, tuple | list):
            left += one
        elif isinstance(one, PackedTrace):
            left += (one.own, one.evidence)
        elif isinstance(one, PackedObject):
            left.append(one.content)
        elif isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif is_dataclass(one):
            left += [getattr(one, field.name) for field in fields(one)]
    return total


@dataclass(frozen=True, slots=True)
class _Found:
    evidence: Evidence
    waterfall: PackedObject
    chunks_in: int
    """How many chunks the searches listed, as the stage `fuse` counts them."""


class FoundBefore:
    """The evidence of the `most` recent questions, at most `most_bytes` of it."""

    def __init__(self, catalog: Catalog, index: Index, *, most: int, most_bytes: int) -> None:
        self._catalog = catalog
        self._index = index
        self._found: Kept[_Found] = Kept(most=most, most_bytes=most_bytes)

    async def evidence(
        self, query: Query, trace: Trace, search: Callable[[Query, Trace], Awaitable[Evidence]]
    ) -> Evidence:
        """What was found for a query before, or what a `search` finds now."""
        version = await asked(
            self._catalog, settled_version, self._catalog, self._index, query.collection
        )
        if version is None or trace.degraded:
            return await search(query, trace)
        key = limits_of(replace(query, temperature=0.0, model="", history=()))
        known = self._found.find(key, version)
        if known is not None:
            with trace.span("repeat.evidence") as span:
                trace.waterfall = PastWaterfall(known.waterfall)
                span.count(
                    chunks_in=known.chunks_in, chunks_used=len(known.evidence.sources),
                    grade=known.evidence.grade,
                )  # fmt: skip
            return replace(known.evidence, query=query)
        evidence = await search(query, trace)
        if not trace.degraded:
            listed = (span.counts.get("chunks_in", 0) for span in trace.spans
                      if span.stage == "fuse")  # fmt: skip
            packed = PackedObject.of(trace.waterfall.as_dict())
            self._found.keep(key, version, _Found(evidence, packed, next(listed, 0)))
        return evidence
