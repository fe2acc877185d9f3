"""Define what an index needs from a server that holds chunks (Qdrant, Pinecone)."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ragstone.errors import StoreBusyError, StoreError
from ragstone.filters import SearchScope
from ragstone.index.sparse import StoredTerms
from ragstone.protocols import Change, ScoredKey, Vectors
from ragstone.types import Chunk

BATCH_POINTS = 256


class MissingCollectionError(Exception):
    """Signal that the server has no collection of that name."""


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


def batch_keys(changes: Iterable[Change]) -> Iterator[list[int]]:
    """Yield the keys of changes in batches for one request each."""
    keys = [key for change in changes for key in change.keys]
    for begin in range(0, len(keys), BATCH_POINTS):
        yield keys[begin : begin + BATCH_POINTS]


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
