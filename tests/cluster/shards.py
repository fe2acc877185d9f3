"""Compare the ranking of the embedded index with Qdrant: one shard, three, another order.

    python -m tests.cluster.shards DATASET…

A dataset is a folder with corpus.jsonl, queries.jsonl and qrels.tsv in the format of BEIR. Every
text is one chunk. Prints nDCG@10 of `Engine.search`, and the largest difference.
"""

from __future__ import annotations

import asyncio
import csv
import json
import math
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import NewDocument, Vectors
from ragstone.settings import load_settings
from ragstone.types import DEFAULT_COLLECTION, Chunk, Document

from ..conformance.conftest import running_qdrant

_BATCH = 64


class RememberingEmbedder:
    """Embed each text once, whichever index it goes to."""

    def __init__(self) -> None:
        self._embedder = OnnxEmbedder()
        self._known: dict[str, Vectors] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed(self, texts: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known |= dict(zip(missing, self._embedder.embed(missing), strict=True))
        return np.stack([self._known[text] for text in texts])


def read_lines(path: Path) -> dict[str, str]:
    found = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        found[str(row["_id"])] = f"{row.get('title', '')}\n{row['text']}".strip()
    return found


def read_relevant(path: Path) -> dict[str, set[str]]:
    relevant: dict[str, set[str]] = defaultdict(set)
    for query, document, grade in list(csv.reader(path.open(), delimiter="\t"))[1:]:
        if int(grade) > 0:
            relevant[query].add(document)
    return relevant


def store(engine: Engine, texts: Sequence[tuple[str, str]]) -> None:
    for begin in range(0, len(texts), _BATCH):
        batch = []
        for name, text in texts[begin : begin + _BATCH]:
            document = Document(
                id=name, collection=DEFAULT_COLLECTION, source=name, name=name,
                media_type="text/plain", sha256=name, text=text, chunk_count=1,
            )  # fmt: skip
            batch.append((document, Chunk(name, 0, text, 0, len(text), name)))
        vectors = engine.embedder.embed([chunk.contextual_text for _, chunk in batch])
        new = [
            NewDocument(document, (chunk,), vectors[at : at + 1])
            for at, (document, chunk) in enumerate(batch)
        ]
        engine.catalog.add(new, embedder=engine.embedder.name)
    engine.index.refresh(DEFAULT_COLLECTION)


async def measure(
    engine: Engine, questions: dict[str, str], relevant: dict[str, set[str]]
) -> float:
    """Return the mean nDCG@10 with grades of 0 and 1."""
    total = 0.0
    for name, wanted in relevant.items():
        hits = await engine.search(questions[name], top_k=10)
        gains = [
            1 / math.log2(rank + 1)
            for rank, hit in enumerate(hits[:10], 1)
            if hit.chunk.document_id in wanted
        ]
        total += sum(gains) / sum(1 / math.log2(rank + 2) for rank in range(min(10, len(wanted))))
    return total / len(relevant)


def main() -> None:
    names = ("embedded", "1 shard", "3 shards", "3 shards, other order")
    print(f"| dataset | {' | '.join(names)} | largest difference |")
    print("|---|---|---|---|---|---|")
    embedder: Any = RememberingEmbedder()
    for dataset in map(Path, sys.argv[1:]):
        texts = list(read_lines(dataset / "corpus.jsonl").items())
        questions = read_lines(dataset / "queries.jsonl")
        relevant = read_relevant(dataset / "qrels.tsv")
        values = []
        with tempfile.TemporaryDirectory() as folder, running_qdrant(Path(folder)) as url:
            for number, name in enumerate(names):
                flags: dict[str, Any] = {"data.directory": Path(folder) / str(number)}
                if name != "embedded":
                    flags |= {"index.kind": "qdrant", "index.qdrant_url": url}
                    flags |= {"index.qdrant_prefix": f"n{number}_", "index.qdrant_timeout_s": 60}
                    flags["index.qdrant_shards"] = 1 if name == "1 shard" else 3
                if "order" in name:
                    random.Random(7).shuffle(texts)
                settings = load_settings(flags=flags, environ={}).settings
                engine = Engine(settings, embedder=embedder)
                store(engine, texts)
                values.append(asyncio.run(measure(engine, questions, relevant)))
                engine.close()
        shown = " | ".join(f"{value:.4f}" for value in values)
        difference = max(values) - min(values)
        print(f"| {dataset.name} | {shown} | {difference:.4f} |", flush=True)


if __name__ == "__main__":
    main()
