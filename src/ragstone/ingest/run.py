"""The way of a document: find → read and split → embed → store. Files in, a report out.

Reading and splitting happen in parser processes, embedding in threads (the model computes outside
Python's lock), storing here, in one place and in the order of arrival. What is in hand is bounded:
when the embedder is behind, the readers wait. A run that is stopped or killed loses what is in
hand; the same command takes it up again, because what is stored is recognised.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ragstone.blocks import LoadOptions
from ragstone.catalog.uploads import INSIDE
from ragstone.ingest.discover import Found, FoundFile, check_metadata
from ragstone.ingest.parser.pool import Event, ParserPool, peak_bytes
from ragstone.ingest.parser.protocol import ReadPart, Request, SplitOptions
from ragstone.ingest.split import Chunking, SplitContext
from ragstone.ingest.store import (
    EmbeddingQueue,
    FinishedFile,
    ReadDocument,
    Writer,
    bring_up_to_date,
)
from ragstone.plugins import find
from ragstone.protocols import Catalog, Embedder, Index, IntakeRecords, SeenFile, Splitter
from ragstone.settings import IngestSettings
from ragstone.system import count_usable_cores
from ragstone.types import Chunk, Document, IngestedFile, IngestReport

Progress: TypeAlias = Callable[[IngestedFile, int, int], None]
"""Called for each document with its outcome, how many files are done, and how many there are."""

# Raised when a loader or the splitter gives other text or chunks for the same bytes.
_READING = 2
# Before the hash of the caller's metadata in a fingerprint.
_MARK = ":metadata="
# Chunks in hand, as a multiple of what is stored with one commit.
_IN_HAND = 4
_FILES_PER_WORKER = 100


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a caller may say about one run."""

    collection: str
    upload_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    password: str | None = None
    prune: bool = False
    again: bool = False
    """Read even what has not changed."""

    def __post_init__(self) -> None:
        check_metadata(self.metadata)


class Ingestor:
    """Reads files into one collection; one object serves one run."""

    def __init__(
        self, catalog: Catalog, records: IntakeRecords, index: Index, embedder: Embedder,
        settings: IngestSettings, options: RunOptions,
        *, progress: Progress | None = None, stop: threading.Event | None = None,
        splitter: Splitter | None = None,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._records = records
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self._options = options
        self._progress = progress
        self._stop = stop or threading.Event()
        self._splitter = splitter
        self._fingerprint = fingerprint(settings, embedder) + _metadata_mark(options.metadata)
        cores = count_usable_cores()
        self._embedding = EmbeddingQueue(
            embedder, settings.embed_threads or cores, niceness=settings.niceness
        )
        self._workers = settings.workers or cores
        self._writer = Writer(
            catalog, records, index, collection=options.collection, embedder=embedder.name,
            fingerprint=self._fingerprint, batch_chunks=settings.batch_chunks,
            refresh_s=settings.refresh_s, report=self._report,
        )  # fmt: skip
        self._open: dict[str, FinishedFile] = {}
        self._line: deque[ReadDocument | FinishedFile] = deque()
        self._waiting = 0
        self._on_their_way: set[str] = set()
        self._outcomes: list[IngestedFile] = []
        self._done = self._total = 0

    def run(self, found: Found) -> IngestReport:
        begun = time.monotonic()
        seen = self._records.seen(self._options.collection)
        self._total = len(found.files)
        pending = [file for file in found.files if not self._settle(file, seen.get(file.source))]
        with self._embedding:
            if pending:
                self._read_all(pending, seen)
        if self._options.prune and not self._stop.is_set():
            self._writer.prune(found, seen)
        bring_up_to_date(self._index, self._options.collection)
        return IngestReport(
            self._options.collection,
            tuple(self._outcomes),
            embedded_chunks=self._embedding.embedded,
            seconds=time.monotonic() - begun,
            peak_bytes=peak_bytes(),
        )

    def _report(self, outcome: IngestedFile | None, *, files_done: int = 0) -> None:
        self._done += files_done
        if outcome is not None:
            self._outcomes.append(outcome)
            if self._progress is not None:
                self._progress(outcome, self._done, self._total)

    def _settle(self, file: FoundFile, known: SeenFile | None) -> bool:
        """Deal with a file that has not changed since it was last read."""
        if (
            known is None
            or (known.size, known.mtime_ns) != (file.size, file.mtime_ns)
            or not self._is_valid(known)
        ):
            return False
        self._report(_as_before(file, known), files_done=1)
        return True

    def _is_valid(self, known: SeenFile) -> bool:
        """Whether what is known of unchanged bytes still holds."""
        options = self._options
        # Metadata that nobody gives this time stays as it was given.
        held = known.fingerprint if options.metadata else known.fingerprint.partition(_MARK)[0]
        if options.again or held != self._fingerprint:
            return False
        return known.status == "indexed" or not options.password

    def _read_all(self, pending: Sequence[FoundFile], seen: Mapping[str, SeenFile]) -> None:
        # A process costs a second to start, and one reads ten times as fast as two cores embed.
        workers = min(self._workers, 1 + len(pending) // _FILES_PER_WORKER)
        pool = ParserPool[FoundFile](workers, timeout_s=self._settings.timeout_s)
        jobs = ((file, self._request(file, seen.get(file.source))) for file in pending)
        with closing(pool.run(jobs)) as events:
            for event in events:
                if self._stop.is_set():
                    return
                self._take(event, seen.get(event.job.source))
                self._store(in_hand=self._settings.batch_chunks * _IN_HAND)
        self._store(in_hand=0)
        self._writer.commit()

    def _request(self, file: FoundFile, known: SeenFile | None) -> Request:
        settings = self._settings
        tokenizer = getattr(self._embedder, "tokenizer_file", None)
        split = None
        if tokenizer is not None and self._splits_in_parser():
            split = SplitOptions(str(tokenizer), self._embedder.max_tokens, chunking(settings))
        return Request(
            str(file.path),
            file.name,
            LoadOptions(
                password=self._options.password,
                ocr=settings.ocr,
                max_pages=settings.max_pages,
                max_unpacked_bytes=settings.max_unpacked_mb * 1_000_000,
                max_depth=settings.max_depth,
                max_members=settings.max_members,
            ),
            max_file_bytes=int(settings.max_file_mb * 1_000_000),
            max_memory_bytes=settings.max_memory_mb * 1_000_000,
            known_sha256=known.sha256 if known is not None and self._is_valid(known) else None,
            split=split,
        )

    def _take(self, event: Event[FoundFile], known: SeenFile | None) -> None:
        """A document goes in line, and the end of its file behind it."""
        file, part = event.job, event.part
        state = self._open.setdefault(file.source, FinishedFile(file, known, event.stamp))
        state.stamp = event.stamp
        if part is None:
            state.is_unchanged = event.unchanged
            if event.unchanged and known is not None:
                state.own = _as_before(file, known)
            self._line.append(self._open.pop(file.source))
            return
        document = self._document(file, part)
        if part.member:
            state.members[part.member] = document.outcome
        else:
            state.own = document.outcome
        self._waiting += len(document.chunks)
        self._line.append(document)

    def _document(self, file: FoundFile, part: ReadPart) -> ReadDocument:
        collection = self._options.collection
        source = f"{file.source}{INSIDE}{part.member}" if part.member else file.source
        document = Document(
            id=document_id(collection, part.sha256 or source),
            collection=collection,
            source=source,
            name=f"{file.name}/{part.member}" if part.member else file.name,
            media_type="application/octet-stream",
            sha256=part.sha256,
            upload_id=self._options.upload_id,
            created_at=time.time(),
        )
        chunks = self._chunks(document, part)
        if part.loaded is None or not chunks:
            error = part.error or "The file holds no text."
            outcome = IngestedFile(document.name, "failed", document.id, 0, error,
                                   part.hint or "There is nothing to search.")  # fmt: skip
            return ReadDocument(replace(document, status="failed", error=error), outcome)
        document = replace(
            document,
            media_type=part.loaded.media_type,
            text=part.loaded.text,
            metadata={**part.loaded.metadata, **self._options.metadata},
            chunk_count=len(chunks),
        )
        return self._placed(document, chunks, part)

    def _chunks(self, document: Document, part: ReadPart) -> tuple[Chunk, ...]:
        if part.loaded is None:
            return ()
        if part.chunks is not None:
            return tuple(
                replace(chunk, document_id=document.id, document_name=document.name)
                for chunk in part.chunks
            )
        # An embedder without a tokenizer file counts its tokens itself, here.
        name = self._settings.splitter
        context = SplitContext(self._embedder, chunking(self._settings))
        splitter: Splitter = self._splitter or find("splitter", name)(context)
        return tuple(
            splitter.split(part.loaded, document_id=document.id, document_name=document.name)
        )

    def _splits_in_parser(self) -> bool:
        """Return True for the built-in splitter: parser processes know no other."""
        return self._splitter is None and self._settings.splitter == "sentences"

    def _placed(
        self, document: Document, chunks: tuple[Chunk, ...], part: ReadPart
    ) -> ReadDocument:
        """Decide what must be done: note a further place of known bytes, or embed what is new."""
        held = self._catalog.current(document.collection, document.source)
        if held is not None and held.status != "indexed":
            held = None
        is_new_here = held is None
        outcome = IngestedFile(
            document.name, "added" if is_new_here else "updated", document.id, len(chunks)
        )
        if document.id in self._on_their_way or self._is_there(document.id):
            same = held is not None and held.id == document.id
            outcome = replace(outcome, outcome="unchanged") if same else outcome
            return ReadDocument(document, outcome, is_copy=True)
        self._on_their_way.add(document.id)
        known = self._records.vectors_of(held.id) if held is not None else {}
        vectors = self._embedding.put([chunk.contextual_text for chunk in chunks], known)
        lines = part.loaded.lines if part.loaded else ()
        return ReadDocument(document, outcome, chunks, vectors, lines)

    def _is_there(self, document_id: str) -> bool:
        """Whether these bytes are stored as they would be stored now."""
        if self._options.again or self._options.metadata:
            return False
        return self._records.is_living(document_id)

    def _store(self, *, in_hand: int) -> None:
        """Hand over what is embedded, oldest first; wait only for more than `in_hand` chunks."""
        while self._line:
            first = self._line[0]
            if isinstance(first, ReadDocument) and first.vectors is not None:
                # Told to stop, it waits for nothing more: what has its vectors is kept.
                if not first.vectors.is_done and (self._waiting <= in_hand or self._stop.is_set()):
                    return
                self._waiting -= len(first.chunks)
            self._writer.put(self._line.popleft())


def chunking(settings: IngestSettings) -> Chunking:
    return Chunking(
        settings.chunk_tokens, settings.overlap_tokens, settings.chunking,
        settings.window_sentences, settings.parent_tokens,
    )  # fmt: skip


def fingerprint(settings: IngestSettings, embedder: Embedder) -> str:
    """Everything besides the bytes that decides what is stored for a file."""
    parts = [_READING, embedder.name, settings.chunk_tokens, settings.overlap_tokens, settings.ocr]
    if settings.chunking == "sentence_window":
        parts += [settings.chunking, settings.window_sentences]
    elif settings.chunking == "parent_child":
        parts += [settings.chunking, settings.parent_tokens]
    return ":".join(map(str, parts))


def _metadata_mark(metadata: Mapping[str, Any]) -> str:
    if not metadata:
        return ""
    given = json.dumps(metadata, sort_keys=True, default=str)
    return _MARK + hashlib.sha256(given.encode()).hexdigest()[:12]


def document_id(collection: str, content: str) -> str:
    """The same bytes in a collection are the same document; `content` is their SHA-256."""
    return hashlib.sha256(f"{collection}\0{content}".encode()).hexdigest()[:24]


def _as_before(file: FoundFile, known: SeenFile) -> IngestedFile:
    """The outcome of a file that was not read again."""
    if known.status == "failed":
        return IngestedFile(file.name, "failed", known.document_id, 0, known.error, known.hint)
    return IngestedFile(file.name, "unchanged", known.document_id, known.chunk_count)
