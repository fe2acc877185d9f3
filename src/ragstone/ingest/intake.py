"""Add documents to collections and delete them, one run at a time, for the engine."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from ragstone.catalog.collections import CollectionInfo, SqlCollections
from ragstone.catalog.documents import lock_of, refuse_other_embedder
from ragstone.catalog.jobs import UploadJobs
from ragstone.catalog.originals import UPLOAD_SCHEME, Originals
from ragstone.catalog.uploads import MEMBER_SEPARATOR, SqlIntakeRecords, split_source
from ragstone.derived import DerivedStore, name_answers
from ragstone.errors import NotFoundError, RagstoneError, StoreBusyError, StoreError
from ragstone.files import check_collection, hash_file
from ragstone.ingest.discover import FoundFiles, find_files, name_source
from ragstone.ingest.jobs import JobRunner, NoWorkerError, Upload, accept_upload, find_upload_files
from ragstone.ingest.metadata import check_metadata
from ragstone.ingest.run import Ingestor, Progress, RunOptions, Stage
from ragstone.ingest.store import FindParts, Record, refresh_index
from ragstone.protocols import (
    AcceptedUpload,
    Catalog,
    Embedder,
    Index,
    NewDocument,
    Splitter,
)
from ragstone.reports import IngestReport
from ragstone.settings import IngestSettings
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, Document, Query

log = logging.getLogger(__name__)

# Between two looks of a worker for jobs.
_WORKER_POLL_S = 1.0
# Longer than any removal; a backup takes longer.
_FILES_LOCK_S = 5.0


class UploadOptions(TypedDict, total=False):
    """Describe documents that were received."""

    collection: str
    """Where to put them; a collection that does not exist is created."""
    upload_id: str | None
    """The id by which they can be searched alone."""
    metadata: Mapping[str, Any] | None
    """Fields that a filter can use: `{"year": 2026, "tags": ["finance"]}`."""
    password: str | None
    """Opens encrypted files among them."""
    again: bool
    """Read unchanged files too."""
    retry: bool
    """Try again later when a service is away, for a sender who does not wait."""


class IngestOptions(UploadOptions, total=False):
    """Describe files and folders that are read."""

    prune: bool
    """Remove documents whose files are no longer in the folders."""
    source: str | None
    """The name of the machine or share that the paths are on; by default `ingest.source`."""
    progress: Progress | None
    """Called after each document with its outcome, the files done and the files in all."""
    stage: Stage | None
    """Called when a file enters a stage, and while its chunks are embedded."""


class Intake:
    """Ingest and delete documents, with their original files and records."""

    no_worker_s = 30.0
    """How long a sender waits for a worker to begin with an upload."""

    def __init__(
        self,
        catalog: Catalog,
        index: Index,
        embedder: Embedder,
        settings: IngestSettings,
        originals: Originals,
        splitter: Splitter | None = None,
        derived: DerivedStore | None = None,
        find_parts: FindParts | None = None,
        find_other_index: Callable[[str], Index | None] = lambda collection: None,
    ) -> None:
        self._catalog = catalog
        self._find_other_index = find_other_index
        self._find_parts: FindParts = find_parts or (lambda collection: (embedder, index))
        self._derived = derived
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self._splitter = splitter
        self._stops: set[threading.Event] = set()
        self._passwords: dict[str, str] = {}  # they are not written to the disk
        self.records = SqlIntakeRecords(catalog)
        self.collections = SqlCollections(catalog)
        self.originals = originals
        self.jobs = UploadJobs(catalog, lambda: originals.spool.name, settings.lease_s)
        self._runner = JobRunner(self.jobs, self.records.upload, self._read_upload)

    def resume_uploads(self) -> None:
        """Begin to read uploads, also those whose process has ended before it had read them, and
        delete what it may have left of deleted documents."""
        self._release_abandoned()
        self._delete_unused_files()
        if self._reads_here:
            self._runner.start(takes="all")
        if self._derived is not None:
            self._derived.delete_missing(self._catalog)

    def run_worker(self, stop: threading.Event) -> None:
        """Read uploads of all servers until `stop` is set."""
        self._release_abandoned()
        self._delete_unused_files()
        self._runner.start(takes="all", poll_s=_WORKER_POLL_S)
        stop.wait()

    @property
    def _reads_here(self) -> bool:
        return self._settings.uploads == "here"

    def _release_abandoned(self) -> int:
        """Let the uploads be read of processes of this machine that have ended."""
        count = sum(map(self.jobs.release, self.originals.spool.clear_abandoned()))
        if count:
            log.warning("uploads were interrupted and are read: %d", count)
        return count

    async def ingest(
        self,
        paths: str | PathLike[str] | Sequence[str | PathLike[str]],
        **options: Unpack[IngestOptions],
    ) -> IngestReport:
        """Read files, folders and globs; leave unchanged files alone."""
        if isinstance(paths, str | PathLike):
            paths = [paths]
        places = [Path(path) for path in paths]
        prune = options.get("prune", False)
        found = await run_in_thread("intake", find_files, places, may_be_empty=prune)
        return await self.ingest_found(found, **options)

    async def ingest_found(
        self, found: FoundFiles, **options: Unpack[IngestOptions]
    ) -> IngestReport:
        """Read files that were listed already; leave unchanged files alone."""
        run_options = _build_run_options(options, prune=options.get("prune", False))
        source = options.get("source")
        found = name_source(found, self._settings.source if source is None else source)
        stop = threading.Event()
        self._refuse_other_embedder(run_options.collection)
        ingestor = self._build_ingestor(
            run_options, stop, progress=options.get("progress"), stage=options.get("stage")
        )
        future = self._runner.submit(
            lambda: self._run(ingestor, found, stop),
            collection=run_options.collection,
            size=sum(file.size for file in found.files),
        )
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if not future.cancel():
                stop.set()  # the thread stores what is ready and ends
                await asyncio.wait({asyncio.wrap_future(future)})
            raise

    async def ingest_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> IngestReport:
        """Read files that were received; a known name gets a new version.

        What was received is read, also when the caller is cancelled; `close` leaves it to the next
        process.
        """
        options["upload_id"] = upload_id = options.get("upload_id") or uuid.uuid4().hex
        work = await self.accept_uploads(uploads, **options)
        return await self.wait_for_upload(upload_id, asyncio.wrap_future(work))

    async def wait_for_upload(
        self, upload_id: str, work: asyncio.Future[IngestReport]
    ) -> IngestReport:
        """Wait until an upload is read; raise a NoWorkerError if no worker takes it."""
        reads_here = self._reads_here or upload_id in self._passwords
        while not reads_here:
            await asyncio.wait({work}, timeout=self.no_worker_s)
            if work.done() or await run_in_thread("intake", self.jobs.leave_untaken, upload_id):
                break
        if not reads_here and not work.done():
            raise NoWorkerError(
                f"No worker took the upload within {self.no_worker_s:g} s; it stays queued.",
                hint=f"Start one: ragstone worker. Ask for the result: GET /v1/uploads/{upload_id}",
            )
        return await asyncio.shield(work)

    async def accept_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> Future[IngestReport]:
        """Store received files so that no kill loses them; the result comes when they are read."""
        upload_id = options.get("upload_id") or uuid.uuid4().hex
        run_options = _build_run_options({**options, "upload_id": upload_id})
        self._refuse_other_embedder(run_options.collection)
        reads_here = self._reads_here or run_options.password is not None
        if run_options.password is not None:  # nobody else knows it
            self._passwords[upload_id] = run_options.password
        with self._runner.follow(upload_id) as future:
            await run_in_thread(
                "intake",
                accept_upload,
                self.jobs,
                self.originals,
                uploads,
                upload_id=upload_id,
                collection=run_options.collection,
                options={
                    "metadata": dict(run_options.metadata),
                    "again": run_options.again,
                    # A password is not stored, so nobody could try again.
                    "retry": options.get("retry", False) and run_options.password is None,
                },
                keep=reads_here,
            )
        self._runner.start(takes="all" if self._reads_here else "own" if reads_here else "none")
        return future

    def get_upload(self, upload_id: str) -> dict[str, Any]:
        """Return the progress of an upload; go on with it if its process was killed."""
        upload = self.records.upload(upload_id)
        if upload["status"] == "running" and self._reads_here:
            is_free = self._release_abandoned() > 0 or not upload["reader"]
            if is_free:
                self._runner.start(takes="all")
        # The process that reads it knows more than the catalog.
        stages = self._runner.stages.get(upload_id) or upload["stages"] or {}
        return {**upload, "stages": dict(stages)}

    def find_original(self, document: Document) -> Path:
        """Return the file that a document was read from, if it exists and is unchanged."""
        stored = self.originals.files.find(document.sha256) if document.sha256 else None
        if stored is not None:
            return stored
        source, path = document.source, Path(split_source(document.source)[1])
        is_on_disk = not source.startswith(UPLOAD_SCHEME) and MEMBER_SEPARATOR not in source
        if is_on_disk and path.is_file() and hash_file(path) == document.sha256:
            return path
        raise NotFoundError(
            f"The file of '{document.name}' was moved, changed or deleted after it was read.",
            hint="Show its text with: ragstone documents show.",
        )

    def delete_document(self, document_id: str) -> None:
        """Delete its text, vectors, terms, and the original file."""
        document = self._catalog.document(document_id)
        with self._catalog.write_transaction(lock_of(document.collection)):
            keys = self._find_keys(self._catalog.document(document_id))
            self.records.delete_document_records(document_id)
            self._catalog.delete(document_id)
        self._delete_derived({document_id}, {document.collection})
        self._delete_unused_files()
        self._catalog.erase_deleted()  # before the indexes, whose files may be damaged
        refresh_index(self._find_parts(document.collection)[1], document.collection)
        self._delete_elsewhere(document.collection, keys)

    def _find_keys(self, document: Document) -> tuple[range, ...]:
        query = Query("", "", collection=document.collection, document_ids=(document.id,))
        scope = self._catalog.resolve_scope(query)
        return scope.ranges if scope else ()

    def _delete_elsewhere(self, collection: str, keys: Sequence[range]) -> None:
        """Delete chunks from the index of another generation, which may follow much later."""
        try:
            index = self._find_other_index(collection)
            if keys and (remove := getattr(index, "remove_chunks", None)) is not None:
                remove(collection, keys)
        except RagstoneError as error:
            log.warning(
                "a deleted document is still in the index of %r that is not searched, until "
                "`ragstone reembed` fills or drops it: %s",
                collection,
                error,
            )

    def change_tags(self, document_id: str, tags: Sequence[str]) -> None:
        """Give a document other tags; its chunks and vectors stay as they are."""
        collection = self._catalog.document(document_id).collection
        with self._catalog.write_transaction(lock_of(collection)):
            self._store_tags(self._catalog.document(document_id), tags)
        refresh_index(self._find_parts(collection)[1], collection)

    def _store_tags(self, document: Document, tags: Sequence[str]) -> None:
        document_id = document.id
        metadata = {**document.metadata, "tags": list(dict.fromkeys(tags))}
        check_metadata(metadata)
        keys = [key for part in self._find_keys(document) for key in part]
        chunks = tuple(self._catalog.chunks(keys).values())
        embedder, _ = self._find_parts(document.collection)
        known = self.records.vectors_by_text(document_id, embedder.name)
        vectors = np.array([known[one.contextual_text] for one in chunks], np.float32)
        lines = tuple(self.records.lines(document_id))
        # Stored anew: an index may keep the metadata beside its vectors.
        changed = NewDocument(replace(document, metadata=metadata), chunks, vectors, lines)
        self._catalog.add([changed], embedder=embedder.name)

    def create_collection(self, name: str) -> CollectionInfo:
        self.collections.create(check_collection(name), embedder=self._embedder.name)
        return self.collections.get(name)

    def delete_collection(self, name: str) -> None:
        """Delete its documents, index, originals, and history."""
        check_collection(name)
        self._delete_derived(self.collections.delete(name), {name})
        self._delete_unused_files()
        # Rebuilt and not refreshed: a refreshed index keeps the terms of deleted documents.
        self._index.rebuild(name)
        self._catalog.erase_deleted()

    def close(self) -> None:
        """Stop reading; the next process takes over what is not read."""
        for stop in set(self._stops):
            stop.set()
        self.originals.spool.close(is_finished=self._runner.close())
        self.originals.files.close()

    def _read_upload(self, upload: AcceptedUpload, stop: threading.Event) -> IngestReport:
        options = RunOptions(
            upload.collection,
            upload.id,
            upload.options.get("metadata") or {},
            self._passwords.get(upload.id),
            again=bool(upload.options.get("again")),
        )
        self._refuse_other_embedder(upload.collection)
        ingestor = self._build_ingestor(
            options,
            stop,
            record=partial(self.jobs.record_outcomes, upload.id),
            stage=partial(self._runner.note_progress, upload.id),
        )
        report = self._run(ingestor, find_upload_files(self.originals, upload), stop)
        if not stop.is_set():
            self._passwords.pop(upload.id, None)
        return report

    def _refuse_other_embedder(self, collection: str) -> None:
        refuse_other_embedder(self._catalog, collection, self._find_parts(collection)[0].name)

    def _build_ingestor(
        self,
        options: RunOptions,
        stop: threading.Event,
        *,
        progress: Progress | None = None,
        record: Record | None = None,
        stage: Stage | None = None,
    ) -> Ingestor:
        embedder, index = self._find_parts(options.collection)
        return Ingestor(
            self._catalog,
            self.records,
            index,
            embedder,
            self._settings,
            options,
            progress=progress,
            record=record,
            stage=stage,
            stop=stop,
            splitter=self._splitter,
            find_parts=self._find_parts,
        )

    def _run(self, ingestor: Ingestor, found: FoundFiles, stop: threading.Event) -> IngestReport:
        self._stops.add(stop)
        try:
            report = ingestor.run(found)
        finally:
            self._stops.discard(stop)
        self._delete_expired_versions()
        self._delete_unused_files()
        return report

    def _delete_expired_versions(self) -> None:
        oldest = time.time() - self._settings.old_version_days * 86_400
        try:
            self.jobs.delete_expired(before=oldest)
            expired = self.records.delete_expired_versions(before=oldest)
        except StoreBusyError as error:  # what was read is stored
            log.warning("expired versions are deleted after the next run: %s", error)
            return
        if expired:
            self._delete_derived(expired, set(expired.values()))

    def _delete_derived(self, document_ids: Iterable[str], collections: Iterable[str]) -> None:
        """Delete what was computed from documents, and the answers from their collections."""
        if self._derived is not None:
            self._derived.delete_owners([*document_ids, *map(name_answers, collections)])

    def _delete_unused_files(self) -> None:
        """Delete the files that nothing needs; while a backup copies them, leave it for later."""
        self.originals.files.delete_old_copies()
        try:
            with self.originals.keep_all(timeout_s=_FILES_LOCK_S):
                self.records.delete_unused_files(
                    self.originals.files.remove, keep_read=self._settings.keep_originals
                )
        except StoreBusyError:
            log.info("files that nothing needs are deleted later: a backup is being written")
        except StoreError as error:  # what was read is stored
            log.warning("files that nothing needs are deleted later: %s", error)


def _build_run_options(options: UploadOptions, *, prune: bool = False) -> RunOptions:
    return RunOptions(
        check_collection(options.get("collection", DEFAULT_COLLECTION)),
        options.get("upload_id"),
        options.get("metadata") or {},
        options.get("password"),
        prune,
        options.get("again", False),
    )
