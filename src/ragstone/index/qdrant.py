"""Search a Qdrant server or cluster: one Qdrant collection for each of ours.

Each chunk has a dense vector and, for keywords, a sparse one: the BM25 weight of each term without
its IDF, which the server applies shard by shard. With several shards the order of the keyword hits
may therefore differ from the embedded index. k1, b and the average length are fixed when a chunk
is written; a search with other values is refused.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from qdrant_client import models

from ragstone.errors import StoreError
from ragstone.index.analyze import (
    ANALYZER_VERSION,
    choose_language,
    extract_query_terms,
    extract_terms,
)
from ragstone.index.qdrant_points import (
    DENSE,
    SPARSE,
    QdrantCollections,
    build_filter,
    build_payload,
)
from ragstone.plugins import IndexContext
from ragstone.protocols import Catalog, Change, IndexCounts, ScoredKey, SearchScope, Vectors
from ragstone.settings import IndexSettings
from ragstone.types import Chunk

_FORMAT = 1
_BATCH_POINTS = 256
_BATCH_CHANGES = 200
_CATCH_UP_S = 1.0
# Chunks are sized in tokens, so their lengths in terms vary little; the first batch sets it.
_DEFAULT_LENGTH = 120.0


class QdrantIndex:
    """Implement `Index` on Qdrant."""

    waits = True

    def __init__(
        self, catalog: Catalog, settings: IndexSettings, *, dimension: int, k1: float, b: float
    ) -> None:
        self._catalog = catalog
        self._dimension = dimension
        self._k1, self._b = k1, b
        self._collections = QdrantCollections(settings, dimension=dimension)
        level = settings.qdrant_read_consistency
        self._consistency = None if level is None else models.ReadConsistencyType(level)
        self._checked_at: dict[str, float] = {}
        self._last_change: dict[str, int] = {}
        self._languages: dict[str, tuple[str, ...]] = {}
        self._refresh_lock = threading.Lock()

    def refresh(self, collection: str) -> None:
        with self._refresh_lock:
            self._apply_changes(collection)

    def _apply_changes(self, collection: str) -> None:
        state = self._read_state(collection)
        while changes := self._catalog.changes(
            collection, after=state["seq"], limit=_BATCH_CHANGES
        ):
            self._collections.ensure(collection)
            state = self._apply(self._collections.name(collection), state, changes)
            self._write_state(collection, state)
        self._remember_state(collection, state)

    def _remember_state(self, collection: str, state: dict[str, Any]) -> None:
        counts = state["languages"]
        self._last_change[collection] = state["seq"]
        self._languages[collection] = tuple(sorted(counts, key=lambda one: -counts[one]))

    def last_change(self, collection: str) -> int:
        """Return the last change applied here: asking the server would cost as much as a search."""
        return self._last_change.get(collection, 0)

    def rebuild(self, collection: str) -> None:
        """Build a new Qdrant collection while the old one is searched, then replace it."""
        with self._refresh_lock:
            state = dict(_EMPTY_STATE)
            if not self._catalog.changes(collection, after=0, limit=1):
                self._collections.drop(collection)
            else:
                name = self._collections.create_new(collection)
                state = self._apply_all(collection, name, state)
                self._collections.switch(collection, name)
                # Changes that other processes applied meanwhile are only in the old collection.
                state = self._apply_all(collection, name, state)
            self._write_state(collection, state)
            self._remember_state(collection, state)

    def _apply_all(self, collection: str, name: str, state: dict[str, Any]) -> dict[str, Any]:
        while changes := self._catalog.changes(
            collection, after=state["seq"], limit=_BATCH_CHANGES
        ):
            state = self._apply(name, state, changes)
        return state

    def counts(self, collection: str) -> IndexCounts:
        if not self._collections.exists(collection):
            return IndexCounts(0, 0)
        count = self._collections.call(
            self._collections.client.count, self._collections.name(collection), exact=True
        ).count
        return IndexCounts(dense=count, keyword=count)

    def search_dense(
        self, collection: str, vector: Vectors, *, limit: int, scope: SearchScope | None = None
    ) -> list[ScoredKey]:
        return self._search(collection, vector.tolist(), DENSE, limit, scope)

    def search_keyword(
        self,
        collection: str,
        text: str,
        *,
        limit: int,
        k1: float,
        b: float,
        scope: SearchScope | None = None,
    ) -> list[ScoredKey]:
        if (k1, b) != (self._k1, self._b):
            raise StoreError(
                f"The Qdrant index was written for k1 = {self._k1:g} and b = {self._b:g}.",
                hint="Set BM25_K1 and BM25_B for the whole server and run: ragstone reindex",
            )
        self._catch_up(collection)
        words = extract_query_terms(text, self._languages.get(collection, ()))
        if not words:
            return []
        sparse = models.SparseVector(indices=[*map(_hash, words)], values=[1.0] * len(words))
        return self._search(collection, sparse, SPARSE, limit, scope)

    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        found = np.zeros((len(keys), self._dimension), dtype=np.float32)
        if not keys or not self._collections.exists(collection):
            return found
        points = self._collections.call(
            self._collections.client.retrieve,
            self._collections.name(collection),
            list(keys),
            with_payload=False,
            with_vectors=[DENSE],
        )
        stored = {point.id: point.vector for point in points}
        for row, key in enumerate(keys):
            vector = stored.get(key)
            if isinstance(vector, dict):
                found[row] = np.asarray(vector[DENSE], dtype=np.float32)
        return found

    def close(self) -> None:
        self._collections.client.close()

    def _search(
        self, collection: str, query: Any, using: str, limit: int, scope: SearchScope | None
    ) -> list[ScoredKey]:
        self._catch_up(collection)
        if limit < 1 or not self._collections.exists(collection):
            return []
        reply = self._collections.call(
            self._collections.client.query_points,
            self._collections.name(collection),
            query=query,
            using=using,
            limit=limit,
            with_payload=False,
            query_filter=None if scope is None else build_filter(scope),
            consistency=self._consistency,
        )
        found = [ScoredKey(int(point.id), float(point.score)) for point in reply.points]
        return sorted(found, key=lambda hit: (-hit.score, hit.key))

    def _catch_up(self, collection: str) -> None:
        """Apply changes that a writer committed but did not index before it ended."""
        now = time.monotonic()
        if now - self._checked_at.get(collection, -math.inf) > _CATCH_UP_S:
            self._checked_at[collection] = now
            self.refresh(collection)

    def _apply(self, name: str, state: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
        removed = [change.keys for change in changes if change.kind == "remove"]
        added = [change.keys for change in changes if change.kind == "add"]
        for keys in removed:
            selector = models.PointIdsList(points=list(keys))
            self._collections.call(self._collections.client.delete, name, selector, wait=True)
        documents = {c.document_id for c in changes if c.kind == "add"}
        fields = self._catalog.document_fields(documents)
        average = float(state["average_length"])
        languages = Counter[str](state["languages"])
        for begin in range(0, len(added), 50):
            chunks, vectors = self._catalog.chunks_with_vectors(
                added[begin : begin + 50], dimension=self._dimension
            )
            codes = {one: found.get("language") for one, found in fields.items()}
            terms = [_extract_terms(chunk, codes, languages) for chunk in chunks]
            lengths = [*map(len, terms[:_BATCH_POINTS])]
            average = average or (sum(lengths) / len(lengths) if lengths else _DEFAULT_LENGTH)
            points = self._build_points(chunks, terms, vectors, fields, average)
            for batch in _split_batches(points):
                self._collections.call(self._collections.client.upsert, name, batch, wait=True)
        after = {"seq": changes[-1].seq, "average_length": average, "languages": dict(languages)}
        return {**state, **after}

    def _build_points(
        self,
        chunks: Sequence[Chunk],
        terms: Sequence[list[str]],
        vectors: Vectors,
        fields: dict[str, Any],
        average: float,
    ) -> Iterator[models.PointStruct]:
        for chunk, words, vector in zip(chunks, terms, vectors, strict=True):
            sparse = self._build_sparse(words, average)
            yield models.PointStruct(
                id=chunk.key,
                vector={DENSE: vector.tolist(), SPARSE: sparse},
                payload=build_payload(chunk, fields.get(chunk.document_id, {})),
            )

    def _build_sparse(self, words: Sequence[str], average: float) -> models.SparseVector:
        """Compute the BM25 weight of each term without its IDF."""
        norm = self._k1 * (1 - self._b + self._b * len(words) / average)
        weights: dict[int, float] = {}
        for word, count in Counter(words).items():
            weight = count * (self._k1 + 1) / (count + norm)
            weights[_hash(word)] = weights.get(_hash(word), 0.0) + weight
        return models.SparseVector(indices=list(weights), values=list(weights.values()))

    def _read_state(self, collection: str) -> dict[str, Any]:
        """Read which changes are applied. The state is stored in Qdrant, beside its collection."""
        if not self._collections.exists(collection):
            return dict(_EMPTY_STATE)
        records = self._collections.call(
            self._collections.client.retrieve,
            self._collections.state_collection(),
            [_state_id(collection)],
        )
        state = dict(records[0].payload or {}) if records else dict(_EMPTY_STATE)
        if not state["seq"]:
            self._collections.clear_cache(collection)
        elif any(state.get(name) != value for name, value in self._stamp().items()):
            self._collections.drop(collection)
            return dict(_EMPTY_STATE)
        return state

    def _stamp(self) -> dict[str, Any]:
        """Return the values that an index must have been written with to be usable."""
        identity = str(self._catalog.identity())  # as text: too long for a JSON number
        return {
            "format": _FORMAT,
            "analyzer": ANALYZER_VERSION,
            "k1": self._k1,
            "b": self._b,
            "catalog": identity,
        }

    def _write_state(self, collection: str, state: dict[str, Any]) -> None:
        payload = {**state, **self._stamp()}
        point = models.PointStruct(id=_state_id(collection), vector=[0.0], payload=payload)
        self._collections.call(
            self._collections.client.upsert,
            self._collections.state_collection(),
            [point],
            wait=True,
        )


_EMPTY_STATE: dict[str, Any] = {"seq": 0, "average_length": 0.0, "languages": {}}


def _extract_terms(chunk: Chunk, codes: dict[str, Any], counts: Counter[str]) -> list[str]:
    """Return the terms of a chunk and count its language."""
    text = chunk.contextual_text
    language = choose_language(text, codes.get(chunk.document_id))
    counts[language] += 1
    return extract_terms(text, language)


def _hash(term: str) -> int:
    """Hash a term to its index in sparse vectors: 1 of 4,300 in a million terms collides."""
    return zlib.crc32(term.encode())


def _state_id(collection: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, collection))


def _split_batches(points: Iterator[models.PointStruct]) -> Iterator[list[models.PointStruct]]:
    while batch := list(islice(points, _BATCH_POINTS)):
        yield batch


def build(context: IndexContext) -> QdrantIndex:
    retrieve = context.settings.retrieve
    return QdrantIndex(
        context.catalog,
        context.settings.index,
        dimension=context.embedder.dimension,
        k1=retrieve.bm25_k1,
        b=retrieve.bm25_b,
    )
