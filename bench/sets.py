"""Load the retrieval datasets of the quality benchmark, and their vectors, computed once.

A folder in BEIR layout in → documents, questions in two halves, judgements and vectors out. A set
is read from `../shared/data`; one that is not there is left out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ragstone.evaluate.datasets import hash_text, load_dataset
from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors

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

    def take_half(self, which: Half, *, max_questions: int) -> list[int]:
        """Positions of the questions of one half. A question's own hash decides, so that the
        halves never change; the first `max_questions` in the order of that hash."""
        hashed = sorted((hash_text(query_id), at) for at, query_id in enumerate(self.query_ids))
        wanted = 0 if which == "tune" else 1
        return [at for digest, at in hashed if digest % 2 == wanted][:max_questions]


def list_sets(data: Path) -> list[str]:
    return [name for name in NAMES if (data / name / "corpus.jsonl").is_file()]


def load_set(name: str, data: Path, embedder: OnnxEmbedder) -> RetrievalSet:
    dataset = load_dataset(data / name)
    places = {passage.id: at for at, passage in enumerate(dataset.passages)}
    judged = [question for question in dataset.questions if question.grades]
    titles = tuple(passage.title for passage in dataset.passages)
    texts = tuple(passage.text for passage in dataset.passages)
    questions = tuple(question.text for question in judged)
    return RetrievalSet(
        name=name,
        document_ids=tuple(places),
        titles=titles,
        texts=texts,
        query_ids=tuple(question.id for question in judged),
        queries=questions,
        judgements={one.id: frozenset(places[label] for label in one.grades) for one in judged},
        document_vectors=_load_vectors(name, "documents", add_title(titles, texts), embedder),
        query_vectors=_load_vectors(name, "queries", questions, embedder),
    )


def add_title(titles: tuple[str, ...], texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return a document as it is embedded and indexed: title, then text."""
    return tuple(
        f"{title}\n{text}" if title else text for title, text in zip(titles, texts, strict=True)
    )


def _load_vectors(name: str, what: str, texts: tuple[str, ...], embedder: OnnxEmbedder) -> Vectors:
    digest = hashlib.sha256("\0".join((embedder.name, *texts)).encode()).hexdigest()[:16]
    path = CACHE / f"{name.replace('/', '-')}.{what}.{digest}.npy"
    if not path.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(path, embedder.embed(texts))
    vectors: Vectors = np.load(path)
    return vectors
