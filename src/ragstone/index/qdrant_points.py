"""Translate filters and chunks for Qdrant, and manage its collections.

A filter that Qdrant cannot express (an order of texts, for example) is sent as the chunk keys that
the catalog found: the same result with a longer request.
"""

from __future__ import annotations

import math
import re
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from ragstone.errors import StoreError
from ragstone.filters import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    And,
    Condition,
    Filter,
    Not,
    Or,
    parse_timestamp,
)
from ragstone.protocols import SearchScope
from ragstone.settings import IndexSettings
from ragstone.types import Chunk


class _UnsupportedFilterError(Exception):
    """Report a condition that Qdrant cannot express."""


def build_payload(chunk: Chunk, document: Mapping[str, Any]) -> dict[str, Any]:
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


def build_filter(scope: SearchScope) -> models.Filter:
    try:
        return models.Filter(must=[_translate(scope.filter)])
    except _UnsupportedFilterError:
        ranges: list[Any] = [
            models.FieldCondition(key="key", range=models.Range(gte=keys.start, lte=keys.stop - 1))
            for keys in scope.ranges
        ]
        # A filter that matches nothing must not become one without conditions.
        nothing = models.FieldCondition(key="key", range=models.Range(lt=0))
        return models.Filter(should=ranges or [nothing])


def _translate(part: Filter) -> Any:
    if isinstance(part, And):
        return models.Filter(must=[_translate(one) for one in part.parts])
    if isinstance(part, Or):
        return models.Filter(should=[_translate(one) for one in part.parts])
    if isinstance(part, Not):
        return models.Filter(must_not=[_translate(part.part)])
    return _translate_condition(part)


def _translate_condition(condition: Condition) -> Any:
    key, value = _to_payload_key(condition.field), condition.value
    if condition.operator == "exists":
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
        return models.Filter(must_not=[empty]) if value else empty
    if condition.operator == "in":
        if not value:
            raise _UnsupportedFilterError  # to Qdrant no condition means no limit
        return models.Filter(should=[_match_value(condition.field, key, one) for one in value])
    if condition.operator == "eq":
        return _match_value(condition.field, key, value)
    number = _to_number(condition.field, value)
    limits: dict[str, float] = {condition.operator: number}
    return models.FieldCondition(key=key, range=models.Range(**limits))


def _match_value(field: str, key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    if isinstance(value, str) and field != "created_at":
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    number = _to_number(field, value)
    return models.FieldCondition(key=key, range=models.Range(gte=number, lte=number))


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


_P = ParamSpec("_P")
_T = TypeVar("_T")

DENSE, SPARSE = "dense", "terms"
_FIRST_DELAY_S = 0.2
# The names of our collections never contain this character.
_VERSION_MARK = "@"


class QdrantCollections:
    """Manage the Qdrant collections behind ours: an alias for each, and versions behind it."""

    def __init__(self, settings: IndexSettings, *, dimension: int) -> None:
        self._settings = settings
        self._dimension = dimension
        self.client = QdrantClient(
            url=settings.qdrant_url,
            api_key=settings.qdrant_api_key.get_secret_value() or None,
            timeout=math.ceil(settings.qdrant_timeout_s),
            check_compatibility=False,
        )
        self._ready: set[str] = set()

    def name(self, collection: str) -> str:
        return f"{self._settings.qdrant_prefix}{collection}"

    def exists(self, collection: str) -> bool:
        name = self.name(collection)
        if name not in self._ready:
            if not self.call(self.client.collection_exists, name):
                return False
            self._ready.add(name)
        return True

    def ensure(self, collection: str) -> None:
        """Create the collection if needed, under a fixed name: two processes may do it at once."""
        if not self.exists(collection):
            first = f"{self.name(collection)}{_VERSION_MARK}first"
            self._create(first)
            self._set_alias(collection, first)

    def create_new(self, collection: str) -> str:
        """Create an empty version that is not searched yet; return its name."""
        name = f"{self.name(collection)}{_VERSION_MARK}{uuid.uuid4().hex[:8]}"
        self._create(name)
        return name

    def _create(self, name: str) -> None:
        if self.call(self.client.collection_exists, name):
            return
        settings = self._settings
        self.call(
            self.client.create_collection,
            name,
            vectors_config={
                DENSE: models.VectorParams(
                    size=self._dimension,
                    distance=models.Distance.COSINE,
                    datatype=models.Datatype.FLOAT16,
                )
            },
            sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            shard_number=settings.qdrant_shards,
            replication_factor=settings.qdrant_replicas,
            write_consistency_factor=settings.qdrant_write_consistency,
        )
        integer, keyword = models.PayloadSchemaType.INTEGER, models.PayloadSchemaType.KEYWORD
        types = dict.fromkeys(("key", "page"), integer)
        types |= dict.fromkeys(("document_id", "upload_id", "content_type"), keyword)
        for field, kind in types.items():
            self.call(self.client.create_payload_index, name, field, kind)

    def switch(self, collection: str, name: str) -> None:
        """Search this version from now on; delete all others."""
        alias = self.name(collection)
        others = [one for one in self._list_versions(collection) if one != name]
        if alias in others:  # from before aliases were used: a name cannot be both
            self.call(self.client.delete_collection, alias)
            others.remove(alias)
        self._set_alias(collection, name)
        for other in others:
            self.call(self.client.delete_collection, other)

    def _set_alias(self, collection: str, name: str) -> None:
        alias = models.CreateAlias(collection_name=name, alias_name=self.name(collection))
        operation = models.CreateAliasOperation(create_alias=alias)
        self.call(self.client.update_collection_aliases, [operation])

    def drop(self, collection: str) -> None:
        for name in self._list_versions(collection):  # the alias is deleted with it
            self.call(self.client.delete_collection, name)
        self.clear_cache(collection)

    def clear_cache(self, collection: str) -> None:
        """Check again whether the collection exists: another process may have deleted it."""
        self._ready.discard(self.name(collection))

    def state_collection(self) -> str:
        """Return the name of the collection that stores the state of the others."""
        name = f"{self._settings.qdrant_prefix}_state"
        if name not in self._ready:
            if not self.call(self.client.collection_exists, name):
                self.call(
                    self.client.create_collection,
                    name,
                    vectors_config=models.VectorParams(size=1, distance=models.Distance.DOT),
                    replication_factor=self._settings.qdrant_replicas,
                    write_consistency_factor=self._settings.qdrant_write_consistency,
                )
            self._ready.add(name)
        return name

    def call(self, request: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Send a request, with retries: every request here may safely be sent twice."""
        delay_s = _FIRST_DELAY_S
        for attempt in range(self._settings.qdrant_retries + 1):
            try:
                return request(*args, **kwargs)
            except (ResponseHandlingException, UnexpectedResponse, OSError) as error:
                status = getattr(error, "status_code", None)
                if attempt == self._settings.qdrant_retries or (status and status < 500):
                    raise _make_error(self._settings.qdrant_url, error) from error
                time.sleep(delay_s)
                delay_s *= 2
        raise AssertionError("the loop returns or raises")

    def _list_versions(self, collection: str) -> list[str]:
        """List all versions of a collection, including those of interrupted rebuilds."""
        alias = self.name(collection)
        listed = self.call(self.client.get_collections).collections
        return [one.name for one in listed if one.name.partition(_VERSION_MARK)[0] == alias]


def _make_error(url: str, error: Exception) -> StoreError:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return StoreError(
        f"The request to the Qdrant server at {url} failed: {reason}.",
        hint="Check that the server runs, RAGSTONE_INDEX_QDRANT_URL and its API key.",
    )
