"""Search a Pinecone index: a namespace for each collection, dense and sparse values in a record.

A namespace is named after the embedder, the epoch of the catalog and the collection. Keyword search
is a query whose dense part is zero, which Pinecone allows with the metric dotproduct. Reads see
writes late: a write waits until the log sequence number of its namespace has reached it.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import httpx

from ragstone.catalog.schema import split_batches
from ragstone.filters import And, Condition, Filter, Or, SearchScope, parse_timestamp
from ragstone.index.analyze import ANALYZER_VERSION
from ragstone.index.chunk_store import MissingCollectionError, NewChunk, StoredTerms, weigh_terms
from ragstone.index.pinecone_client import PineconeClient
from ragstone.index.remote import RemoteIndex
from ragstone.protocols import ScoredKey, Vectors
from ragstone.settings import IndexSettings

Json: TypeAlias = dict[str, Any]

_FORMAT = 1
# Limits of Pinecone: a request, its records, the ids of a fetch or a delete, sparse values, hits.
_MAX_BYTES = 1_900_000
_MAX_RECORDS = 1000
_MAX_IDS = 100  # 1,000, but those of a fetch stand in its address
_MAX_SPARSE = 1000
_MAX_TOP_K = 10_000
# Vectors of hits are read only for keyword search; a reply may have 4 MB.
_MAX_TOP_K_WITH_VALUES = 250
_DIGITS = 7
_FRESH_S = 60.0
_COUNT_LAG_S = 10.0
_POLL_S = 0.05
_MARKER = "marker"
# The fields that conditions are sent on; the catalog resolves all others.
_TEXT_FIELDS = frozenset({"document_id", "upload_id", "content_type", "media_type"})
_NUMBER_FIELDS = frozenset({"page", "created_at"})


class NamespaceStore:
    """Implement `ChunkStore` on the namespaces of one Pinecone index."""

    def __init__(self, settings: IndexSettings, *, dimension: int, embedder: str) -> None:
        made_with = f"{_FORMAT} {ANALYZER_VERSION} {dimension} {embedder}"
        generation = hashlib.sha256(made_with.encode()).hexdigest()[:12]
        # The progress of an index is stored under its name: Qdrant's names have no slash.
        self.prefix = f"pinecone/{settings.pinecone_index}/{settings.pinecone_prefix}"
        self.name = f"{self.prefix}{generation}"
        self.epoch = 0
        self._dimension = dimension
        self._client = PineconeClient(settings, dimension=dimension)
        self._written: dict[str, int] = {}
        self._lock = threading.Lock()

    def create(self) -> None:
        """Do nothing: a namespace exists when it is written to."""

    def write(self, collection: str, build: int, chunks: Sequence[NewChunk]) -> None:
        records = (_build_record(build, new) for new in chunks)
        for batch in _split_records(records):
            self._upsert(self._namespace(collection), batch)

    def delete(self, collection: str, keys: Sequence[int]) -> None:
        for part in _split_keys(keys):
            self._delete(self._namespace(collection), {"ids": part})

    def delete_other_builds(self, collection: str, build: int) -> None:
        self._delete(self._namespace(collection), {"filter": {"build": {"$ne": build}}})

    def delete_elsewhere(self, collection: str, name: str) -> None:
        namespace = self._namespace(collection, name)
        for one in (namespace, _name_marker(namespace)):
            self._delete(one, {"deleteAll": True})

    def write_marker(self, collection: str, seq: int) -> None:
        namespace = self._namespace(collection)
        self._wait_for_log(namespace)
        # A record needs a vector. In a namespace of its own no search finds it.
        vector = [1.0, *[0.0] * (self._dimension - 1)]
        record = {"id": _MARKER, "values": vector, "metadata": {"seq": seq}}
        self._upsert(_name_marker(namespace), [record])
        _poll(lambda: self._read_seq(namespace) == seq, _FRESH_S)

    def read_marker(self, collection: str) -> int | None:
        return self._read_seq(self._namespace(collection))

    def count(self, collection: str, expected: int) -> int:
        """Count the records; the statistics of Pinecone follow its searches late."""
        _poll(lambda: self._count(collection) == expected, _COUNT_LAG_S)
        return self._count(collection)

    def search_dense(
        self, collection: str, vector: Vectors, limit: int, scope: SearchScope | None
    ) -> list[ScoredKey]:
        body = {"vector": _shorten(vector), "topK": min(limit, _MAX_TOP_K)}
        found = self._query(collection, body, scope)
        return [ScoredKey(int(one["id"]), float(one["score"])) for one in found]

    def search_terms(
        self, collection: str, rarity: Mapping[int, float], limit: int, scope: SearchScope | None
    ) -> list[StoredTerms]:
        body = {
            "vector": [0.0] * self._dimension,
            "sparseVector": {"indices": list(rarity), "values": list(rarity.values())},
            "topK": min(limit, _MAX_TOP_K_WITH_VALUES),
            "includeValues": True,
            "includeMetadata": True,
        }
        # Without a term of the question the score is 0, and Pinecone lists it all the same.
        found = [one for one in self._query(collection, body, scope) if one["score"] > 0]
        return [_read_terms(one) for one in found]

    def read_terms(self, collection: str, keys: Sequence[int]) -> list[StoredTerms]:
        return [_read_terms(one) for one in self._fetch(collection, keys)]

    def read_vectors(self, collection: str, keys: Sequence[int]) -> dict[int, list[float]]:
        return {int(one["id"]): one["values"] for one in self._fetch(collection, keys)}

    def close(self) -> None:
        self._client.close()

    def _namespace(self, collection: str, name: str = "") -> str:
        generation = (name or self.name).rpartition("/")[2]
        return f"{generation}.{self.epoch:x}.{collection}"

    def _upsert(self, namespace: str, records: list[Json]) -> None:
        body = {"vectors": records, "namespace": namespace}
        self._remember(namespace, self._client.write("/vectors/upsert", body))

    def _delete(self, namespace: str, what: Json) -> None:
        try:
            reply = self._client.write("/vectors/delete", {**what, "namespace": namespace})
        except MissingCollectionError:
            return  # nothing was ever written to it
        self._remember(namespace, reply)
        self._wait_for_log(namespace)

    def _remember(self, namespace: str, reply: httpx.Response) -> None:
        """Remember how far the log of a namespace was written."""
        number = int(reply.headers.get("x-pinecone-request-lsn", 0))
        with self._lock:  # batches are written by several threads
            self._written[namespace] = max(number, self._written.get(namespace, 0))

    def _wait_for_log(self, namespace: str) -> None:
        """Wait until searches see all that this process wrote to a namespace."""
        written = self._written.pop(namespace, 0)
        body = {"vector": [0.0] * self._dimension, "topK": 1, "namespace": namespace}

        def is_fresh() -> bool:
            reply = self._client.read("POST", "/query", body)
            return int(reply.headers.get("x-pinecone-max-indexed-lsn", written)) >= written

        if written:
            _poll(is_fresh, _FRESH_S)

    def _read_seq(self, namespace: str) -> int | None:
        params = httpx.QueryParams({"ids": _MARKER, "namespace": _name_marker(namespace)})
        found = self._client.read("GET", f"/vectors/fetch?{params}").json().get("vectors", {})
        return int(found[_MARKER]["metadata"]["seq"]) if _MARKER in found else None

    def _count(self, collection: str) -> int:
        stats = self._client.read("POST", "/describe_index_stats", {}).json()
        summary = stats.get("namespaces", {}).get(self._namespace(collection), {})
        return int(summary.get("vectorCount", 0))

    def _query(self, collection: str, body: Json, scope: SearchScope | None) -> list[Json]:
        body = {**body, "namespace": self._namespace(collection)}
        if scope is not None:
            body["filter"] = build_filter(scope)
        return list(self._client.read("POST", "/query", body).json().get("matches", []))

    def _fetch(self, collection: str, keys: Sequence[int]) -> Iterator[Json]:
        for part in _split_keys(keys):
            params = httpx.QueryParams({"ids": part, "namespace": self._namespace(collection)})
            path = f"/vectors/fetch?{params}"
            yield from self._client.read("GET", path).json().get("vectors", {}).values()


def _build_record(build: int, new: NewChunk) -> Json:
    """Return a chunk as a record. Metadata of its document stays in the catalog: Pinecone refuses
    nested and mixed values, null and more than 40 KB."""
    chunk, document = new.chunk, new.document
    weights = sorted(zip(new.counts, weigh_terms(new.counts), strict=True), key=lambda one: -one[1])
    kept = weights[:_MAX_SPARSE]
    metadata: Json = {
        "key": chunk.key,
        "build": build,
        "length": new.counts.total(),
        "language": new.language,
        "page": chunk.page,
        "content_type": chunk.content_type,
        **{name: document.get(name) for name in ("document_id", "upload_id", "media_type")},
        "created_at": document.get("created_at"),
    }
    record: Json = {
        "id": str(chunk.key),
        "values": _shorten(new.vector),
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }
    if kept:  # a chunk of function words alone has no terms
        record["sparseValues"] = {
            "indices": [term for term, _ in kept],
            "values": [weight for _, weight in kept],
        }
    return record


def _read_terms(record: Json) -> StoredTerms:
    metadata, sparse = record["metadata"], record.get("sparseValues") or {}
    return StoredTerms(
        int(record["id"]),
        int(metadata["length"]),
        [int(one) for one in sparse.get("indices", ())],
        sparse.get("values", ()),
        int(metadata["build"]),
        int(metadata["language"]),
    )


def _shorten(vector: Vectors) -> list[float]:
    """Return the numbers of a vector with the digits of 32-bit floats, which Pinecone stores."""
    return [round(float(one), _DIGITS) for one in vector]


def _split_records(records: Iterator[Json]) -> Iterator[list[Json]]:
    """Yield records in batches that fit into one request."""
    batch: list[Json] = []
    size = 0
    for record in records:
        length = len(json.dumps(record)) + 2
        if batch and (size + length > _MAX_BYTES or len(batch) == _MAX_RECORDS):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length
    if batch:
        yield batch


def _split_keys(keys: Sequence[int]) -> Iterator[list[str]]:
    for part in split_batches(keys, _MAX_IDS):
        yield [str(key) for key in part]


def _name_marker(namespace: str) -> str:
    return f"{namespace}.{_MARKER}"


def _poll(is_done: Callable[[], bool], limit_s: float) -> None:
    """Ask until it is done, at growing intervals; go on when the time is over."""
    end, pause_s = time.monotonic() + limit_s, _POLL_S
    while not is_done() and time.monotonic() < end:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 1.0)


class _UnsupportedFilterError(Exception):
    """Report a condition that Pinecone cannot express, or whose field it does not have."""


def build_filter(scope: SearchScope) -> Json:
    """Translate a filter; what Pinecone cannot express becomes the chunk keys that pass it."""
    try:
        return _translate(scope.filter)
    except _UnsupportedFilterError:
        ranges = [
            {"$and": [{"key": {"$gte": keys.start}}, {"key": {"$lt": keys.stop}}]}
            for keys in scope.ranges
        ]
        # A filter that matches nothing must not become one without conditions.
        return {"$or": ranges} if ranges else {"key": {"$lt": 0}}


def _translate(part: Filter) -> Json:
    if isinstance(part, And | Or):
        sign = "$and" if isinstance(part, And) else "$or"
        return {sign: [_translate(one) for one in part.parts]}
    if not isinstance(part, Condition):
        raise _UnsupportedFilterError  # what is true of a missing field is not documented
    field, operator, value = part.field, part.operator, part.value
    if field not in _TEXT_FIELDS | _NUMBER_FIELDS:
        raise _UnsupportedFilterError
    if operator == "exists":
        return {field: {"$exists": value}}
    if operator == "in":
        if not value:
            raise _UnsupportedFilterError
        return {field: {"$in": [_convert(field, one) for one in value]}}
    if operator != "eq" and field in _TEXT_FIELDS:
        raise _UnsupportedFilterError  # texts have no order there
    return {field: {f"${operator}": _convert(field, value)}}


def _convert(field: str, value: Any) -> str | float:
    if field in _TEXT_FIELDS and isinstance(value, str):
        return value
    if field == "created_at" and isinstance(value, str):
        value = parse_timestamp(value)
    if field in _TEXT_FIELDS or isinstance(value, bool) or not isinstance(value, int | float):
        raise _UnsupportedFilterError
    return value


class PineconeIndex(RemoteIndex):
    """Implement `Index` on Pinecone."""

    store_class = NamespaceStore


build = PineconeIndex.build
