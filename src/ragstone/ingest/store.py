"""Store documents in batches: commit them to the catalog, record their files, refresh the index."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from ragstone.blocks import LineBox
from ragstone.catalog.documents import lock_of
from ragstone.catalog.uploads import MEMBER_SEPARATOR, SqlIntakeRecords
from ragstone.catalog.vectors import OtherEmbedderError
from ragstone.errors import NotFoundError, StoreBusyError, StoreUnavailableError
from ragstone.ingest.discover import FoundFile, FoundFiles
from ragstone.ingest.embed import PendingVectors
from ragstone.ingest.parser.pool import FileStamp
from ragstone.protocols import (
    Catalog,
    Embedder,
    FileRecord,
    Index,
    NewDocument,
)
from ragstone.reports import IngestedFile
from ragstone.types import Chunk, Document

log = logging.getLogger(__name__)

# Documents and files without chunks, unchanged or broken, are committed together too.
_MAX_BATCH_ITEMS = 500
# What is ready is stored after so many seconds, also if it does not fill a batch.
_COMMIT_WITHIN_S = 2.0
# A refresh takes longer the larger the index is; it may take a twentieth of the time, no more.
_PAUSE_PER_REFRESH = 20


class Report(Protocol):
    """Receive the outcome of a document, or the number of files that are finished."""

    def __call__(self, outcome: IngestedFile | None, *, files_done: int = 0) -> None: ...


Record: TypeAlias = Callable[[Sequence[IngestedFile], Sequence[str]], None]
"""Called inside each commit with the outcomes in it, and the names of the files it finishes."""


FindParts: TypeAlias = Callable[[str], tuple[Embedder, Index]]
"""Return the embedder and the index that a collection is searched with now."""


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """Hold a document that was read; its vectors may still be computed."""

    document: Document
    outcome: IngestedFile
    chunks: tuple[Chunk, ...] = ()
    vectors: PendingVectors | None = None
    lines: tuple[LineBox, ...] = ()
    is_copy: bool = False
    """The same bytes are stored, or will be in this run; only the source is new."""


@dataclass(slots=True)
class FinishedFile:
    """Hold a file whose documents all come before it in the queue."""

    file: FoundFile
    record: FileRecord | None
    """The file as it was read last time."""
    stamp: FileStamp
    outcome: IngestedFile | None = None
    """None for an archive, which only has members."""
    members: dict[str, IngestedFile] = field(default_factory=dict)
    is_unchanged: bool = False

    @property
    def is_failed(self) -> bool:
        return self.outcome is not None and self.outcome.outcome == "failed"

    @property
    def has_failures(self) -> bool:
        members = (member.outcome == "failed" for member in self.members.values())
        return self.is_failed or any(members)

    @property
    def chunk_count(self) -> int:
        own = self.outcome.chunk_count if self.outcome else 0
        return own + sum(member.chunk_count for member in self.members.values())


@dataclass(slots=True)
class BatchWriter:
    """Commit documents batch by batch; what is committed survives a kill."""

    catalog: Catalog
    records: SqlIntakeRecords
    index: Index
    collection: str
    embedder: Embedder
    fingerprint: str
    batch_chunks: int
    refresh_s: float
    report: Report
    limits: str = ""
    """Added to the fingerprint of a file with failures: other limits may let it be read."""
    record: Record | None = None
    find_parts: FindParts | None = None
    on_switch: Callable[[Embedder], None] = lambda embedder: None
    """Called with the embedder that a collection was switched to while the run was under way."""
    _documents: list[PreparedDocument] = field(default_factory=list, init=False)
    _files: list[FinishedFile] = field(default_factory=list, init=False)
    _chunk_count: int = field(default=0, init=False)
    _commit_due: float = field(default=math.inf, init=False)
    _lost_sources: set[str] = field(default_factory=set, init=False)
    _last_refresh: float = field(init=False)
    _refresh_duration_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._last_refresh = time.monotonic()

    def put(self, item: PreparedDocument | FinishedFile) -> None:
        if isinstance(item, FinishedFile):
            self._files.append(item)
        else:
            if len(item.chunks) >= self.batch_chunks and self._documents:
                self.commit()  # storing a long document takes a while, and may be interrupted
            self._documents.append(item)
            self._chunk_count += len(item.chunks)
        self._commit_due = min(self._commit_due, time.monotonic() + _COMMIT_WITHIN_S)
        item_count = len(self._documents) + len(self._files)
        if self._chunk_count >= self.batch_chunks or item_count >= _MAX_BATCH_ITEMS:
            self.commit()

    def commit_if_due(self) -> None:
        if time.monotonic() >= self._commit_due:
            self.commit()

    def commit(self) -> None:
        """Store the documents with their lines, files and outcomes in one transaction."""
        self._commit_due = math.inf
        documents, files = self._documents, self._files
        self._documents, self._files, self._chunk_count = [], [], 0
        try:
            documents, files = self._store_batch(documents, files)
        except OtherEmbedderError:
            if self.find_parts is None:
                raise
            self._change_embedder(*self.find_parts(self.collection))
            documents, files = self._store_batch(documents, files)
        self.report(None, files_done=len(files))
        for item in documents:
            self.report(item.outcome)
        for file in files:
            if file.is_unchanged:
                self.report(file.outcome)
        self._refresh_if_due()

    def _change_embedder(self, embedder: Embedder, index: Index) -> None:
        """Go on with the embedder that the collection was switched to meanwhile."""
        mark = f":{embedder.name}:"
        self.fingerprint = self.fingerprint.replace(f":{self.embedder.name}:", mark)
        self.embedder, self.index = embedder, index
        self.on_switch(embedder)

    def _add_vectors(self, item: PreparedDocument, vectors: PendingVectors) -> NewDocument:
        """Return a document with its vectors; those of another embedder are computed again."""
        if vectors.embedder == self.embedder.name:
            computed = vectors.result()
        else:
            computed = self.embedder.embed([chunk.contextual_text for chunk in item.chunks])
        return NewDocument(item.document, item.chunks, computed, item.lines)

    def _store_batch(
        self, documents: list[PreparedDocument], files: list[FinishedFile]
    ) -> tuple[list[PreparedDocument], list[FinishedFile]]:
        """Store in one transaction; return what was stored."""
        new = [self._add_vectors(item, item.vectors) for item in documents if item.vectors]
        with self.catalog.write_transaction(lock_of(self.collection)):
            if new:
                self.catalog.add(new, embedder=self.embedder.name)
            self._store_documents(documents)
            for file in files:
                self._remove_leftovers(file)
            # A file without a record is read again.
            files = [file for file in files if file.file.source not in self._lost_sources]
            self.records.save_files(self.collection, [self._build_record(file) for file in files])
            documents = [item for item in documents if not self._is_lost(item)]
            outcomes = [item.outcome for item in documents]
            outcomes += [file.outcome for file in files if file.is_unchanged and file.outcome]
            if self.record is not None:
                self.record(outcomes, [file.file.name for file in files])
        return documents, files

    def _store_documents(self, documents: list[PreparedDocument]) -> None:
        for item in documents:
            document = item.document
            if item.is_copy:
                if not self.catalog.add_source(self.collection, document.source, document.id):
                    # The document it copies was replaced meanwhile.
                    self._lost_sources.add(get_file_source(item))
            elif item.vectors is None:
                self.catalog.add_failure(document)

    def _is_lost(self, item: PreparedDocument) -> bool:
        return get_file_source(item) in self._lost_sources

    def take_lost_sources(self) -> set[str]:
        """Return the sources of files that must be read again, and forget them."""
        lost, self._lost_sources = self._lost_sources, set()
        return lost

    def refresh(self) -> None:
        """Make what is stored searchable."""
        try:
            refresh_index(self.index, self.collection)
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"{error.message} The documents are stored, but can't be searched yet.",
                hint=error.hint,
                reason=error.reason,
            ) from error

    def _refresh_if_due(self) -> None:
        """Make stored documents searchable at intervals that grow with the size of the index."""
        now = time.monotonic()
        pause_s = max(self.refresh_s, _PAUSE_PER_REFRESH * self._refresh_duration_s)
        if now - self._last_refresh >= pause_s:
            try:
                refresh_index(self.index, self.collection)
            except StoreUnavailableError as error:  # the end of the run tries again
                log.warning("%s %s", error.message, error.reason)
            self._last_refresh = time.monotonic()
            self._refresh_duration_s = self._last_refresh - now

    def _remove_leftovers(self, file: FinishedFile) -> None:
        """Remove documents of the previous reading of a file that this reading did not find."""
        if file.is_unchanged:
            return
        if file.record is not None and file.record.status == "failed":
            old_id = file.record.document_id
            if old_id and (file.outcome is None or file.outcome.document_id != old_id):
                self._delete_document(old_id)
        if file.is_failed:
            return  # the file was not read to its end: its old members stay
        for source in self.records.sources_inside(self.collection, file.file.source):
            if source.partition(MEMBER_SEPARATOR)[2] not in file.members:
                self.catalog.remove_source(self.collection, source)

    def _delete_document(self, document_id: str) -> None:
        with suppress(NotFoundError):
            self.catalog.delete(document_id)

    def _build_record(self, file: FinishedFile) -> FileRecord:
        stamp, outcome = file.stamp, file.outcome
        if file.is_unchanged and file.record is not None:
            return replace(file.record, size=stamp.size, mtime_ns=stamp.mtime_ns)
        return FileRecord(
            path=file.file.source,
            size=stamp.size if stamp.sha256 else file.file.size,
            mtime_ns=stamp.mtime_ns if stamp.sha256 else file.file.mtime_ns,
            sha256=stamp.sha256,
            fingerprint=self.fingerprint + (self.limits if file.has_failures else ""),
            status="failed" if file.is_failed else "indexed",
            document_id=outcome.document_id if outcome else None,
            chunk_count=file.chunk_count,
            error=outcome.error if outcome else None,
            hint=outcome.hint if outcome else "",
        )

    def prune(self, found: FoundFiles) -> None:
        """Remove the documents of files that are no longer in the folders that were searched."""
        present = {file.source for file in found.files}
        known: dict[str, FileRecord] = {}
        for root in found.roots:
            known |= self.records.files_below(self.collection, root)
        for path, record in known.items():
            if path in present or any(folder.holds(path) for folder in found.unread):
                continue
            self.catalog.remove_source(self.collection, path)
            if record.status == "failed" and record.document_id:
                self._delete_document(record.document_id)
            for source in self.records.sources_inside(self.collection, path):
                self.catalog.remove_source(self.collection, source)
            self.records.delete_file(self.collection, path)
            self.report(IngestedFile(path, "removed", record.document_id, record.chunk_count))


def get_file_source(item: PreparedDocument) -> str:
    return item.document.source.partition(MEMBER_SEPARATOR)[0]


def refresh_index(index: Index, collection: str) -> None:
    """Apply stored changes to an index. If it is busy, leave it to the next refresh or search."""
    try:
        index.refresh(collection)
    except StoreBusyError as error:
        log.warning("the index of %r is busy and is refreshed later: %s", collection, error)
