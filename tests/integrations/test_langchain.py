"""LangChain's own calls reach Ragstone's search."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from ragstone.engine import Engine

from ..lazy import Lazy

if TYPE_CHECKING:
    import ragstone.integrations.langchain as integration
else:
    integration = Lazy("ragstone.integrations.langchain")

pytestmark = pytest.mark.skipif(not find_spec("langchain_core"), reason="needs langchain_core")

QUESTION = "What interest is charged on rent that arrives late?"


def test_a_chain_gets_documents_with_their_place(sample_engine: Engine) -> None:
    retriever = integration.RagstoneRetriever(engine=sample_engine, top_k=3)
    documents = retriever.invoke(QUESTION)
    assert len(documents) == 3
    first = documents[0]
    text = sample_engine.catalog.document(first.metadata["document_id"]).text
    assert text[first.metadata["start"] : first.metadata["end"]] == first.page_content
    assert first.id == first.metadata["chunk_id"]
    chain = retriever | (lambda found: [document.page_content for document in found])
    assert chain.invoke(QUESTION)[0] == first.page_content


async def test_the_async_way_finds_the_same(sample_engine: Engine) -> None:
    retriever = integration.RagstoneRetriever(engine=sample_engine, top_k=2, method="keyword")
    found = [document.id for document in await retriever.ainvoke(QUESTION)]
    hits = await sample_engine.search(QUESTION, top_k=2, method="keyword")
    assert found == [hit.chunk.id for hit in hits]


async def test_a_notebook_whose_loop_runs_already_may_use_the_plain_way(
    sample_engine: Engine,
) -> None:
    retriever = integration.RagstoneRetriever(engine=sample_engine, top_k=2)
    plain = [document.id for document in retriever.invoke(QUESTION)]
    assert plain == [document.id for document in await retriever.ainvoke(QUESTION)]
