"""Embedding in threads: the texts of one document in, its vectors out, unchanged ones not computed.

Each document is embedded by itself: the shipped model gains next to nothing from larger batches
(60-token texts: 6.8 CPU ms each in batches over many documents, 6.8 in groups of five, 7.2 alone).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from ragstone.blocks import LineBox
from ragstone.catalog.uploads import INSIDE
from ragstone.errors import NotFoundError, StoreBusyError
from ragstone.ingest.discover import Found, FoundFile
from ragstone.ingest.parser.pool import Stamp
from ragstone.protocols import (
    Catalog,
    Embedder,
    Index,
    IntakeRecords,
    NewDocument,
    SeenFile,
    Vectors,
)
from ragstone.system import lower_thread_priority
from ragstone.types import Chunk, Document, IngestedFile

# A long document is spread over the threads in pieces of this many chunks.
_PIECE = 32


class Pending:
    """The vectors of one document, some perhaps still being computed."""

    def __init__(
        self, vectors: Vectors, missing: Sequence[int], pieces: Sequence[Future[Vectors]]
    ) -> None:
        self._vectors = vectors
        self._missing = missing
        self._pieces = pieces

    @property
    def is_done(self) -> bool:
        return all(piece.done() for piece in self._pieces)

    def result(self) -> Vectors:
        """Wait for the rest."""
        if self._pieces:
            self._vectors[self._missing] = np.concatenate([p.result() for p in self._pieces])
        return self._vectors


class EmbeddingQueue:
    """Threads that embed what is put in, in order; `embedded` counts the texts they were given."""

    def __init__(self, embedder: Embedder, threads: int, *, niceness: int = 0) -> None:
        self._embedder = embedder
        self._threads = ThreadPoolExecutor(
            threads, "embed", initializer=lower_thread_priority, initargs=(niceness,)
        )
        self._is_warm = False
        self.embedded = 0

    def put(self, texts: Sequence[str], known: Mapping[str, Vectors]) -> Pending:
        """The vectors of `texts`; those in `known` are taken from there."""
        vectors = np.zeros((len(texts), self._embedder.dimension), dtype=np.float32)
        missing = [i for i, text in enumerate(texts) if text not in known]
        for i, text in enumerate(texts):
            if text in known:
                vectors[i] = known[text]
        if missing and not self._is_warm:
            # Loaded here once, so that the threads do not all load it.
            self._embedder.embed(["."])
            self._is_warm = True
        self.embedded += len(missing)
        pieces = [
            self._threads.submit(
                self._embedder.embed, [texts[i] for i in missing[begin : begin + _PIECE]]
            )
            for begin in range(0, len(missing), _PIECE)
        ]
        return Pending(vectors, missing, pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._threads.shutdown(cancel_futures=True)


log = logging.getLogger(__name__)


class Report(Protocol):
    """Where outcomes go; `files_done` says that so many files are finished."""

    def __call__(self, outcome: IngestedFile | None, *, files_done: int = 0) -> None: ...


# Files without a chunk in them, unchanged or broken, are noted together too.
_MOST_TOGETHER = 500
# Bringing the index up to date grows with it; it may take a twentieth of the time, and no more.
_REST = 20


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document that was read; `vectors` may still be on their way."""

    document: Document
    outcome: IngestedFile
    chunks: tuple[Chunk, ...] = ()
    vectors: Pending | None = None
    lines: tuple[LineBox, ...] = ()
    is_copy: bool = False
    """The same bytes are there already or on their way; only its place is new."""


@dataclass(slots=True)
class FinishedFile:
    """A file whose documents all stand before it in the line."""

    file: FoundFile
    known: SeenFile | None
    stamp: Stamp
    own: IngestedFile | None = None
    """What became of the file itself; None for an archive that only holds others."""
    members: dict[str, IngestedFile] = field(default_factory=dict)
    is_unchanged: bool = False

    @property
    def chunk_count(self) -> int:
        counted = [self.own] if self.own else []
        return sum(one.chunk_count for one in [*counted, *self.members.values()])


class Writer:
    """Commits batch by batch; what is committed survives a kill."""

    def __init__(
        self, catalog: Catalog, records: IntakeRecords, index: Index, *, collection: str,
        embedder: str, fingerprint: str, batch_chunks: int, refresh_s: float,
        report: Report,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._records = records
        self._index = index
        self._collection = collection
        self._embedder = embedder
        self._fingerprint = fingerprint
        self._batch_chunks = batch_chunks
        self._refresh_s = refresh_s
        self._report = report
        self._refreshed = time.monotonic()
        self._refreshing_s = 0.0
        self._documents: list[ReadDocument] = []
        self._finished: list[FinishedFile] = []
        self._size = 0
        self._lost: set[str] = set()

    def put(self, item: ReadDocument | FinishedFile) -> None:
        if isinstance(item, FinishedFile):
            self._finished.append(item)
        else:
            self._documents.append(item)
            self._size += len(item.chunks)
        together = len(self._documents) + len(self._finished)
        if self._size >= self._batch_chunks or together >= _MOST_TOGETHER:
            self.commit()

    def commit(self) -> None:
        documents, finished = self._documents, self._finished
        self._documents, self._finished, self._size = [], [], 0
        new = [one for one in documents if one.vectors is not None]
        if new:
            self._catalog.add(
                [NewDocument(one.document, one.chunks, one.vectors.result())
                 for one in new if one.vectors is not None],
                embedder=self._embedder,
            )  # fmt: skip
            self._records.keep_lines({one.document.id: one.lines for one in new if one.lines})
        for one in documents:
            if one.is_copy:
                held = self._catalog.attach(self._collection, one.document.source, one.document.id)
                if not held:  # what it copies was replaced in this very run
                    self._lost.add(one.document.source.partition(INSIDE)[0])
            elif one.vectors is None:
                self._catalog.add_failure(one.document)
        for file in finished:
            self._forget_leftovers(file)
        # A file that is not noted is read again by the next run.
        noted = [self._seen(f) for f in finished if f.file.source not in self._lost]
        self._records.note(self._collection, noted)
        for one in documents:
            self._report(one.outcome)
        for file in finished:
            self._report(file.own if file.is_unchanged else None, files_done=1)
        self._refresh_if_due()

    def _refresh_if_due(self) -> None:
        """Make what is stored searchable now and then, however large the index has become."""
        begun = time.monotonic()
        if begun - self._refreshed < max(self._refresh_s, _REST * self._refreshing_s):
            return
        bring_up_to_date(self._index, self._collection)
        self._refreshed = time.monotonic()
        self._refreshing_s = self._refreshed - begun

    def _forget_leftovers(self, file: FinishedFile) -> None:
        """What the last reading of this file left behind and this one did not find again."""
        if file.is_unchanged:
            return
        known, own = file.known, file.own
        failed = known.document_id if known is not None and known.status == "failed" else None
        if failed is not None and (own is None or own.document_id != failed):
            self._delete(failed)
        if own is not None and own.outcome == "failed":
            return  # the file could not be read to its end: what it held stays
        for source in self._records.sources_inside(self._collection, file.file.source):
            if source.partition(INSIDE)[2] not in file.members:
                self._catalog.release(self._collection, source)

    def _delete(self, document_id: str) -> None:
        with suppress(NotFoundError):
            self._catalog.delete(document_id)

    def _seen(self, file: FinishedFile) -> SeenFile:
        own = file.own
        if file.is_unchanged and file.known is not None:
            return replace(file.known, size=file.stamp.size, mtime_ns=file.stamp.mtime_ns)
        failed = own is not None and own.outcome == "failed"
        return SeenFile(
            path=file.file.source,
            size=file.stamp.size if file.stamp.sha256 else file.file.size,
            mtime_ns=file.stamp.mtime_ns if file.stamp.sha256 else file.file.mtime_ns,
            sha256=file.stamp.sha256,
            fingerprint=self._fingerprint,
            status="failed" if failed else "indexed",
            document_id=own.document_id if own else None,
            chunk_count=file.chunk_count,
            error=own.error if own else None,
            hint=own.hint if own else "",
        )

    def prune(self, found: Found, seen: Mapping[str, SeenFile]) -> None:
        """Remove from the search what was read from these folders and is there no more."""
        here = {file.source for file in found.files}
        for path, known in seen.items():
            if path not in here and _is_below(path, found.roots):
                self._catalog.release(self._collection, path)
                if known.status == "failed" and known.document_id:
                    self._delete(known.document_id)
                for source in self._records.sources_inside(self._collection, path):
                    self._catalog.release(self._collection, source)
                self._records.forget(self._collection, path)
                self._report(IngestedFile(path, "removed", known.document_id, known.chunk_count))


def bring_up_to_date(index: Index, collection: str) -> None:
    """Let an index follow what is stored. If another process is at it, that one takes it in, or
    the next search does: what is committed is not undone by a busy index."""
    try:
        index.refresh(collection)
    except StoreBusyError as error:
        log.warning("the index of %r follows later: %s", collection, error)


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
