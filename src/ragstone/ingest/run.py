"""Run an ingest: find → parse and split → embed → store. Files in, a report out.

Parsing and splitting happen in parser processes, embedding in threads (the model computes outside
Python's lock), storing in this thread, in the order of arrival; only long documents are overtaken.
The chunks in memory are bounded: if the embedder is behind, the parsers wait. A run that is stopped
or killed loses what is not stored; the next run skips what is stored and reads the rest.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from ragstone.blocks import UNREADABLE_PAGES, LoadedDocument, LoadOptions, ParsedPart
from ragstone.catalog.uploads import MEMBER_SEPARATOR, SqlIntakeRecords
from ragstone.errors import NotFoundError
from ragstone.ingest.discover import FoundFile, FoundFiles, measure_if_large
from ragstone.ingest.embed import ChunkTexts, EmbeddingQueue, explain_unread_languages
from ragstone.ingest.metadata import check_metadata
from ragstone.ingest.parser.pool import ParserEvent, ParserPool, measure_peak_bytes
from ragstone.ingest.parser.protocol import Request, SplitOptions
from ragstone.ingest.split import ChunkingOptions, SplitContext
from ragstone.ingest.store import (
    BatchWriter,
    FindParts,
    FinishedFile,
    PreparedDocument,
    Record,
)
from ragstone.ingest.waiting import WaitingLine
from ragstone.plugins import find_part
from ragstone.protocols import Catalog, Embedder, FileRecord, Index, Splitter
from ragstone.reports import FileProgress, IngestedFile, IngestReport
from ragstone.settings import IngestSettings
from ragstone.system import count_usable_cores
from ragstone.types import Chunk, Document

Progress: TypeAlias = Callable[[IngestedFile, int, int], None]
"""Called for each document with its outcome, the number of files done, and of all files."""

Stage: TypeAlias = Callable[[FileProgress], None]
"""Called when a file enters a stage, and while its chunks are embedded."""

# Raised when a loader or the splitter returns other text or chunks for the same bytes.
_READER_VERSION = 5
# Precedes the hash of the caller's metadata in a fingerprint.
_METADATA_MARK = ":metadata="
# Precedes the limits in the fingerprint of a file that could not be read.
_LIMITS_MARK = ":limits="
_LIMITS = (
    "timeout_s", "max_memory_mb", "max_pages", "max_unpacked_mb", "max_depth", "max_members"
)  # fmt: skip
_POLL_S = 0.1
# Between two reports of the chunks that are embedded.
_PROGRESS_EVERY_S = 0.3
# Chunks in memory, as a multiple of a commit.
_BATCHES_IN_MEMORY = 4
_FILES_PER_WORKER = 100
# The language of a shorter text is guessed wrong too often to advise another embedder. Bytes,
# because a Chinese character says as much as three letters.
_MIN_LANGUAGE_BYTES = 200


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Hold the caller's options of one run."""

    collection: str
    upload_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    password: str | None = None
    prune: bool = False
    again: bool = False
    """Read unchanged files too."""

    def __post_init__(self) -> None:
        check_metadata(self.metadata)


class Ingestor:
    """Read files into one collection; one object serves one run."""

    def __init__(
        self,
        catalog: Catalog,
        records: SqlIntakeRecords,
        index: Index,
        embedder: Embedder,
        settings: IngestSettings,
        options: RunOptions,
        *,
        progress: Progress | None = None,
        record: Record | None = None,
        stage: Stage | None = None,
        stop: threading.Event | None = None,
        splitter: Splitter | None = None,
        find_parts: FindParts | None = None,
    ) -> None:
        self._catalog = catalog
        self._records = records
        self._embedder = embedder
        self._settings = settings
        self._options = options
        self._progress = progress
        self._stage = stage or (lambda _progress: None)
        self._stop = stop or threading.Event()
        self._given_splitter = splitter
        self._chunking = ChunkingOptions.from_settings(settings)
        self._fingerprint = compute_fingerprint(settings, embedder, options.metadata)
        self._embedding = EmbeddingQueue(
            embedder, settings.embed_threads or count_usable_cores(), niceness=settings.niceness
        )
        self._writer = BatchWriter(
            catalog,
            records,
            index,
            collection=options.collection,
            embedder=embedder,
            fingerprint=self._fingerprint,
            limits=_describe_limits(settings),
            batch_chunks=settings.batch_chunks,
            refresh_s=settings.refresh_s,
            report=self._report,
            record=record,
            find_parts=find_parts,
            on_switch=self._embedding.change_embedder,
        )
        self._open_files: dict[str, FinishedFile] = {}
        self._line = WaitingLine(settings.batch_chunks)
        self._next_report = 0.0
        self._new_ids: set[str] = set()
        self._outcomes: list[IngestedFile] = []
        self._languages: Counter[str] = Counter()
        self._done = self._total = 0

    def run(self, found: FoundFiles) -> IngestReport:
        started = time.monotonic()
        paths = [file.source for file in found.files]
        known = self._records.known_files(self._options.collection, paths)
        self._total = len(found.files)
        for name, reason in found.skipped:
            self._report(IngestedFile(name, "skipped", error=reason))
        for folder in found.unread:
            self._report(IngestedFile(folder.name, "failed", error=folder.error, hint=folder.hint))
        changed = [file for file in found.files if not self._skip(file, known.get(file.source))]
        changed.sort(key=measure_if_large)
        with self._embedding:
            while changed and not self._stop.is_set():
                self._read_files(changed, known)
                # Copies of a document that was replaced before they were stored.
                lost = self._writer.take_lost_sources()
                changed = [file for file in changed if file.source in lost]
                self._new_ids.clear()
        hint = explain_unread_languages(self._languages, self._embedder)
        if not self._stop.is_set():
            if self._options.prune:
                self._writer.prune(found)
            self._writer.refresh()
        return IngestReport(
            self._options.collection,
            tuple(self._outcomes),
            embedded_chunks=self._embedding.embedded_count,
            seconds=time.monotonic() - started,
            peak_bytes=measure_peak_bytes(),
            hint=hint,
            stored_chunks=self._catalog.counts(self._options.collection).chunks,
            left_out=found.left_out,
        )

    def _report(self, outcome: IngestedFile | None, *, files_done: int = 0) -> None:
        self._done += files_done
        if outcome is not None:
            self._outcomes.append(outcome)
            if self._progress is not None:
                self._progress(outcome, self._done, self._total)

    def _skip(self, file: FoundFile, record: FileRecord | None) -> bool:
        """Report a file that has not changed since it was last read; False if it must be read."""
        if record is None or file.mtime_ns < 0:  # uploads have no time of change
            return False
        if (record.size, record.mtime_ns) != (file.size, file.mtime_ns):
            return False
        if not self._is_valid(record):
            return False
        self._report(_repeat_outcome(file, record), files_done=1)
        return True

    def _is_valid(self, record: FileRecord) -> bool:
        """Tell whether the record of unchanged bytes still holds."""
        options = self._options
        fingerprint, mark, limits = record.fingerprint.partition(_LIMITS_MARK)
        if mark + limits not in {"", self._writer.limits}:
            return False
        if record.status == "failed" and not record.sha256:  # it wasn't the content that failed
            return False
        if not options.metadata:  # metadata of an earlier run stays
            fingerprint = fingerprint.partition(_METADATA_MARK)[0]
        if options.again or fingerprint != self._fingerprint:
            return False
        return record.status == "indexed" or not options.password

    def _read_files(self, files: Sequence[FoundFile], known: Mapping[str, FileRecord]) -> None:
        # A process costs a second to start, and one reads ten times as fast as two cores embed.
        workers = self._settings.workers or count_usable_cores()
        workers = min(workers, 1 + len(files) // _FILES_PER_WORKER)
        pool = ParserPool[FoundFile](workers, timeout_s=self._settings.timeout_s)
        jobs = self._list_jobs(files, known)
        with closing(pool.run(jobs)) as events:
            for event in events:
                if self._stop.is_set():
                    break
                if event is not None:
                    self._handle_event(event, known.get(event.job.source))
                self._store(max_chunks=self._settings.batch_chunks * _BATCHES_IN_MEMORY)
        self._store(max_chunks=-1)
        self._writer.commit()

    def _list_jobs(
        self, files: Sequence[FoundFile], known: Mapping[str, FileRecord]
    ) -> Iterator[tuple[FoundFile, Request]]:
        for file in files:
            self._stage(FileProgress(file.name, "reading"))
            yield file, self._build_request(file, known.get(file.source))

    def _build_request(self, file: FoundFile, record: FileRecord | None) -> Request:
        settings = self._settings
        tokenizer = getattr(self._embedder, "tokenizer_file", None)
        is_built_in = self._given_splitter is None and settings.splitter == "sentences"
        split = None
        if tokenizer is not None and is_built_in:  # parser processes know no other splitter
            split = SplitOptions(str(tokenizer), self._embedder.max_tokens, self._chunking)
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
            known_sha256=record.sha256 if record is not None and self._is_valid(record) else None,
            split=split,
        )

    def _handle_event(self, event: ParserEvent[FoundFile], record: FileRecord | None) -> None:
        """Queue a document, and the end of its file behind it."""
        file, part = event.job, event.part
        state = self._open_files.setdefault(file.source, FinishedFile(file, record, event.stamp))
        state.stamp = event.stamp
        if part is None:
            state.is_unchanged = event.is_unchanged
            if event.is_unchanged and record is not None:
                state.outcome = _repeat_outcome(file, record)
            self._line.put(self._open_files.pop(file.source))
            return
        self._stage(FileProgress(file.name, "embedding"))
        prepared = self._prepare(file, part)
        if part.member:
            state.members[part.member] = prepared.outcome
        else:
            state.outcome = prepared.outcome
        self._line.put(prepared)

    def _prepare(self, file: FoundFile, part: ParsedPart) -> PreparedDocument:
        collection = self._options.collection
        source = f"{file.source}{MEMBER_SEPARATOR}{part.member}" if part.member else file.source
        document = Document(
            id=compute_document_id(collection, part.sha256 or source),
            collection=collection,
            source=source,
            name=f"{file.name}/{part.member}" if part.member else file.name,
            media_type="application/octet-stream",
            sha256=part.sha256,
            upload_id=self._options.upload_id,
            created_at=time.time(),
        )
        chunks = self._split(document, part)
        if part.loaded is None or not chunks:
            error = part.error or "The file holds no text."
            hint = part.hint or "There is nothing to search."
            outcome = IngestedFile(document.name, "failed", document.id, 0, error, hint)
            return PreparedDocument(replace(document, status="failed", error=error), outcome)
        document = replace(
            document,
            media_type=part.loaded.media_type,
            text=part.loaded.text,
            metadata={**part.loaded.metadata, **self._options.metadata},
            chunk_count=len(chunks),
        )
        return self._embed_if_new(document, chunks, part.loaded)

    def _split(self, document: Document, part: ParsedPart) -> tuple[Chunk, ...]:
        if part.loaded is None:
            return ()
        names = {"document_id": document.id, "document_name": document.name}
        if part.chunks is None:
            # An embedder without a tokenizer file counts its tokens itself, here.
            return tuple(self._splitter.split(part.loaded, **names))
        return tuple(
            replace(chunk, document_id=document.id, document_name=document.name)
            for chunk in part.chunks
        )

    @cached_property
    def _splitter(self) -> Splitter:
        if self._given_splitter is not None:
            return self._given_splitter
        return build_splitter(self._settings, self._embedder)

    def _embed_if_new(
        self, document: Document, chunks: tuple[Chunk, ...], loaded: LoadedDocument
    ) -> PreparedDocument:
        """Embed the new chunks of a document, or only add a source if its bytes are stored."""
        previous = self._catalog.find_by_source(document.collection, document.source)
        if previous is not None and previous.status != "indexed":
            previous = None
        outcome = IngestedFile(
            document.name,
            "updated" if previous else "added",
            document.id,
            len(chunks),
            hint=_describe_unread(loaded),
        )
        is_stored = self._is_stored(document.id)
        if document.id in self._new_ids or is_stored:
            if is_stored and (previous is None or previous.id == document.id):
                outcome = replace(outcome, outcome="unchanged")
            if is_stored and previous is None:
                outcome = replace(outcome, hint=self._describe_copy(document.id))
            return PreparedDocument(document, outcome, is_copy=True)
        self._new_ids.add(document.id)
        self._count_language(loaded)
        known = {}
        if previous is not None:
            known = self._records.vectors_by_text(previous.id, self._embedding.embedder)
        vectors = self._embedding.put(ChunkTexts(chunks), known)
        return PreparedDocument(document, outcome, chunks, vectors, loaded.lines)

    def _count_language(self, loaded: LoadedDocument) -> None:
        is_long = len(loaded.text[:_MIN_LANGUAGE_BYTES].encode()) >= _MIN_LANGUAGE_BYTES
        if is_long and (code := loaded.metadata.get("language")):
            self._languages[code] += 1

    def _describe_copy(self, document_id: str) -> str:
        with suppress(NotFoundError):  # it may be deleted at this moment
            stored = self._catalog.document(document_id)
            return f"The same content is already stored as '{stored.name}'."
        return ""

    def _is_stored(self, document_id: str) -> bool:
        """Tell whether these bytes are stored as this run would store them."""
        if self._options.again or self._options.metadata:
            return False
        return self._records.is_current(document_id)

    def _store(self, *, max_chunks: int) -> None:
        """Store what is embedded; wait while more than `max_chunks` are queued, unless stopped."""
        while True:
            for item in self._line.take_embedded():
                self._writer.put(item)
            self._writer.commit_if_due()
            waiting = self._line.get_waiting()
            self._report_chunks(waiting)
            if not waiting or self._line.chunk_count <= max_chunks or self._stop.is_set():
                return
            if waiting[0].vectors is not None:
                waiting[0].vectors.wait(_POLL_S)

    def _report_chunks(self, waiting: Sequence[PreparedDocument]) -> None:
        now = time.monotonic()
        if now < self._next_report:
            return
        self._next_report = now + _PROGRESS_EVERY_S
        for document in waiting:
            if document.vectors is not None:
                done, count = document.vectors.done_count, len(document.chunks)
                name = document.outcome.name
                self._stage(FileProgress(name, "embedding", done, count))


def build_splitter(settings: IngestSettings, embedder: Embedder) -> Splitter:
    """Build the splitter that the settings name."""
    build = find_part("splitter", settings.splitter)
    splitter: Splitter = build(SplitContext(embedder, ChunkingOptions.from_settings(settings)))
    return splitter


def compute_fingerprint(
    settings: IngestSettings, embedder: Embedder, metadata: Mapping[str, Any]
) -> str:
    """Join everything besides the bytes that decides what is stored for a file."""
    parts = [
        _READER_VERSION,
        embedder.name,
        settings.chunk_tokens,
        settings.overlap_tokens,
        settings.ocr,
    ]
    if settings.chunking == "sentence_window":
        parts += [settings.chunking, settings.window_sentences]
    elif settings.chunking == "parent_child":
        parts += [settings.chunking, settings.parent_tokens]
    if settings.splitter != "sentences":
        parts.append(settings.splitter)
    fingerprint = ":".join(map(str, parts))
    if not metadata:
        return fingerprint
    content = json.dumps(metadata, sort_keys=True, default=str)
    return fingerprint + _METADATA_MARK + hashlib.sha256(content.encode()).hexdigest()[:12]


def _describe_limits(settings: IngestSettings) -> str:
    return _LIMITS_MARK + ",".join(f"{getattr(settings, name):g}" for name in _LIMITS)


def compute_document_id(collection: str, content: str) -> str:
    """Derive the id from the SHA-256 of the bytes: the same bytes are the same document."""
    return hashlib.sha256(f"{collection}\0{content}".encode()).hexdigest()[:24]


def _describe_unread(loaded: LoadedDocument) -> str:
    """Say which pages of a document could not be read; empty if all were."""
    pages = loaded.metadata.get(UNREADABLE_PAGES)
    if not pages:
        return ""
    listed = ", ".join(map(str, pages[:10])) + (" …" if len(pages) > 10 else "")
    return (
        f"Not read, because the file does not say which characters they show: pages {listed}. "
        "Switch OCR on with RAGSTONE_INGEST_OCR=true (pip install 'ragstone[ocr]')."
    )


def _repeat_outcome(file: FoundFile, record: FileRecord) -> IngestedFile:
    """Build the outcome of a file that was not read again."""
    if record.status == "failed":
        return IngestedFile(file.name, "failed", record.document_id, 0, record.error, record.hint)
    return IngestedFile(file.name, "unchanged", record.document_id, record.chunk_count)
