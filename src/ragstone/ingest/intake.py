"""Add documents to collections and delete them, one run at a time, for the engine."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from ragstone.catalog.collections import CollectionInfo, SqlCollections
from ragstone.catalog.documents import lock_of, refuse_other_embedder
from ragstone.catalog.originals import Originals
from ragstone.catalog.uploads import MEMBER_SEPARATOR, UPLOAD_SCHEME, SqlIntakeRecords
from ragstone.derived import DerivedStore, name_answers
from ragstone.errors import NotFoundError, RagstoneError, StoreBusyError, StoreError
from ragstone.files import check_collection
from ragstone.ingest.discover import FoundFiles, find_files
from ragstone.ingest.metadata import check_metadata
from ragstone.ingest.queue import IntakeQueue
from ragstone.ingest.run import Ingestor, Progress, RunOptions, Stage
from ragstone.ingest.store import Record, refresh_index
from ragstone.ingest.uploads import Upload, accept_upload, fail_upload, find_upload_files
from ragstone.protocols import (
    AcceptedUpload,
    Catalog,
    Embedder,
    Index,
    IntakeRecords,
    NewDocument,
    Splitter,
)
from ragstone.reports import IngestReport
from ragstone.settings import IngestSettings
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, Document, Query

log = logging.getLogger(__name__)

# Two runs over folders of one collection do not run at once; uploads go on beside them.
_FOLDERS = frozenset({"\0folders"})
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


class IngestOptions(UploadOptions, total=False):
    """Describe files and folders that are read."""

    prune: bool
    """Remove documents whose files are no longer in the folders."""
    progress: Progress | None
    """Called after each document with its outcome, the files done and the files in all."""


class Intake:
    """Ingest and delete documents, with their original files and records."""

    def __init__(
        self,
        catalog: Catalog,
        index: Index,
        embedder: Embedder,
        settings: IngestSettings,
        originals: Originals,
        splitter: Splitter | None = None,
        derived: DerivedStore | None = None,
    ) -> None:
        self._catalog = catalog
        self._derived = derived
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self._splitter = splitter
        self._queue = IntakeQueue()
        self._stops: set[threading.Event] = set()
        self._stages: dict[str, dict[str, str]] = {}
        self.records: IntakeRecords = SqlIntakeRecords(catalog)
        self.collections = SqlCollections(catalog)
        self.originals = originals

    def resume_uploads(self) -> None:
        """Read the uploads whose process has ended before it had read them, and delete what it
        may have left of deleted documents."""
        self._take_over_uploads()
        if self._derived is not None:
            self._derived.delete_missing(self._catalog)

    def _take_over_uploads(self) -> None:
        for reader in self.originals.spool.clear_abandoned():
            name = self.originals.spool.name
            for upload in self.records.take_over_uploads(reader, name):
                log.warning("an upload was interrupted and is read: %d files", len(upload.files))
                self._enqueue(upload, password=None).add_done_callback(_log_failure)
        self._delete_unused_files()

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
        stop = threading.Event()
        self._refuse_other_embedder(run_options.collection)
        ingestor = self._build_ingestor(run_options, stop, progress=options.get("progress"))
        future = self._queue.submit(
            lambda: self._run(ingestor, found, stop),
            collection=run_options.collection,
            names=_FOLDERS,
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
        work = await self.accept_uploads(uploads, **options)
        return await asyncio.shield(asyncio.wrap_future(work))

    async def accept_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> Future[IngestReport]:
        """Store received files so that no kill loses them; the result comes when they are read."""
        upload_id = options.get("upload_id") or uuid.uuid4().hex
        run_options = _build_run_options({**options, "upload_id": upload_id})
        self._refuse_other_embedder(run_options.collection)
        upload = await run_in_thread(
            "intake",
            accept_upload,
            self.records,
            self.originals,
            uploads,
            upload_id=upload_id,
            collection=run_options.collection,
            # Without the password: it is not written to the disk.
            options={"metadata": dict(run_options.metadata), "again": run_options.again},
        )
        return self._enqueue(upload, password=run_options.password)

    def get_upload(self, upload_id: str) -> dict[str, Any]:
        """Return the progress of an upload; go on with it if its process was killed."""
        upload = self.records.upload(upload_id)
        if upload["status"] == "running":
            self._take_over_uploads()
        # Known to the process that reads it; another one shows no stages.
        return {**upload, "stages": dict(self._stages.get(upload_id, {}))}

    def find_original(self, document: Document) -> Path:
        """Return the file that a document was read from, if it exists and is unchanged."""
        stored = self.originals.files.find(document.sha256) if document.sha256 else None
        if stored is not None:
            return stored
        source, path = document.source, Path(document.source)
        is_on_disk = not source.startswith(UPLOAD_SCHEME) and MEMBER_SEPARATOR not in source
        if is_on_disk and path.is_file():
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == document.sha256:
                    return path
        raise NotFoundError(
            f"The file of '{document.name}' was moved, changed or deleted after it was read.",
            hint="Show its text with: ragstone documents show.",
        )

    def delete_document(self, document_id: str) -> None:
        """Delete its text, vectors, terms, and the original file."""
        document = self._catalog.document(document_id)
        with self._catalog.write_transaction(lock_of(document.collection)):
            self.records.delete_document_records(document_id)
            self._catalog.delete(document_id)
        self._delete_derived({document_id}, {document.collection})
        self._delete_unused_files()
        refresh_index(self._index, document.collection)
        self._catalog.erase_deleted()

    def change_tags(self, document_id: str, tags: Sequence[str]) -> None:
        """Give a document other tags; its chunks and vectors stay as they are."""
        document = self._catalog.document(document_id)
        self._queue.submit(
            lambda: self._change_tags(document_id, tags), collection=document.collection
        ).result()

    def _change_tags(self, document_id: str, tags: Sequence[str]) -> None:
        document = self._catalog.document(document_id)
        metadata = {**document.metadata, "tags": list(dict.fromkeys(tags))}
        check_metadata(metadata)
        query = Query("", "", collection=document.collection, document_ids=(document_id,))
        scope = self._catalog.resolve_scope(query)
        keys = [key for part in (scope.ranges if scope else ()) for key in part]
        chunks = tuple(self._catalog.chunks(keys).values())
        known = self.records.vectors_by_text(document_id)
        vectors = np.array([known[one.contextual_text] for one in chunks], np.float32)
        lines = tuple(self.records.lines(document_id))
        # Stored anew: an index may keep the metadata beside its vectors.
        changed = NewDocument(replace(document, metadata=metadata), chunks, vectors, lines)
        self._catalog.add([changed], embedder=self._embedder.name)
        refresh_index(self._index, document.collection)

    def create_collection(self, name: str) -> CollectionInfo:
        self.collections.create(check_collection(name), embedder=self._embedder.name)
        return self.collections.get(name)

    def delete_collection(self, name: str) -> None:
        """Delete its documents, index, originals, and history."""
        check_collection(name)
        self._queue.submit(lambda: self._delete_collection(name), collection=name).result()

    def _delete_collection(self, name: str) -> None:
        self._delete_derived(self.collections.delete(name), {name})
        self._delete_unused_files()
        # Rebuilt and not refreshed: a refreshed index keeps the terms of deleted documents.
        self._index.rebuild(name)
        self._catalog.erase_deleted()

    def close(self) -> None:
        """Stop reading; the next process takes over what is not read."""
        stops = set(self._stops)
        for stop in stops:
            stop.set()
        none_dropped = self._queue.close()
        self.originals.spool.close(is_finished=none_dropped and not stops)
        self.originals.files.close()

    def _enqueue(self, upload: AcceptedUpload, *, password: str | None) -> Future[IngestReport]:
        return self._queue.submit(
            lambda: self._read_upload(upload, password),
            collection=upload.collection,
            names=frozenset(file.name for file in upload.files) or _FOLDERS,
            size=sum(file.size for file in upload.files),
        )

    def _read_upload(self, upload: AcceptedUpload, password: str | None) -> IngestReport:
        stop = threading.Event()
        options = RunOptions(
            upload.collection,
            upload.id,
            upload.options.get("metadata") or {},
            password,
            again=bool(upload.options.get("again")),
        )
        stages = self._stages.setdefault(upload.id, {})
        ingestor = self._build_ingestor(
            options,
            stop,
            record=partial(self.records.record_outcomes, upload.id),
            stage=stages.__setitem__,
        )
        try:
            report = self._run(ingestor, find_upload_files(self.originals, upload), stop)
        except Exception as error:  # of any kind: the sender must learn that it was not read
            message = error.message if isinstance(error, RagstoneError) else str(error)
            hint = "Send it again; the files that were read are stored."
            fail_upload(self.records, upload, error=message or type(error).__name__, hint=hint)
            raise
        finally:
            self._stages.pop(upload.id, None)
        if stop.is_set():
            raise StoreBusyError(
                "The server is stopping; it reads the rest of this upload after its next start.",
                hint=f"Ask for the result then: GET /v1/uploads/{upload.id}",
            )
        self.records.finish_upload(upload.id, "finished")
        self._delete_unused_files()
        return report

    def _refuse_other_embedder(self, collection: str) -> None:
        refuse_other_embedder(self._catalog, collection, self._embedder.name)

    def _build_ingestor(
        self,
        options: RunOptions,
        stop: threading.Event,
        *,
        progress: Progress | None = None,
        record: Record | None = None,
        stage: Stage | None = None,
    ) -> Ingestor:
        return Ingestor(
            self._catalog,
            self.records,
            self._index,
            self._embedder,
            self._settings,
            options,
            progress=progress,
            record=record,
            stage=stage,
            stop=stop,
            splitter=self._splitter,
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


def _log_failure(work: Future[IngestReport]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        log.error("an interrupted upload could not be read: %s", error)


def _build_run_options(options: UploadOptions, *, prune: bool = False) -> RunOptions:
    return RunOptions(
        check_collection(options.get("collection", DEFAULT_COLLECTION)),
        options.get("upload_id"),
        options.get("metadata") or {},
        options.get("password"),
        prune,
        options.get("again", False),
    )
