"""Run the hybrid searches of other libraries over the same texts and the same vectors.

Runs where peers-requirements.txt is installed (`.venv-bench`, by `make bench`) and knows nothing of
Ragstone: a folder with documents, questions and vectors in → one ranking per question out.

    .venv-bench/bin/python bench/peers.py bench/cache/peers/cranfield
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

DEPTH = 50


class Task:
    """The input of every peer."""

    def __init__(self, folder: Path) -> None:
        given = json.loads((folder / "task.json").read_text("utf-8"))
        self.texts: list[str] = given["texts"]
        self.queries: list[str] = given["queries"]
        self.document_vectors = np.load(folder / "documents.npy")
        self.query_vectors = np.load(folder / "queries.npy")
        self.vector_of = dict(zip(self.texts, self.document_vectors, strict=True))
        self.vector_of.update(zip(self.queries, self.query_vectors, strict=True))


def search_txtai(task: Task) -> Iterator[list[int]]:
    """Search with convex fusion and equal weights, its default."""
    from txtai import Embeddings

    def transform(texts: list[str]) -> np.ndarray:
        return np.array([task.vector_of[text] for text in texts], dtype=np.float32)

    index = Embeddings(method="external", transform=transform, hybrid=True)
    index.index(list(enumerate(task.texts)))
    for query in task.queries:
        yield [int(found) for found, _ in index.search(query, DEPTH)]


def search_haystack(task: Task) -> Iterator[list[int]]:
    """Search its in-memory store with BM25 and embeddings, joined by reciprocal rank."""
    from haystack import Document
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import (
        InMemoryBM25Retriever,
        InMemoryEmbeddingRetriever,
    )
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(
        [
            Document(id=str(at), content=text, embedding=vector.tolist())
            for at, (text, vector) in enumerate(zip(task.texts, task.document_vectors, strict=True))
        ]
    )
    keyword = InMemoryBM25Retriever(store, top_k=DEPTH)
    dense = InMemoryEmbeddingRetriever(store, top_k=DEPTH)
    joiner = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=DEPTH)
    for query, vector in zip(task.queries, task.query_vectors, strict=True):
        lists = [
            keyword.run(query=query)["documents"],
            dense.run(query_embedding=vector.tolist())["documents"],
        ]
        yield [int(found.id) for found in joiner.run(documents=lists)["documents"]]


def search_llama_index(task: Task) -> Iterator[list[int]]:
    """Search vector index and BM25 with the query fusion retriever, by reciprocal rank."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    class Lookup(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return task.vector_of[query].tolist()

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return task.vector_of[text].tolist()

    nodes = [
        TextNode(id_=str(at), text=text, embedding=vector.tolist())
        for at, (text, vector) in enumerate(zip(task.texts, task.document_vectors, strict=True))
    ]
    depth = min(DEPTH, len(nodes))
    index = VectorStoreIndex(nodes, embed_model=Lookup())
    fusion = QueryFusionRetriever(
        [
            index.as_retriever(similarity_top_k=depth),
            BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=depth),
        ],
        llm=MockLLM(),
        similarity_top_k=depth,
        num_queries=1,
        mode="reciprocal_rerank",
        use_async=False,
    )
    for query in task.queries:
        yield [int(found.node.node_id) for found in fusion.retrieve(query)]


def search_langchain(task: Task) -> Iterator[list[int]]:
    """Search with the ensemble of BM25 and in-memory vectors, equal weights."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Lookup(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [task.vector_of[text].tolist() for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return task.vector_of[text].tolist()

    documents = [
        Document(page_content=text, id=str(at), metadata={"at": at})
        for at, text in enumerate(task.texts)
    ]
    keyword = BM25Retriever.from_documents(documents)
    keyword.k = DEPTH
    store = InMemoryVectorStore(Lookup())
    store.add_documents(documents, ids=[str(at) for at in range(len(documents))])
    dense = store.as_retriever(search_kwargs={"k": DEPTH})
    ensemble = EnsembleRetriever(retrievers=[keyword, dense], weights=[0.5, 0.5], id_key="at")
    for query in task.queries:
        yield [found.metadata["at"] for found in ensemble.invoke(query)][:DEPTH]


def search_lancedb(task: Task) -> Iterator[list[int]]:
    """Search its vector and full-text index, with its default reranker (RRF)."""
    import lancedb as library

    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {"at": at, "text": text, "vector": vector}
            for at, (text, vector) in enumerate(zip(task.texts, task.document_vectors, strict=True))
        ]
        table = library.connect(folder).create_table("documents", data=rows)
        table.create_fts_index("text")
        for query, vector in zip(task.queries, task.query_vectors, strict=True):
            search = table.search(query_type="hybrid").vector(vector).text(query)
            yield [row["at"] for row in search.distance_type("cosine").limit(DEPTH).to_list()]


PEERS: dict[str, Callable[[Task], Iterator[list[int]]]] = {
    "txtai": search_txtai,
    "haystack": search_haystack,
    "llama-index": search_llama_index,
    "langchain": search_langchain,
    "lancedb": search_lancedb,
}


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        task = Task(folder)
        for name, peer in PEERS.items():
            target = folder / f"{name}.json"
            if target.is_file():
                continue
            begun = time.process_time()
            target.write_text(json.dumps(list(peer(task))))
            print(f"{folder.name} {name} {time.process_time() - begun:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
