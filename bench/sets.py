"""The retrieval sets that quality is measured on, and their vectors, computed once.

A folder in BEIR layout in → documents, questions in two halves, judgements and vectors out. A set
is read from `../shared/data`; one that is not there is left out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ragstone.models.embedder import OnnxEmbedder
from ragstone.stages import Vectors

HERE = Path(__file__).parent
CACHE = HERE / "cache"
DEFAULT_DATA = HERE.parent.parent / "shared" / "data"
NAMES = (
    "scifact", "cranfield", "cisi", "cacm", "squad2-dev-half", "codebase-contextual",
    "anthropic-docs-rag", "xquad/en", "xquad/de", "xquad/es", "xquad/ru",
)  # fmt: skip

Half = Literal["tune", "report"]


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """One collection with judged questions."""

    name: str
    document_ids: tuple[str, ...]
    titles: tuple[str, ...]
    texts: tuple[str, ...]
    query_ids: tuple[str, ...]
    queries: tuple[str, ...]
    judgements: dict[str, frozenset[int]]
    """The positions of the relevant documents, by question."""
    document_vectors: Vectors
    query_vectors: Vectors

    def half(self, which: Half, *, most: int) -> list[int]:
        """Positions of the questions of one half. A question's own hash decides, so that the
        halves never change; the first `most` in the order of that hash."""
        hashed = sorted((_hash(query_id), at) for at, query_id in enumerate(self.query_ids))
        wanted = 0 if which == "tune" else 1
        return [at for digest, at in hashed if digest % 2 == wanted][:most]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def available(data: Path) -> list[str]:
    return [name for name in NAMES if (data / name / "corpus.jsonl").is_file()]


def load(name: str, data: Path, embedder: OnnxEmbedder) -> RetrievalSet:
    folder = data / name
    corpus = _lines(folder / "corpus.jsonl")
    places = {row["_id"]: at for at, row in enumerate(corpus)}
    judgements: dict[str, set[int]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query_id, document_id, grade = line.split("\t")
        if int(grade) > 0 and document_id in places:
            judgements.setdefault(query_id, set()).add(places[document_id])
    queries = [row for row in _lines(folder / "queries.jsonl") if row["_id"] in judgements]
    titles = tuple(row.get("title", "") for row in corpus)
    texts = tuple(row["text"] for row in corpus)
    questions = tuple(" ".join(row["text"].split()) for row in queries)
    return RetrievalSet(
        name=name,
        document_ids=tuple(places),
        titles=titles,
        texts=texts,
        query_ids=tuple(row["_id"] for row in queries),
        queries=questions,
        judgements={query_id: frozenset(found) for query_id, found in judgements.items()},
        document_vectors=_vectors(name, "documents", contextual(titles, texts), embedder),
        query_vectors=_vectors(name, "queries", questions, embedder),
    )


def contextual(titles: tuple[str, ...], texts: tuple[str, ...]) -> tuple[str, ...]:
    """A document as it is embedded and indexed: its title as a heading, then its text."""
    return tuple(
        f"{title}\n{text}" if title else text for title, text in zip(titles, texts, strict=True)
    )


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def _vectors(name: str, what: str, texts: tuple[str, ...], embedder: OnnxEmbedder) -> Vectors:
    digest = hashlib.sha256("\0".join((embedder.name, *texts)).encode()).hexdigest()[:16]
    path = CACHE / f"{name.replace('/', '-')}.{what}.{digest}.npy"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(path, embedder.embed(texts))
    vectors: Vectors = np.load(path)
    return vectors
