"""Where a dataset is asked: its own documents in a directory beside the user's, and engines over
them. What costs time is done once: documents are embedded and indexed at the first use and found
there at the next; the vectors of the questions are kept; the searches of a sweep are remembered.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import ragstone
from ragstone.catalog.collections import refuse_unknown_collection
from ragstone.engine import Engine
from ragstone.errors import InputError, StoreError
from ragstone.evaluate.datasets import Dataset, Passage, Question, bad_line
from ragstone.files import prepare, replace_file
from ragstone.ingest.store import EmbeddingQueue
from ragstone.plugins import GROUPS, available, find
from ragstone.protocols import Catalog, Embedder, Index, NewDocument, Vectors
from ragstone.settings import Settings
from ragstone.types import DEFAULT_COLLECTION, Chunk, Document

Told = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is."""

_BATCH = 64
# Enough for every question of the sets in use; the doors' own limit is for strangers.
_MAX_CHARS = 100_000
# What cannot change a result: where data lie, what is logged, who may call.
_WITHOUT_EFFECT = {"data", "journal", "memory", "observe", "server", "evaluate", "preset"}
_NO_QUESTION_COMES = {"adapters", "cli", "ingest", "observe", "samples", "server", "testing"}
_COMPUTING = ("faiss-cpu", "numpy", "onnxruntime", "tantivy", "tokenizers")


def quiet(done: str, count: int, total: int) -> None:
    """Tell nobody."""


class QueryVectors:
    """The embedder, with the vectors of a dataset's questions computed once and kept in a file."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self._embedder.max_tokens

    @property
    def waits(self) -> bool:
        return bool(getattr(self._embedder, "waits", False))

    def close(self) -> None:
        close = getattr(self._embedder, "close", None)
        if close is not None:
            close()

    def token_starts(self, text: str) -> Sequence[int]:
        return self._embedder.token_starts(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if texts and all(text in self._known for text in texts):
            return np.stack([self._known[text] for text in texts])
        return self._embedder.embed(texts)

    def learn(self, texts: Sequence[str], directory: Path, told: Told) -> None:
        texts = list(dict.fromkeys(texts))
        stamp = hashlib.sha256("\0".join([self.name, *texts]).encode()).hexdigest()[:16]
        path = directory / f"questions-{stamp}.npy"
        if not path.is_file():
            parts = []
            for begun in range(0, len(texts), _BATCH):
                told("embedding questions", begun, len(texts))
                parts.append(self._embedder.embed(texts[begun : begun + _BATCH]))
            directory.mkdir(parents=True, exist_ok=True)
            vectors = np.concatenate(parts) if parts else np.empty((0, self.dimension), np.float32)
            replace_file(path, _as_bytes(vectors))
        self._known.update(zip(texts, np.load(path), strict=True))


def _as_bytes(vectors: Vectors) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, vectors)
    return buffer.getvalue()


class Workbench:
    """Engines over the documents of a dataset, or over the user's own collection."""

    def __init__(
        self, dataset: Dataset, settings: Settings, *,
        collection: str = DEFAULT_COLLECTION, embedder: Embedder | None = None,
    ) -> None:  # fmt: skip
        self.dataset = dataset
        self.settings = settings
        self.work = _prepared(settings.evaluate.directory)
        name = settings.embed.name
        self.embedder = QueryVectors(embedder or find("embedder", name)(settings))
        # An engine whose embedder is not the shipped one reads with another: it makes its own.
        self._handed = self.embedder if embedder or name == "builtin" else None
        self.collection = DEFAULT_COLLECTION if dataset.passages else collection
        self._own = self._own_directory() if dataset.passages else None

    @property
    def directory(self) -> Path:
        return self._own or self.settings.data.directory

    def _own_directory(self) -> Path:
        stamp = hashlib.sha256(self.embedder.name.encode())
        for one in self.dataset.passages:
            stamp.update(f"{one.id}\0{one.title}\0{one.text}\1".encode())
        return self.work / "data" / f"{safe_name(self.dataset.name)}-{stamp.hexdigest()[:12]}"

    def prepare(self, told: Told = quiet) -> None:
        """Embed and index what is not there yet. A run that was stopped goes on from there."""
        if self._own is not None and not (self._own / "complete").is_file():
            engine = Engine(self.placed(self.settings), embedder=self._handed)
            try:
                _fill(engine, self.dataset.passages, told)
            finally:
                engine.close()
            (self._own / "complete").touch()

    def learn_questions(self, questions: Sequence[Question], told: Told = quiet) -> None:
        """Embed questions beforehand: for sweeps, where times of one question do not count."""
        self.embedder.learn([one.text for one in questions], self.work / "vectors", told)

    def placed(self, settings: Settings) -> Settings:
        """Settings that lead to the documents of the bench and leave no trace in the journal."""
        values: dict[str, Any] = {
            "journal.query_log": "off",
            "journal.retention_days": 0,
            "understand.max_chars": _MAX_CHARS,
        }
        if self._own is not None:
            values |= {"data.directory": self._own, "data.database_url": "",
                       "index.kind": "embedded"}  # fmt: skip
        return changed(settings, values)

    def engine(
        self, settings: Settings, *, catalog: Catalog | None = None, index: Index | None = None
    ) -> Engine:
        engine = Engine(self.placed(settings), embedder=self._handed, catalog=catalog, index=index)
        asked = any(question.given is None for question in self.dataset.questions)
        if asked and self._own is None and not engine.catalog.counts(self.collection).chunks:
            try:
                refuse_unknown_collection(engine.catalog, self.collection)
            finally:
                engine.close()
            raise InputError(
                f"The collection '{self.collection}' is empty, and the dataset brings none.",
                hint="Fill it with: ragstone ingest DOCUMENTS/",
            )
        return engine

    def stamp(self, engine: Engine, settings: Settings, *more: object) -> str:
        """What a result depends on: questions, documents, settings, program."""
        counts = engine.catalog.counts(self.collection)
        place = [] if self._own else [engine.catalog.identity(), counts.last_change]
        parts = [self.dataset.fingerprint, self.collection, place, self.embedder.name,
                 effective(settings), program_stamp(), *more]  # fmt: skip
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def check_documents(dataset: Dataset, path: Path, engine: Engine, collection: str) -> None:
    """Refuse a question about a document that the collection does not hold: it would count as not
    found for ever, and look like a bad search."""
    held = {name for one in engine.documents(collection) for name in (one.id, one.name)}
    for question in dataset.questions:
        for name in {one.document for one in question.targets if one.document}:
            # As `is_named` has it: a path that ends in the name, or the id of a chunk.
            parts = name.split("/")
            ends = {"/".join(parts[at:]) for at in range(len(parts))} | {name.rpartition(":")[0]}
            if held and question.given is None and not held & ends:
                raise bad_line(
                    path, question.line, f"there is no document '{name}' in '{collection}'",
                    "See their names with: ragstone documents list",
                )  # fmt: skip


def _fill(engine: Engine, passages: Sequence[Passage], told: Told) -> None:
    """Every passage one document of one chunk: the unit that the judgements speak of."""
    known = {one.name for one in engine.documents(DEFAULT_COLLECTION)}
    missing = [(at, one) for at, one in enumerate(passages) if one.id not in known]
    ingest = engine.settings.ingest
    threads = ingest.embed_threads or 2
    with EmbeddingQueue(engine.embedder, threads, niceness=ingest.niceness) as queue:
        for begun in range(0, len(missing), _BATCH):
            told("embedding documents", len(passages) - len(missing) + begun, len(passages))
            batch = missing[begun : begun + _BATCH]
            pending = [queue.put([one.contextual_text], {}) for _, one in batch]
            engine.catalog.add(
                [
                    NewDocument(_document(at, one), (_chunk(at, one),), vectors.result())
                    for (at, one), vectors in zip(batch, pending, strict=True)
                ],
                embedder=engine.embedder.name,
            )
    told("indexing", len(passages), len(passages))
    engine.index.refresh(DEFAULT_COLLECTION)


def _document(at: int, passage: Passage) -> Document:
    digest = hashlib.sha256(f"{at}\0{passage.text}".encode()).hexdigest()
    return Document(
        id=f"d{at}", collection=DEFAULT_COLLECTION, source=passage.id, name=passage.id,
        media_type="text/plain", sha256=digest, text=passage.text, chunk_count=1,
    )  # fmt: skip


def _chunk(at: int, passage: Passage) -> Chunk:
    return Chunk(
        document_id=f"d{at}", index=0, text=passage.text, start=0, end=len(passage.text),
        document_name=passage.id, heading_path=(passage.title,) if passage.title else (),
    )  # fmt: skip


def changed(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with other values by path, checked like any others."""
    tree = settings.model_dump()
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        (tree[section] if section else tree)[name] = value
    return Settings.model_validate(tree)


def effective(settings: Settings) -> dict[str, Any]:
    """Every value that can change a result, without secrets."""
    return settings.model_dump(mode="json", exclude=_WITHOUT_EFFECT)


def safe_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in name)[:60] or "set"


def _prepared(directory: Path) -> Path:
    try:
        return prepare(directory)
    except StoreError as error:
        raise InputError(
            error.message.replace("data directory", "directory of evaluations"),
            hint="Choose another with --work DIR or RAGSTONE_EVALUATE_DIRECTORY.",
        ) from error


@cache
def program_stamp() -> str:
    """A changed program is another program, even under the same version; so is one with another
    release of a library that computes, or of a plug-in."""
    digest = hashlib.sha256(ragstone.__version__.encode())
    root = Path(ragstone.__file__).parent
    for path in program_files(root):
        digest.update(path.read_bytes())
    outside = {point.dist for slot in GROUPS for point in available(slot).values() if point.dist}
    releases = {f"{one.name} {one.version}" for one in outside}
    releases |= {f"{one} {version(one)}" for one in _COMPUTING if _is_installed(one)}
    digest.update("\n".join(sorted(releases)).encode())
    return digest.hexdigest()[:12]


def program_files(root: Path) -> list[Path]:
    """Everything of the package but the rooms that no question comes through."""
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix in {".py", ".toml", ".md"}
        and path.relative_to(root).parts[0] not in _NO_QUESTION_COMES
    ]


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
