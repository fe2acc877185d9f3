"""LlamaIndex's own calls reach Ragstone's search."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from ragstone.engine import Engine

from ..lazy import Lazy

if TYPE_CHECKING:
    import ragstone.integrations.llamaindex as integration
else:
    integration = Lazy("ragstone.integrations.llamaindex")

pytestmark = pytest.mark.skipif(not find_spec("llama_index"), reason="needs llama_index")

QUESTION = "What interest is charged on rent that arrives late?"


def test_a_query_engine_gets_nodes_with_scores(sample_engine: Engine) -> None:
    nodes = integration.RagstoneRetriever(sample_engine, top_k=3).retrieve(QUESTION)
    assert len(nodes) == 3
    first = nodes[0]
    text = sample_engine.catalog.document(first.metadata["document_id"]).text
    assert text[first.metadata["start"] : first.metadata["end"]] == first.text
    assert first.score == first.metadata["score"]


async def test_the_async_way_finds_the_same(sample_engine: Engine) -> None:
    retriever = integration.RagstoneRetriever(sample_engine, top_k=2, collection="default")
    found = [node.node.node_id for node in await retriever.aretrieve(QUESTION)]
    hits = await sample_engine.search(QUESTION, top_k=2)
    assert found == [hit.chunk.id for hit in hits]


async def test_a_notebook_whose_loop_runs_already_may_use_the_plain_way(
    sample_engine: Engine,
) -> None:
    retriever = integration.RagstoneRetriever(sample_engine, top_k=2)
    plain = [node.node_id for node in retriever.retrieve(QUESTION)]
    assert plain == [node.node_id for node in await retriever.aretrieve(QUESTION)]
