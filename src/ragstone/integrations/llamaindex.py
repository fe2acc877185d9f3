"""Retrieve chunks for LlamaIndex (`pip install 'ragstone[llamaindex]'`)."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from ragstone.engine import Engine
from ragstone.integrations import build_metadata
from ragstone.query.request import QueryOptions
from ragstone.types import DEFAULT_COLLECTION, Hits


class RagstoneRetriever(BaseRetriever):
    """Find chunks; `filters`, `method` and `top_k` are those of `Engine.search`."""

    def __init__(
        self,
        engine: Engine,
        *,
        collection: str = DEFAULT_COLLECTION,
        top_k: int | None = None,
        filters: dict[str, Any] | None = None,
        method: Any = None,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._options = QueryOptions(
            collection=collection, top_k=top_k, filters=filters, method=method
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _build_nodes(self._engine.search_sync(query_bundle.query_str, **self._options))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _build_nodes(await self._engine.search(query_bundle.query_str, **self._options))


def _build_nodes(hits: Hits) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=hit.chunk.id, text=hit.chunk.text, metadata=build_metadata(hit)),
            score=hit.score,
        )
        for hit in hits
    ]
