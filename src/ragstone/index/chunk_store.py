"""Define what an index needs from a server that holds chunks (Qdrant, Pinecone), and score by it.

The terms of a chunk are a sparse vector: a server stores their weights for one fixed average
length. A search asks with the rarity of the terms and scores the best hits again: the counts are
computed back from the weights. Chunks on a server can be compared with the catalog.
"""

from __future__ import annotations

import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ragstone.catalog.schema import split_batches
from ragstone.errors import StoreBusyError, StoreError
from ragstone.filters import SearchScope
from ragstone.protocols import Catalog, Change, ScoredKey, Vectors
from ragstone.types import Chunk

# Weights are written for these values; a search computes the score for its own.
_K1, _B, _LENGTH = 1.2, 0.75, 100.0


@dataclass(frozen=True, slots=True)
class StoredTerms:
    """Hold what a server stores of a chunk for keyword search."""

    key: int
    length: int
    terms: Sequence[int]
    weights: Sequence[float]
    build: int = 0
    language: int = 0


def hash_term(term: str) -> int:
    """Hash a term to its index in sparse vectors: 1 of 4,300 in a million terms collides."""
    return zlib.crc32(term.encode())


def weigh_terms(counts: Counter[int]) -> list[float]:
    """Return the weight of each term, in the order of the counts."""
    norm = _K1 * (1 - _B + _B * counts.total() / _LENGTH)
    return [count * (_K1 + 1) / (count + norm) for count in counts.values()]


def score_terms(
    stored: StoredTerms, rarity: Mapping[int, float], average: float, *, k1: float, b: float
) -> float:
    """Compute BM25 of a chunk for the terms of a question."""
    stored_norm = _K1 * (1 - _B + _B * stored.length / _LENGTH)
    norm = k1 * (1 - b + b * stored.length / average)
    score = 0.0
    for term, weight in zip(stored.terms, stored.weights, strict=True):
        if term in rarity:
            count = round(weight * stored_norm / (_K1 + 1 - weight))
            score += rarity[term] * count * (k1 + 1) / (count + norm)
    return score


BATCH_POINTS = 256
BATCH_CHANGES = 200


class MissingCollectionError(StoreError):
    """Signal that the server has no collection of that name."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The index server does not have the index: {reason}.",
            hint="Build it again with: ragstone reindex",
        )


@dataclass(frozen=True, slots=True)
class NewChunk:
    """Hold a chunk as it goes to the server: with its vector, terms and document."""

    chunk: Chunk
    vector: Vectors
    counts: Counter[int]
    language: int
    document: Mapping[str, Any]


class ChunkStore(Protocol):
    """Hold the chunks of all collections of the catalog at `epoch`, written with one embedder."""

    epoch: int
    """Tells a catalog from its restored copies; set before each use."""

    @property
    def name(self) -> str:
        """Return the name of the store; those of other embedders begin like it."""
        ...

    @property
    def prefix(self) -> str: ...
    def create(self) -> None: ...
    def write(self, collection: str, build: int, chunks: Sequence[NewChunk]) -> None: ...
    def delete(self, collection: str, keys: Sequence[int]) -> None: ...
    def delete_other_builds(self, collection: str, build: int) -> None: ...
    def delete_elsewhere(self, collection: str, name: str) -> None: ...
    def write_marker(self, collection: str, seq: int) -> None:
        """Write the last change beside the chunks, to notice if the server loses them. When this
        returns, searches see all that was written before."""
        ...

    def read_marker(self, collection: str) -> int | None: ...
    def count(self, collection: str, expected: int) -> int:
        """Count the chunks; a server that counts late may wait until it finds `expected`."""
        ...

    def search_dense(
        self, collection: str, vector: Vectors, limit: int, scope: SearchScope | None
    ) -> list[ScoredKey]: ...
    def search_terms(
        self, collection: str, rarity: Mapping[int, float], limit: int, scope: SearchScope | None
    ) -> list[StoredTerms]: ...
    def read_terms(self, collection: str, keys: Sequence[int]) -> list[StoredTerms]: ...
    def read_vectors(self, collection: str, keys: Sequence[int]) -> Mapping[int, Any]: ...
    def close(self) -> None: ...


def batch_keys(changes: Iterable[Change]) -> Iterator[Sequence[int]]:
    """Yield the keys of changes in batches for one request each."""
    return split_batches([key for change in changes for key in change.keys], BATCH_POINTS)


def sort_hits(hits: Iterable[ScoredKey]) -> list[ScoredKey]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.key))


def make_mismatch_error(collection: str, what: str) -> StoreError:
    return StoreError(
        f"The index of '{collection}' {what}.",
        hint="Nothing was changed. Build it again from the catalog with: "
        f"ragstone reindex --collection {shlex.quote(collection)}",
    )


def make_unfilled_error(collection: str) -> StoreBusyError:
    return StoreBusyError(
        f"The index of '{collection}' does not hold all documents yet.",
        hint=f"Fill it with: ragstone reindex --collection {shlex.quote(collection)}",
    )


def make_busy_error(collection: str) -> StoreBusyError:
    return StoreBusyError(
        f"Another process is updating the index of '{collection}'.",
        hint="The documents are stored and become searchable when it has finished.",
    )


Prepare: TypeAlias = Callable[[Sequence[range]], list[NewChunk]]
"""Reads the chunks of these keys that still exist in the catalog, as they are written."""

# Half precision and the server's own scaling to length 1 change a vector by less.
_SAME_WITHIN = 5e-3


def read_changes(
    catalog: Catalog, collection: str, *, after: int, last: int
) -> Iterator[list[Change]]:
    """Yield the changes after one, up to another, in batches."""
    while after < last and (
        changes := catalog.changes(collection, after=after, limit=BATCH_CHANGES)
    ):
        yield [one for one in changes if one.seq <= last]
        after = changes[-1].seq


def read_added_keys(catalog: Catalog, collection: str, last: int) -> Iterator[list[range]]:
    """Yield the keys that were added up to a change, in batches."""
    for changes in read_changes(catalog, collection, after=0, last=last):
        yield from _split_ranges(one.keys for one in changes if one.kind == "add")


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
