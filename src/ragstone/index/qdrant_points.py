"""Our filters as Qdrant's, and the payload that they ask.

What Qdrant cannot express (an order of texts, say) is asked by chunk keys instead, which the
catalog has worked out: never another answer, only a longer request.
"""

from __future__ import annotations

import math
import re
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

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
    timestamp,
)
from ragstone.protocols import Within
from ragstone.settings import IndexSettings
from ragstone.types import Chunk


class _CannotSayError(Exception):
    """A condition that Qdrant has no word for."""


def payload_of(chunk: Chunk, document: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a filter may ask of a chunk; metadata in a drawer of its own."""
    own = {name: document.get(name) for name in DOCUMENT_FIELDS}
    metadata = {name: value for name, value in document.items() if name not in DOCUMENT_FIELDS}
    return {
        **own,
        "key": chunk.key,
        "page": chunk.page,
        "content_type": chunk.content_type,
        "metadata": metadata,
    }


def translated(within: Within) -> models.Filter:
    try:
        return models.Filter(must=[_condition(within.filter)])
    except _CannotSayError:
        spans: list[Any] = [
            models.FieldCondition(key="key", range=models.Range(gte=keys.start, lte=keys.stop - 1))
            for keys in within.ranges
        ]
        # A filter that lets nothing through must not become one without conditions.
        nothing = models.FieldCondition(key="key", range=models.Range(lt=0))
        return models.Filter(should=spans or [nothing])


def _condition(part: Filter) -> Any:
    if isinstance(part, And):
        return models.Filter(must=[_condition(one) for one in part.parts])
    if isinstance(part, Or):
        return models.Filter(should=[_condition(one) for one in part.parts])
    if isinstance(part, Not):
        return models.Filter(must_not=[_condition(part.part)])
    return _compared(part)


def _compared(condition: Condition) -> Any:
    key, value = _path(condition.field), condition.value
    if condition.operator == "exists":
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
        return models.Filter(must_not=[empty]) if value else empty
    if condition.operator == "in":
        if not value:
            raise _CannotSayError  # Qdrant takes no condition for no limit
        return models.Filter(should=[_equal(condition.field, key, one) for one in value])
    if condition.operator == "eq":
        return _equal(condition.field, key, value)
    number = _number(condition.field, value)
    limits: dict[str, float] = {condition.operator: number}
    return models.FieldCondition(key=key, range=models.Range(**limits))


def _equal(field: str, key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    if isinstance(value, str) and field != "created_at":
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    number = _number(field, value)
    return models.FieldCondition(key=key, range=models.Range(gte=number, lte=number))


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _CannotSayError
    if isinstance(value, int | float):
        return float(value)
    moment = timestamp(value) if field == "created_at" else None
    if moment is None:
        raise _CannotSayError
    return moment


_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _path(field: str) -> str:
    if not _PLAIN.fullmatch(field):
        raise _CannotSayError
    if field in CHUNK_FIELDS or field in DOCUMENT_FIELDS:
        return field
    return f"metadata.{field.removeprefix('metadata.')}"


_T = TypeVar("_T")

DENSE, SPARSE = "dense", "terms"
_FIRST_WAIT_S = 0.2
# No collection of ours has this sign in its name.
_MARK = "@"


class Shelf:
    """What is there under which name."""

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
            if not self.call(partial(self.client.collection_exists, name)):
                return False
            self._ready.add(name)
        return True

    def ensure(self, collection: str) -> None:
        """The first one has the same name whoever makes it, so that two at once do no harm."""
        if not self.exists(collection):
            self._create(f"{self.name(collection)}{_MARK}first")
            self._point(collection, f"{self.name(collection)}{_MARK}first")

    def new(self, collection: str) -> str:
        """An empty one that no search knows of; its name."""
        name = f"{self.name(collection)}{_MARK}{uuid.uuid4().hex[:8]}"
        self._create(name)
        return name

    def _create(self, name: str) -> None:
        if self.call(partial(self.client.collection_exists, name)):
            return
        settings = self._settings
        self.call(
            partial(
                self.client.create_collection,
                name,
                vectors_config={
                    DENSE: models.VectorParams(
                        size=self._dimension, distance=models.Distance.COSINE,
                        datatype=models.Datatype.FLOAT16,
                    )
                },
                sparse_vectors_config={
                    SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)
                },
                shard_number=settings.qdrant_shards,
                replication_factor=settings.qdrant_replicas,
                write_consistency_factor=settings.qdrant_write_consistency,
            )
        )  # fmt: skip
        for field in ("key", "page"):
            self.call(partial(self.client.create_payload_index, name, field,
                              models.PayloadSchemaType.INTEGER))  # fmt: skip
        for field in ("document_id", "upload_id", "content_type"):
            self.call(partial(self.client.create_payload_index, name, field,
                              models.PayloadSchemaType.KEYWORD))  # fmt: skip

    def switch(self, collection: str, name: str) -> None:
        """From now on this one is searched; those before it are removed."""
        alias = self.name(collection)
        others = [one for one in self._behind(collection) if one != name]
        if alias in others:  # written before there were aliases: a name cannot be both
            self.call(partial(self.client.delete_collection, alias))
            others.remove(alias)
        self._point(collection, name)
        for other in others:
            self.call(partial(self.client.delete_collection, other))

    def _point(self, collection: str, name: str) -> None:
        alias = models.CreateAlias(collection_name=name, alias_name=self.name(collection))
        operation = models.CreateAliasOperation(create_alias=alias)
        self.call(partial(self.client.update_collection_aliases, [operation]))

    def drop(self, collection: str) -> None:
        for name in self._behind(collection):  # an alias goes with what it stands for
            self.call(partial(self.client.delete_collection, name))
        self.look_again(collection)

    def look_again(self, collection: str) -> None:
        """Another process may have removed it."""
        self._ready.discard(self.name(collection))

    def states(self) -> str:
        """The collection with one record for each of the others."""
        name = f"{self._settings.qdrant_prefix}_state"
        if name not in self._ready:
            if not self.call(partial(self.client.collection_exists, name)):
                self.call(
                    partial(
                        self.client.create_collection, name,
                        vectors_config=models.VectorParams(size=1, distance=models.Distance.DOT),
                        replication_factor=self._settings.qdrant_replicas,
                        write_consistency_factor=self._settings.qdrant_write_consistency,
                    )
                )  # fmt: skip
            self._ready.add(name)
        return name

    def call(self, request: Callable[[], _T]) -> _T:
        """One request with retries: everything sent here can be sent twice without harm."""
        wait = _FIRST_WAIT_S
        for attempt in range(self._settings.qdrant_retries + 1):
            try:
                return request()
            except (ResponseHandlingException, UnexpectedResponse, OSError) as error:
                status = getattr(error, "status_code", None)
                if attempt == self._settings.qdrant_retries or (status and status < 500):
                    raise _unreachable(self._settings.qdrant_url, error) from error
                time.sleep(wait)
                wait *= 2
        raise AssertionError("the loop returns or raises")

    def _behind(self, collection: str) -> list[str]:
        """All that is or was behind a name, and what a rebuild that was killed has left."""
        alias = self.name(collection)
        listed = self.call(self.client.get_collections).collections
        return [one.name for one in listed if one.name.partition(_MARK)[0] == alias]


def _unreachable(url: str, error: Exception) -> StoreError:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return StoreError(
        f"The Qdrant server at {url} did not do what was asked: {reason}.",
        hint="Check that it runs, RAGSTONE_INDEX_QDRANT_URL and its API key.",
    )
