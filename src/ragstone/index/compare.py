"""Compare chunks on an index server with the catalog: their terms and their vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from ragstone.index.chunk_store import BATCH_POINTS, ChunkStore, NewChunk
from ragstone.protocols import Catalog

Prepare: TypeAlias = Callable[[Sequence[range]], list[NewChunk]]
"""Reads the chunks of these keys that still exist in the catalog, as they are written."""

# Half precision and the server's own scaling to length 1 change a vector by less.
_SAME_WITHIN = 5e-3
_BATCH_CHANGES = 200


def read_added_keys(catalog: Catalog, collection: str, last: int) -> Iterator[list[range]]:
    """Yield the keys that were added up to a change, in batches."""
    seq = 0
    while seq < last:
        changes = catalog.changes(collection, after=seq, limit=_BATCH_CHANGES)
        if not changes:
            return
        added = [one.keys for one in changes if one.kind == "add" and one.seq <= last]
        yield from _split_ranges(added)
        seq = changes[-1].seq


def _split_ranges(ranges: Iterable[range]) -> Iterator[list[range]]:
    batch: list[range] = []
    free = BATCH_POINTS
    for keys in ranges:
        rest = keys
        while rest:
            batch.append(rest[:free])
            rest, free = rest[free:], free - len(batch[-1])
            if not free:
                yield batch
                batch, free = [], BATCH_POINTS
    if batch:
        yield batch


def compare_chunks(
    store: ChunkStore,
    prepare: Prepare,
    collection: str,
    batches: Iterable[Sequence[range]],
    pause: Callable[[], None],
) -> Counter[str]:
    """Count the chunks that the server should have and lacks, or has with other content.

    The server is read first: a chunk that is deleted meanwhile is gone from the catalog before it
    is gone from the server, and so never looks as if it were missing.
    """
    found: Counter[str] = Counter()
    for ranges in batches:
        keys = [key for part in ranges for key in part]
        terms = {one.key: set(one.terms) for one in store.read_terms(collection, keys)}
        vectors = store.read_vectors(collection, keys)
        for one in prepare(ranges):
            key = one.chunk.key
            if key not in terms or key not in vectors:
                found["missing"] += 1
            elif terms[key] != set(one.counts) or not np.allclose(
                vectors[key], one.vector, atol=_SAME_WITHIN
            ):
                found["other content"] += 1
        pause()
    return found
