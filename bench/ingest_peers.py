"""Let other libraries read, split, embed and index the same folder; see ingest.py.

    PEERS_PYTHON bench/ingest_peers.py txtai|haystack|llamaindex FOLDER WEIGHTS

Each does the work in its own way and with its own splitter, at chunks of about 200 tokens, and
calls the same model: all-MiniLM-L6-v2 in torch on all cores, texts sorted by length and in batches
of 32, which is what sentence-transformers does for them.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

warnings.filterwarnings("ignore")

CHUNK_TOKENS, OVERLAP_TOKENS = 200, 32
# Of the Kubernetes documentation in English.
CHARS_PER_TOKEN = 3.4


class Model:
    """The model with mean pooling and unit length, as its card says."""

    def __init__(self, weights: Path) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(weights)
        self._model = AutoModel.from_pretrained(weights).eval()
        self.count = 0

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.count += len(texts)
        vectors = np.zeros((len(texts), 384), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        for begin in range(0, len(order), 32):
            batch = order[begin : begin + 32]
            given = self._tokenizer(
                [texts[at] for at in batch],
                padding=True,
                truncation=True,
                max_length=256,
                return_tensors="pt",
            )
            hidden = self._model(**given).last_hidden_state
            mask = given["attention_mask"].unsqueeze(-1)
            pooled = (hidden * mask).sum(1) / mask.sum(1)
            vectors[batch] = torch.nn.functional.normalize(pooled, dim=1).numpy()
        return vectors


def read_texts(folder: Path) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(folder.rglob("*")) if path.is_file()]


def ingest_txtai(folder: Path, model: Model) -> None:
    from txtai import Embeddings

    chunks: list[str] = []
    for text in read_texts(folder):
        held = ""
        for paragraph in text.split("\n\n"):
            if held and len(held) + len(paragraph) > CHUNK_TOKENS * CHARS_PER_TOKEN:
                chunks.append(held)
                held = ""
            held = f"{held}\n\n{paragraph}" if held else paragraph
        chunks.append(held)

    def transform(batch: list[str]) -> np.ndarray:
        return model.encode(batch)

    index = Embeddings(method="external", transform=transform, hybrid=True, content=True)
    index.index(list(enumerate(chunks)))


def ingest_haystack(folder: Path, model: Model) -> None:
    from haystack import Document
    from haystack.components.preprocessors import DocumentSplitter
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    # A word is about 1.5 tokens.
    splitter = DocumentSplitter(split_by="word", split_length=133, split_overlap=21)
    if hasattr(splitter, "warm_up"):
        splitter.warm_up()
    documents = splitter.run([Document(content=text) for text in read_texts(folder)])["documents"]
    vectors = model.encode([document.content or "" for document in documents])
    for document, vector in zip(documents, vectors, strict=True):
        document.embedding = vector.tolist()
    InMemoryDocumentStore().write_documents(documents)


def ingest_llamaindex(folder: Path, model: Model) -> None:
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.node_parser import TokenTextSplitter

    class Embedding(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return model.encode(texts).tolist()

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    VectorStoreIndex.from_documents(
        [Document(text=text) for text in read_texts(folder)],
        transformations=[TokenTextSplitter(chunk_size=CHUNK_TOKENS, chunk_overlap=OVERLAP_TOKENS)],
        embed_model=Embedding(embed_batch_size=32),
    )


PEERS: dict[str, Callable[[Path, Model], None]] = {
    "txtai": ingest_txtai,
    "haystack": ingest_haystack,
    "llamaindex": ingest_llamaindex,
}


def main() -> None:
    name, folder, weights = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    model = Model(weights)
    with tempfile.TemporaryDirectory() as warm:
        Path(warm, "a.md").write_text("Nothing is counted that only happens once.\n" * 30)
        PEERS[name](Path(warm), model)
    model.count = 0
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    begun, cpu = time.perf_counter(), time.process_time()
    PEERS[name](folder, model)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(
        f"{name}: {model.count} chunks in {wall:.1f} s · {size / wall / 1000:.1f} kB/s · "
        f"{cpu:.1f} CPU s · {size / cpu / 1000:.1f} kB per CPU s · peak {peak:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
