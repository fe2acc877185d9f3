"""What may be used again while a collection stays as it is: bounded in number and in bytes."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from ragstone.errors import StoreError
from ragstone.packed import PackedObject, PackedTrace
from ragstone.stages import Catalog, Index
from ragstone.types import Query

T = TypeVar("T")
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
