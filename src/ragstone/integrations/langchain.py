"""Retrieve chunks for LangChain (`pip install 'ragstone[langchain]'`)."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from ragstone.engine import Engine
from ragstone.integrations import build_metadata
from ragstone.query.request import QueryOptions
from ragstone.types import DEFAULT_COLLECTION, Hits


class RagstoneRetriever(BaseRetriever):
    """Find chunks; `filters`, `method` and `top_k` are those of `Engine.search`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    engine: Engine
    collection: str = DEFAULT_COLLECTION
    top_k: int | None = None
    filters: dict[str, Any] | None = None
    method: Any = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _build_documents(self.engine.search_sync(query, **self._options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return _build_documents(await self.engine.search(query, **self._options))

    @property
    def _options(self) -> QueryOptions:
        return QueryOptions(
            collection=self.collection,
            top_k=self.top_k,
            filters=self.filters,
            method=self.method,
        )


def _build_documents(hits: Hits) -> list[Document]:
    return [
        Document(id=hit.chunk.id, page_content=hit.chunk.text, metadata=build_metadata(hit))
        for hit in hits
    ]
