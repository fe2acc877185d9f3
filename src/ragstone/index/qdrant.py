"""The same index on a Qdrant server or cluster: one Qdrant collection for each of ours.

Dense vectors and, for keywords, sparse ones whose weights are the BM25 of each term without its
rarity; the server multiplies that in, shard by shard, so the order below the first ranks may
differ from the embedded index where a collection has several shards. k1, b and the average length
are fixed when a chunk is written: asking with others is refused.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from qdrant_client import models

from ragstone.errors import StoreError
from ragstone.index.analyze import query_terms, terms
from ragstone.index.qdrant_points import DENSE, SPARSE, Shelf, payload_of, translated
from ragstone.plugins import IndexContext
from ragstone.protocols import Catalog, Change, Found, IndexCounts, Vectors, Within
from ragstone.settings import IndexSettings
from ragstone.types import Chunk

_FORMAT = 1
_BATCH_POINTS = 256
_BATCH_CHANGES = 200
_CATCH_UP_SECONDS = 1.0
# Chunks are sized in tokens, so their lengths in terms vary little; the first batch tells.
_TYPICAL_LENGTH = 120.0


class QdrantIndex:
    """Follows the catalog's changes like the embedded index, and answers the same questions."""

    waits = True

    def __init__(self, catalog: Catalog, settings: IndexSettings, *, dimension: int,
                 k1: float, b: float) -> None:  # fmt: skip
        self._catalog = catalog
        self._dimension = dimension
        self._k1, self._b = k1, b
        self._shelf = Shelf(settings, dimension=dimension)
        wanted = settings.qdrant_read_consistency
        self._consistency = None if wanted is None else models.ReadConsistencyType(wanted)
        self._checked: dict[str, float] = {}
        self._seen: dict[str, int] = {}
        self._refreshing = threading.Lock()

    def refresh(self, collection: str) -> None:
        with self._refreshing:
            self._follow(collection)

    def _follow(self, collection: str) -> None:
        state = self._state(collection)
        while changes := self._catalog.changes(
            collection, after=state["seq"], limit=_BATCH_CHANGES
        ):
            self._shelf.ensure(collection)
            state = self._apply(self._shelf.name(collection), state, changes)
            self._save_state(collection, state)
        self._seen[collection] = state["seq"]

    def last_change(self, collection: str) -> int:
        """As of the last look: asking the cluster would cost as much as a search."""
        return self._seen.get(collection, 0)

    def rebuild(self, collection: str) -> None:
        """Beside what is searched meanwhile, and then in its place."""
        with self._refreshing:
            state = dict(_NOTHING)
            if not self._catalog.changes(collection, after=0, limit=1):
                self._shelf.drop(collection)
            else:
                name = self._shelf.new(collection)
                state = self._all_changes(collection, name, state)
                self._shelf.switch(collection, name)
                # What others took in since the last look is in the old one only.
                state = self._all_changes(collection, name, state)
            self._save_state(collection, state)
            self._seen[collection] = state["seq"]

    def _all_changes(self, collection: str, name: str, state: dict[str, Any]) -> dict[str, Any]:
        while changes := self._catalog.changes(
            collection, after=state["seq"], limit=_BATCH_CHANGES
        ):
            state = self._apply(name, state, changes)
        return state

    def counts(self, collection: str) -> IndexCounts:
        if not self._shelf.exists(collection):
            return IndexCounts(0, 0)
        count = self._shelf.call(
            partial(self._shelf.client.count, self._shelf.name(collection), exact=True)
        ).count
        return IndexCounts(dense=count, keyword=count)

    def dense(
        self, collection: str, vector: Vectors, *, limit: int, within: Within | None = None
    ) -> list[Found]:
        return self._search(collection, vector.tolist(), DENSE, limit, within)

    def keyword(
        self, collection: str, text: str, *, limit: int, k1: float, b: float,
        within: Within | None = None,
    ) -> list[Found]:  # fmt: skip
        if (k1, b) != (self._k1, self._b):
            raise StoreError(
                f"The Qdrant index was written for k1 = {self._k1:g} and b = {self._b:g}.",
                hint="Set BM25_K1 and BM25_B for the whole server and run: ragstone reindex",
            )
        wanted = query_terms(text)
        if not wanted:
            return []
        asked = models.SparseVector(
            indices=[_number(t) for t in wanted], values=[1.0] * len(wanted)
        )
        return self._search(collection, asked, SPARSE, limit, within)

    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        found = np.zeros((len(keys), self._dimension), dtype=np.float32)
        if not keys or not self._shelf.exists(collection):
            return found
        points = self._shelf.call(
            partial(self._shelf.client.retrieve, self._shelf.name(collection), list(keys),
                    with_payload=False, with_vectors=[DENSE])
        )  # fmt: skip
        stored = {point.id: point.vector for point in points}
        for at, key in enumerate(keys):
            named = stored.get(key)
            if isinstance(named, dict):
                found[at] = np.asarray(named[DENSE], dtype=np.float32)
        return found

    def close(self) -> None:
        self._shelf.client.close()

    def _search(
        self, collection: str, asked: Any, using: str, limit: int, within: Within | None
    ) -> list[Found]:
        self._catch_up(collection)
        if limit < 1 or not self._shelf.exists(collection):
            return []
        reply = self._shelf.call(
            partial(
                self._shelf.client.query_points, self._shelf.name(collection), query=asked,
                using=using, limit=limit, with_payload=False,
                query_filter=None if within is None else translated(within),
                consistency=self._consistency,
            )
        )  # fmt: skip
        found = [Found(int(point.id), float(point.score)) for point in reply.points]
        return sorted(found, key=lambda hit: (-hit.score, hit.key))

    def _catch_up(self, collection: str) -> None:
        """Take in what a writer acknowledged and then died before indexing."""
        now = time.monotonic()
        if now - self._checked.get(collection, -math.inf) > _CATCH_UP_SECONDS:
            self._checked[collection] = now
            self.refresh(collection)

    def _apply(self, name: str, state: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
        removed = [change.keys for change in changes if change.kind == "remove"]
        added = [change.keys for change in changes if change.kind == "add"]
        for keys in removed:
            selector = models.PointIdsList(points=list(keys))
            self._shelf.call(partial(self._shelf.client.delete, name, selector, wait=True))
        documents = {c.document_id for c in changes if c.kind == "add"}
        fields = self._catalog.document_fields(documents)
        average = float(state["average_length"])
        for begin in range(0, len(added), 50):
            chunks, vectors = self._catalog.indexable(
                added[begin : begin + 50], dimension=self._dimension
            )
            lengths = [len(terms(chunk.contextual_text)) for chunk in chunks[:_BATCH_POINTS]]
            average = average or (sum(lengths) / len(lengths) if lengths else _TYPICAL_LENGTH)
            points = self._points(chunks, vectors, fields, average)
            for batch in _batches(points):
                self._shelf.call(partial(self._shelf.client.upsert, name, batch, wait=True))
        return {**state, "seq": changes[-1].seq, "average_length": average}

    def _points(
        self, chunks: Sequence[Chunk], vectors: Vectors, fields: dict[str, Any], average: float
    ) -> Iterator[models.PointStruct]:
        for chunk, vector in zip(chunks, vectors, strict=True):
            sparse = self._sparse(terms(chunk.contextual_text), average)
            yield models.PointStruct(
                id=chunk.key,
                vector={DENSE: vector.tolist(), SPARSE: sparse},
                payload=payload_of(chunk, fields.get(chunk.document_id, {})),
            )

    def _sparse(self, words: Sequence[str], average: float) -> models.SparseVector:
        """BM25 of each term without its rarity, under the term's number."""
        norm = self._k1 * (1 - self._b + self._b * len(words) / average)
        weights: dict[int, float] = {}
        for word, count in Counter(words).items():
            weight = count * (self._k1 + 1) / (count + norm)
            weights[_number(word)] = weights.get(_number(word), 0.0) + weight
        return models.SparseVector(indices=list(weights), values=list(weights.values()))

    def _state(self, collection: str) -> dict[str, Any]:
        """How far the changes have been taken in. Kept in the cluster, beside what it describes."""
        if not self._shelf.exists(collection):
            return dict(_NOTHING)
        records = self._shelf.call(
            partial(self._shelf.client.retrieve, self._shelf.states(), [_state_id(collection)])
        )
        state = dict(records[0].payload or {}) if records else dict(_NOTHING)
        wanted = self._stamp()
        if not state["seq"]:
            self._shelf.look_again(collection)
        elif any(state.get(name) != value for name, value in wanted.items()):
            self._shelf.drop(collection)
            return dict(_NOTHING)
        return state

    def _stamp(self) -> dict[str, Any]:
        """What an index must have been written for to be used."""
        identity = str(self._catalog.identity())  # as text: it is longer than a JSON number
        return {"format": _FORMAT, "k1": self._k1, "b": self._b, "catalog": identity}

    def _save_state(self, collection: str, state: dict[str, Any]) -> None:
        payload = {**state, **self._stamp()}
        point = models.PointStruct(id=_state_id(collection), vector=[0.0], payload=payload)
        self._shelf.call(
            partial(self._shelf.client.upsert, self._shelf.states(), [point], wait=True)
        )


_NOTHING: dict[str, Any] = {"seq": 0, "average_length": 0.0}


def _number(term: str) -> int:
    """A term's place in the sparse vectors: one in 4,300 of a million terms shares its place."""
    return zlib.crc32(term.encode())


def _state_id(collection: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, collection))


def _batches(points: Iterator[models.PointStruct]) -> Iterator[list[models.PointStruct]]:
    batch: list[models.PointStruct] = []
    for point in points:
        batch.append(point)
        if len(batch) == _BATCH_POINTS:
            yield batch
            batch = []
    if batch:
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
