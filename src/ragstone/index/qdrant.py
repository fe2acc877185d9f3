"""Search a Qdrant server or cluster: one Qdrant collection holds all chunks of one embedder.

The payload of each chunk names its tenant: a collection of one catalog at one epoch. Its sparse
vector has the BM25 weights of its terms (`chunk_store.py`). A filter that Qdrant cannot express (an
order of texts, for example) is sent as the chunk keys that the catalog found: the same result with
a longer request.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ragstone.errors import StoreError
from ragstone.filters import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    And,
    Condition,
    Filter,
    Not,
    Or,
    SearchScope,
    parse_timestamp,
)
from ragstone.index.analyze import ANALYZER_VERSION
from ragstone.index.chunk_store import MissingCollectionError, NewChunk, StoredTerms, weigh_terms
from ragstone.index.qdrant_nodes import Method, QdrantNodes
from ragstone.index.remote import RemoteIndex
from ragstone.protocols import ScoredKey, Vectors
from ragstone.settings import IndexSettings
from ragstone.types import Chunk

Json: TypeAlias = dict[str, Any]


class _UnsupportedFilterError(Exception):
    """Report a condition that Qdrant cannot express."""


def build_payload(chunk: Chunk, document: Mapping[str, Any]) -> Json:
    """Return the fields of a chunk that filters can compare, with the metadata nested."""
    own = {name: document.get(name) for name in DOCUMENT_FIELDS}
    metadata = {name: value for name, value in document.items() if name not in DOCUMENT_FIELDS}
    return {
        **own,
        "key": chunk.key,
        "page": chunk.page,
        "content_type": chunk.content_type,
        "metadata": metadata,
    }


def build_filter(tenant: str, scope: SearchScope | None) -> Json:
    """Return the conditions of a search: the tenant, and the scope if there is one."""
    own: Json = {"key": "tenant", "match": {"value": tenant}}
    if scope is None:
        return {"must": [own]}
    try:
        return {"must": [own, _translate(scope.filter)]}
    except _UnsupportedFilterError:
        ranges = [
            {"key": "key", "range": {"gte": keys.start, "lte": keys.stop - 1}}
            for keys in scope.ranges
        ]
        # A filter that matches nothing must not become one without conditions.
        nothing = {"key": "key", "range": {"lt": 0}}
        return {"must": [own, {"should": ranges or [nothing]}]}


def _translate(part: Filter) -> Json:
    if isinstance(part, And):
        return {"must": [_translate(one) for one in part.parts]}
    if isinstance(part, Or):
        return {"should": [_translate(one) for one in part.parts]}
    if isinstance(part, Not):
        return {"must_not": [_translate(part.part)]}
    return _translate_condition(part)


def _translate_condition(condition: Condition) -> Json:
    key, value = _to_payload_key(condition.field), condition.value
    if condition.operator == "exists":
        empty = {"is_empty": {"key": key}}
        return {"must_not": [empty]} if value else empty
    if condition.operator == "in":
        if not value:
            raise _UnsupportedFilterError  # to Qdrant no condition means no limit
        return {"should": [_match_value(condition.field, key, one) for one in value]}
    if condition.operator == "eq":
        return _match_value(condition.field, key, value)
    return {"key": key, "range": {condition.operator: _to_number(condition.field, value)}}


def _match_value(field: str, key: str, value: Any) -> Json:
    if isinstance(value, bool) or (isinstance(value, str) and field != "created_at"):
        return {"key": key, "match": {"value": value}}
    number = _to_number(field, value)
    return {"key": key, "range": {"gte": number, "lte": number}}


def _to_number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _UnsupportedFilterError
    if isinstance(value, int | float):
        return float(value)
    moment = parse_timestamp(value) if field == "created_at" else None
    if moment is None:
        raise _UnsupportedFilterError
    return moment


_PLAIN_FIELD = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _to_payload_key(field: str) -> str:
    if not _PLAIN_FIELD.fullmatch(field):
        raise _UnsupportedFilterError
    if field in CHUNK_FIELDS or field in DOCUMENT_FIELDS:
        return field
    return f"metadata.{field.removeprefix('metadata.')}"


# Fields of the payload with an index, besides the metadata; the tenant comes first.
PAYLOAD_TYPES: Mapping[str, Any] = {
    "tenant": {"type": "keyword", "is_tenant": True},
    "key": "integer",
    "build": "integer",
    "page": "integer",
    "created_at": "float",
    "document_id": "keyword",
    "upload_id": "keyword",
    "content_type": "keyword",
}


def find_payload_types(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the index types for the metadata of a document, by the name in the payload."""
    found: dict[str, str] = {}
    for name, value in document.items():
        first = value[0] if isinstance(value, list | tuple) and value else value
        if name in DOCUMENT_FIELDS or not _PLAIN_FIELD.fullmatch(name):
            continue
        if isinstance(first, bool):
            found[f"metadata.{name}"] = "bool"
        elif isinstance(first, int | float):
            found[f"metadata.{name}"] = "float"
        elif isinstance(first, str):
            found[f"metadata.{name}"] = "keyword"
    return found


# Part of the name in Qdrant: another layout of the points is another collection.
_FORMAT = 2
DENSE, SPARSE = "dense", "terms"
_MAX_INDEXED_FIELDS = 100
_KEY_BITS = 64
# The mark of the versions that an earlier layout kept for each collection.
_OLD_VERSION_MARK = "@"


class PointStore:
    """Hold the points of all collections of the catalog at `epoch`, written with one embedder."""

    def __init__(self, settings: IndexSettings, *, dimension: int, embedder: str) -> None:
        self._settings = settings
        self._dimension = dimension
        made_with = f"{_FORMAT} {ANALYZER_VERSION} {dimension} {embedder}"
        generation = hashlib.sha256(made_with.encode()).hexdigest()[:12]
        self.prefix = settings.qdrant_prefix
        self.name = f"{self.prefix}{generation}"
        self.epoch = 0
        self._nodes = QdrantNodes(settings)
        self._indexed_fields: set[str] = set()
        self._is_created = False
        level = settings.qdrant_read_consistency
        self._consistency = "" if level is None else f"?consistency={level}"

    def create(self) -> None:
        """Create the collection in Qdrant if needed; two processes may do it at once."""
        if self._is_created:
            return
        try:
            self._nodes.read("GET", f"/collections/{self.name}")
        except MissingCollectionError:
            self._create_collection()
        for field, kind in PAYLOAD_TYPES.items():
            self._index_field(field, kind)
        self._is_created = True

    def _create_collection(self) -> None:
        settings = self._settings
        dense: Json = {"size": self._dimension, "distance": "Cosine", "datatype": "float16"}
        body: Json = {
            "vectors": {DENSE: dense},
            "sparse_vectors": {SPARSE: {}},
            "shard_number": settings.qdrant_shards,
            "replication_factor": settings.qdrant_replicas,
            "write_consistency_factor": settings.qdrant_write_consistency,
            "on_disk_payload": True,
        }
        if settings.qdrant_on_disk:
            dense["on_disk"] = True
            body["quantization_config"] = {"scalar": {"type": "int8", "always_ram": True}}
        try:
            self._nodes.write("PUT", f"/collections/{self.name}", body)
        except StoreError as error:
            if "already exists" not in str(error):
                raise

    def index_metadata(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Make sure that the metadata of these documents can be filtered by an index."""
        wanted = {name: kind for one in documents for name, kind in find_payload_types(one).items()}
        for field, kind in wanted.items():
            if len(self._indexed_fields) < _MAX_INDEXED_FIELDS:
                self._index_field(field, kind)

    def _index_field(self, field: str, kind: Any) -> None:
        if field not in self._indexed_fields:
            self._write("PUT", "/index?wait=true", {"field_name": field, "field_schema": kind})
            self._indexed_fields.add(field)

    def write(self, collection: str, build: int, chunks: Sequence[NewChunk]) -> None:
        self.index_metadata(new.document for new in chunks)
        self._upsert([self._build_point(collection, build, new) for new in chunks])

    def _build_point(self, collection: str, build: int, new: NewChunk) -> Json:
        payload = {
            "tenant": self._tenant(collection),
            "build": build,
            "length": new.counts.total(),
            "language": new.language,
        }
        sparse = {"indices": list(new.counts), "values": weigh_terms(new.counts)}
        return {
            "id": self._to_id(new.chunk.key),
            "vector": {DENSE: new.vector.tolist(), SPARSE: sparse},
            "payload": build_payload(new.chunk, new.document) | payload,
        }

    def _upsert(self, points: list[Json]) -> None:
        self._write("PUT", "/points?wait=true", {"points": points})

    def delete(self, collection: str, keys: Sequence[int]) -> None:
        ids = [self._to_id(key) for key in keys]
        self._write("POST", "/points/delete?wait=true", {"points": ids})

    def delete_other_builds(self, collection: str, build: int) -> None:
        """Delete the points of a collection that an earlier build wrote."""
        others = build_filter(self._tenant(collection), None)
        others["must_not"] = [{"key": "build", "range": {"gte": build, "lte": build}}]
        self._write("POST", "/points/delete?wait=true", {"filter": others})
        self._delete_old_layout(collection)

    def delete_elsewhere(self, collection: str, name: str) -> None:
        """Delete the points of a collection from another Qdrant collection of ours."""
        body = {"filter": build_filter(self._tenant(collection), None)}
        try:
            self._nodes.write("POST", f"/collections/{name}/points/delete?wait=true", body)
        except MissingCollectionError:
            return

    def _delete_old_layout(self, collection: str) -> None:
        """Delete what earlier versions of Ragstone stored: one Qdrant collection for each."""
        before = f"{self.prefix}{collection}"
        for one in self._nodes.read("GET", "/collections")["collections"]:
            name, mark, _ = str(one["name"]).partition(_OLD_VERSION_MARK)
            if mark and name == before:
                self._nodes.write("DELETE", f"/collections/{one['name']}")

    def write_marker(self, collection: str, seq: int) -> None:
        tenant = self._tenant(collection)
        payload = {"marker": tenant, "seq": seq}
        self._upsert([{"id": _marker_id(tenant), "vector": {}, "payload": payload}])

    def read_marker(self, collection: str) -> int | None:
        try:
            found = self._retrieve([_marker_id(self._tenant(collection))], False, ["seq"])
        except MissingCollectionError:
            return None
        return int(found[0]["payload"]["seq"]) if found else None

    def count(self, collection: str, expected: int) -> int:
        body = {"filter": build_filter(self._tenant(collection), None), "exact": True}
        try:
            return int(self._read("/points/count", body)["count"])
        except MissingCollectionError:
            return 0

    def search_dense(
        self, collection: str, vector: Vectors, limit: int, scope: SearchScope | None
    ) -> list[ScoredKey]:
        body = {"query": vector.tolist(), "using": DENSE, "limit": limit}
        found = self._query(collection, body, scope)
        return [ScoredKey(_to_key(one["id"]), float(one["score"])) for one in found]

    def search_terms(
        self, collection: str, rarity: Mapping[int, float], limit: int, scope: SearchScope | None
    ) -> list[StoredTerms]:
        body = {
            "query": {"indices": list(rarity), "values": list(rarity.values())},
            "using": SPARSE,
            "limit": limit,
            "with_payload": ["length"],
            "with_vector": [SPARSE],
        }
        return [_read_terms(one) for one in self._query(collection, body, scope)]

    def read_terms(self, collection: str, keys: Sequence[int]) -> list[StoredTerms]:
        fields = ["build", "length", "language"]
        return [_read_terms(one) for one in self._retrieve_keys(keys, SPARSE, fields)]

    def read_vectors(self, collection: str, keys: Sequence[int]) -> dict[int, list[float]]:
        found = self._retrieve_keys(keys, DENSE, False)
        return {_to_key(one["id"]): one["vector"][DENSE] for one in found}

    def _query(self, collection: str, body: Json, scope: SearchScope | None) -> list[Json]:
        body = {**body, "filter": build_filter(self._tenant(collection), scope)}
        return list(self._read(f"/points/query{self._consistency}", body)["points"])

    def _retrieve_keys(
        self, keys: Sequence[int], vector: str, payload: list[str] | bool
    ) -> list[Json]:
        """Return the points of these keys that exist."""
        return self._retrieve([self._to_id(key) for key in keys], [vector], payload) if keys else []

    def close(self) -> None:
        self._nodes.close()

    def _tenant(self, collection: str) -> str:
        return f"{self.epoch:x}:{collection}"

    def _to_id(self, key: int) -> str:
        """Return the id of a chunk: the epoch and the key, as a UUID."""
        return str(uuid.UUID(int=self.epoch << _KEY_BITS | key))

    def _retrieve(
        self, ids: Sequence[str], vectors: list[str] | bool, payload: list[str] | bool
    ) -> list[Json]:
        body = {"ids": list(ids), "with_vector": vectors, "with_payload": payload}
        return list(self._read(f"/points{self._consistency}", body))

    def _read(self, path: str, body: Json) -> Any:
        return self._nodes.read("POST", f"/collections/{self.name}{path}", body)

    def _write(self, method: Method, path: str, body: Json) -> Any:
        return self._nodes.write(method, f"/collections/{self.name}{path}", body)


def _read_terms(point: Json) -> StoredTerms:
    payload, sparse = point["payload"], point["vector"][SPARSE]
    return StoredTerms(
        _to_key(point["id"]),
        payload["length"],
        sparse["indices"],
        sparse["values"],
        payload.get("build", 0),
        payload.get("language", 0),
    )


def _to_key(point_id: str) -> int:
    return uuid.UUID(point_id).int & ((1 << _KEY_BITS) - 1)


def _marker_id(tenant: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, tenant))


class QdrantIndex(RemoteIndex):
    """Implement `Index` on Qdrant."""

    store_class = PointStore


build = QdrantIndex.build
