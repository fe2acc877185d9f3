"""Prepare the documents of a dataset apart from the user's own, and open engines over them.

Slow work is done once: documents are embedded and indexed at the first use, and the vectors of the
questions are stored.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import ragstone
from ragstone.blocks import LoadedDocument
from ragstone.catalog.collections import refuse_unknown_collection
from ragstone.engine import Engine
from ragstone.errors import InputError, StoreError
from ragstone.evaluate.datasets import Dataset, Passage, Question, line_error
from ragstone.files import create_data_directory, replace_file
from ragstone.ingest.embed import EmbeddingQueue
from ragstone.ingest.run import build_splitter, compute_fingerprint
from ragstone.plugins import GROUPS, find_part, list_parts
from ragstone.protocols import Embedder, NewDocument, Splitter, Vectors
from ragstone.settings import Settings
from ragstone.settings.change import change_settings
from ragstone.types import DEFAULT_COLLECTION, Chunk, Document

Progress = Callable[[str, int, int], None]
"""Called with the name of a task, the amount done, and the total."""

_BATCH = 64
# Enough for every question of the datasets in use; the usual limit guards public endpoints.
_MAX_CHARS = 100_000
# Sections that cannot change a result.
_IRRELEVANT_SECTIONS = {"data", "journal", "memory", "observe", "server", "evaluate", "preset"}
_UNRELATED_PACKAGES = {"cli", "ingest", "integrations", "observe", "samples", "server", "testing"}
_COMPUTING_LIBRARIES = ("faiss-cpu", "numpy", "onnxruntime", "tantivy", "tokenizers")


def ignore_progress(task: str, done: int, total: int) -> None:
    """Report nothing."""


class QueryVectors:
    """An embedder that stores the vectors of a dataset's questions in a file."""

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

    def embed_ahead(self, texts: Sequence[str], directory: Path, progress: Progress) -> None:
        """Embed texts, or load their vectors if they are stored, for later calls of `embed`."""
        texts = list(dict.fromkeys(texts))
        stamp = hashlib.sha256("\0".join([self.name, *texts]).encode()).hexdigest()[:16]
        path = directory / f"questions-{stamp}.npy"
        if not path.is_file():
            parts = []
            for begun in range(0, len(texts), _BATCH):
                progress("embedding questions", begun, len(texts))
                parts.append(self._embedder.embed(texts[begun : begun + _BATCH]))
            directory.mkdir(parents=True, exist_ok=True)
            vectors = np.concatenate(parts) if parts else np.empty((0, self.dimension), np.float32)
            buffer = io.BytesIO()
            np.save(buffer, vectors)
            replace_file(path, buffer.getvalue())
        self._known.update(zip(texts, np.load(path), strict=True))


class Workbench:
    """Engines over the documents of a dataset, or over the user's own collection."""

    def __init__(
        self,
        dataset: Dataset,
        settings: Settings,
        *,
        collection: str = DEFAULT_COLLECTION,
        embedder: Embedder | None = None,
    ) -> None:
        self.dataset = dataset
        self.settings = settings
        self.work = _create_work_directory(settings.evaluate.directory)
        name = settings.embed.name
        self.embedder = QueryVectors(embedder or find_part("embedder", name)(settings))
        # With another embedder than the shipped one, an engine needs a second one to read texts:
        # it makes both itself.
        self._engine_embedder = self.embedder if embedder or settings.embed.uses_shipped else None
        self.collection = DEFAULT_COLLECTION if dataset.passages else collection
        self._own = self._own_directory() if dataset.passages else None

    @property
    def directory(self) -> Path:
        return self._own or self.settings.data.directory

    def _own_directory(self) -> Path:
        # What the documents are stored as: the embedder and the user's way of splitting.
        stored_as = compute_fingerprint(self.settings.ingest, self.embedder, {})
        stamp = hashlib.sha256(stored_as.encode())
        for one in self.dataset.passages:
            stamp.update(f"{one.id}\0{one.title}\0{one.text}\1".encode())
        return self.work / "data" / f"{make_safe_name(self.dataset.name)}-{stamp.hexdigest()[:12]}"

    def prepare(self, progress: Progress = ignore_progress) -> None:
        """Embed and index the documents that are not stored yet."""
        if self._own is not None and not (self._own / "complete").is_file():
            engine = Engine(self.adapt_settings(self.settings), embedder=self._engine_embedder)
            try:
                _store_passages(engine, self.dataset.passages, progress)
            finally:
                engine.close()
            (self._own / "complete").touch()

    def embed_questions(
        self, questions: Sequence[Question], progress: Progress = ignore_progress
    ) -> None:
        """Embed questions ahead: for sweeps, which do not measure the time of one question."""
        self.embedder.embed_ahead([one.text for one in questions], self.work / "vectors", progress)

    def adapt_settings(self, settings: Settings) -> Settings:
        """Return settings that use the documents of the dataset and write no journal."""
        values: dict[str, Any] = {
            "journal.query_log": "off",
            "journal.retention_days": 0,
            "understand.max_chars": _MAX_CHARS,
        }
        if self._own is not None:
            values["data.directory"] = self._own
            values["data.database_url"] = ""
            values["index.kind"] = "embedded"
        return change_settings(settings, values)

    def open_engine(self, settings: Settings) -> Engine:
        """Open an engine over the documents; refuse a collection of the user's that is empty."""
        engine = Engine(self.adapt_settings(settings), embedder=self._engine_embedder)
        must_search = any(question.given_answer is None for question in self.dataset.questions)
        if must_search and self._own is None and not engine.catalog.counts(self.collection).chunks:
            try:
                refuse_unknown_collection(engine.catalog, self.collection)
            finally:
                engine.close()
            raise InputError(
                f"The collection '{self.collection}' is empty, and the dataset has no documents.",
                hint="Fill it with: ragstone ingest DOCUMENTS/",
            )
        return engine

    def hash_inputs(self, engine: Engine, settings: Settings, *more: object) -> str:
        """Hash all that a result depends on: questions, documents, settings, program."""
        counts = engine.catalog.counts(self.collection)
        place = [] if self._own else [engine.catalog.identity(), counts.last_change]
        parts = [
            self.dataset.fingerprint,
            self.collection,
            place,
            self.embedder.name,
            settings.model_dump(mode="json", exclude=_IRRELEVANT_SECTIONS),
            hash_program(),
            *more,
        ]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def require_documents(dataset: Dataset, path: Path, engine: Engine, collection: str) -> None:
    """Refuse a question whose document is not in the collection: it would always count as not
    found, and look like a bad search."""
    known = {name for one in engine.documents(collection) for name in (one.id, one.name)}
    for question in dataset.questions:
        for name in {one.document for one in question.targets if one.document}:
            # Like `is_named`: a path that ends in the name, or the id of a chunk.
            parts = name.split("/")
            ends = {"/".join(parts[at:]) for at in range(len(parts))} | {name.rpartition(":")[0]}
            if known and question.given_answer is None and not known & ends:
                problem = f"there is no document '{name}' in '{collection}'"
                hint = "List the names with: ragstone documents list"
                raise line_error(path, question.line, problem, hint)


def _store_passages(engine: Engine, passages: Sequence[Passage], progress: Progress) -> None:
    """Store each passage as a document, split as the user's own documents are."""
    known = {one.name for one in engine.documents(DEFAULT_COLLECTION)}
    missing = [(at, one) for at, one in enumerate(passages) if one.id not in known]
    ingest = engine.settings.ingest
    splitter = build_splitter(ingest, engine.embedder)
    threads = ingest.embed_threads or 2
    with EmbeddingQueue(engine.embedder, threads, niceness=ingest.niceness) as queue:
        for begun in range(0, len(missing), _BATCH):
            progress("embedding documents", len(passages) - len(missing) + begun, len(passages))
            batch = [
                (at, one, _split_passage(splitter, at, one))
                for at, one in missing[begun : begun + _BATCH]
            ]
            pending = [queue.put([one.contextual_text for one in parts], {}) for *_, parts in batch]
            engine.catalog.add(
                [
                    NewDocument(_build_document(at, one, len(chunks)), chunks, vectors.result())
                    for (at, one, chunks), vectors in zip(batch, pending, strict=True)
                ],
                embedder=engine.embedder.name,
            )
    progress("indexing", len(passages), len(passages))
    engine.index.refresh(DEFAULT_COLLECTION)


def _build_document(at: int, passage: Passage, chunk_count: int) -> Document:
    digest = hashlib.sha256(f"{at}\0{passage.text}".encode()).hexdigest()
    return Document(
        id=f"d{at}",
        collection=DEFAULT_COLLECTION,
        source=passage.id,
        name=passage.id,
        media_type="text/plain",
        sha256=digest,
        text=passage.text,
        chunk_count=chunk_count,
    )


def _split_passage(splitter: Splitter, at: int, passage: Passage) -> tuple[Chunk, ...]:
    """Split a passage under its title; one without text is a chunk of its title alone."""
    loaded = LoadedDocument(passage.text, "text/plain")
    chunks = splitter.split(loaded, document_id=f"d{at}", document_name=passage.id)
    path = (passage.title,) if passage.title else ()
    if not chunks:
        return (
            Chunk(f"d{at}", 0, passage.text, 0, len(passage.text), passage.id, heading_path=path),
        )
    return tuple(replace(one, heading_path=path) for one in chunks)


def make_safe_name(name: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in name)[:60] or "set"


def _create_work_directory(directory: Path) -> Path:
    try:
        return create_data_directory(directory)
    except StoreError as error:
        raise InputError(
            error.message.replace("data directory", "directory of evaluations"),
            hint="Choose another directory with --work DIR or RAGSTONE_EVALUATE_DIRECTORY.",
        ) from error


@cache
def hash_program() -> str:
    """Hash the version, the source files, and the releases of plug-ins and computing libraries:
    a changed program may give other results under the same version."""
    digest = hashlib.sha256(ragstone.__version__.encode())
    root = Path(ragstone.__file__).parent
    for path in list_program_files(root):
        digest.update(path.read_bytes())
    plugins = {point.dist for slot in GROUPS for point in list_parts(slot).values() if point.dist}
    releases = {f"{one.name} {one.version}" for one in plugins}
    releases |= {f"{one} {version(one)}" for one in _COMPUTING_LIBRARIES if _is_installed(one)}
    digest.update("\n".join(sorted(releases)).encode())
    return digest.hexdigest()[:12]


def list_program_files(root: Path) -> list[Path]:
    """List the files of the package, without the packages that no question passes."""
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix in {".py", ".toml", ".md"}
        and path.relative_to(root).parts[0] not in _UNRELATED_PACKAGES
    ]


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
