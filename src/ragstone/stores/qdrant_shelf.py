"""The collections of a Qdrant server that an index is kept in, and the way to speak to it.

Each of ours has one name there, an alias; what stands behind it is exchanged in one step, so that
a search meets the old one or the new one and never half of it.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from ragstone.errors import StoreError
from ragstone.settings import IndexSettings

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
