"""Add documents to collections and delete them, one run at a time, for the engine."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ragstone.catalog.collections import CollectionInfo, SqlCollections
from ragstone.catalog.documents import refuse_other_embedder
from ragstone.catalog.originals import Originals
from ragstone.catalog.uploads import MEMBER_SEPARATOR, SqlIntakeRecords
from ragstone.errors import NotFoundError
from ragstone.files import check_collection
from ragstone.ingest.discover import FoundFiles, find_files
from ragstone.ingest.run import Ingestor, Progress, RunOptions
from ragstone.ingest.store import refresh_index
from ragstone.ingest.uploads import UPLOAD_SCHEME, Upload, UploadRecorder, fail_interrupted
from ragstone.protocols import Catalog, Embedder, Index, IntakeRecords, Splitter
from ragstone.reports import IngestReport
from ragstone.settings import IngestSettings
from ragstone.types import DEFAULT_COLLECTION, Document


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
        directory: Path,
        splitter: Splitter | None = None,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self._splitter = splitter
        self._lock = threading.Lock()
        self.records: IntakeRecords = SqlIntakeRecords(catalog)
        self.collections = SqlCollections(catalog)
        self.originals = Originals(directory)

    def fail_interrupted_uploads(self) -> None:
        """Mark uploads whose process was killed as failed."""
        fail_interrupted(self.records, self.originals)

    async def ingest(
        self,
        paths: str | PathLike[str] | Sequence[str | PathLike[str]],
        **options: Unpack[IngestOptions],
    ) -> IngestReport:
        """Read files, folders and globs; leave unchanged files alone."""
        if isinstance(paths, str | PathLike):
            paths = [paths]
        run_options = _build_run_options(options, prune=options.get("prune", False))
        found = find_files([Path(path) for path in paths], may_be_empty=run_options.prune)
        return await self._run(found, run_options, options.get("progress"))

    async def ingest_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> IngestReport:
        """Read files that were received; a known name gets a new version."""
        upload_id = options.get("upload_id") or uuid.uuid4().hex
        run_options = _build_run_options({**options, "upload_id": upload_id})
        recorder = UploadRecorder(self.records, self.originals, uploads, upload_id=upload_id)
        recorder.begin(run_options.collection)
        status = "failed"
        try:
            report = await self._run(recorder.files, run_options, recorder.record_outcome)
            status = "finished"
            return report
        except asyncio.CancelledError:
            recorder.fail_unread()
            raise
        finally:
            recorder.finish(status, keep=self._settings.keep_originals)

    def get_upload(self, upload_id: str) -> dict[str, Any]:
        """Return the progress of an upload; fail it if its process was killed."""
        upload = self.records.upload(upload_id)
        if upload["status"] == "running":
            self.fail_interrupted_uploads()
            upload = self.records.upload(upload_id)
        return upload

    def find_original(self, document: Document) -> Path:
        """Return the file that a document was read from, if it exists and is unchanged."""
        stored = self.originals.find(document.sha256) if document.sha256 else None
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
        is_last_copy = self.records.delete_document_records(document_id)
        self._catalog.delete(document_id)
        if is_last_copy and document.sha256:
            self.originals.remove(document.sha256)
        refresh_index(self._index, document.collection)
        self._catalog.erase_deleted()

    def create_collection(self, name: str) -> CollectionInfo:
        self.collections.create(check_collection(name), embedder=self._embedder.name)
        return self.collections.get(name)

    def delete_collection(self, name: str) -> None:
        """Delete its documents, index, originals, and history."""
        check_collection(name)
        with self._lock:
            for sha256 in self.collections.delete(name):
                self.originals.remove(sha256)
            # Rebuilt and not refreshed: a refreshed index keeps the terms of deleted documents.
            self._index.rebuild(name)
        self._catalog.erase_deleted()

    def close(self) -> None:
        self.originals.spool.close()

    async def _run(
        self, found: FoundFiles, options: RunOptions, progress: Progress | None
    ) -> IngestReport:
        refuse_other_embedder(self._catalog, options.collection, self._embedder.name)
        stop = threading.Event()
        ingestor = Ingestor(
            self._catalog,
            self.records,
            self._index,
            self._embedder,
            self._settings,
            options,
            progress=progress,
            stop=stop,
            splitter=self._splitter,
        )
        work = asyncio.create_task(asyncio.to_thread(self._run_locked, ingestor, found))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()  # the thread stores what is ready and ends
            await asyncio.wait({work})
            raise

    def _run_locked(self, ingestor: Ingestor, found: FoundFiles) -> IngestReport:
        with self._lock:
            report = ingestor.run(found)
            oldest = time.time() - self._settings.old_version_days * 86_400
            for sha256 in self.records.delete_expired_versions(before=oldest):
                self.originals.remove(sha256)
            return report


def _build_run_options(options: UploadOptions, *, prune: bool = False) -> RunOptions:
    return RunOptions(
        check_collection(options.get("collection", DEFAULT_COLLECTION)),
        options.get("upload_id"),
        options.get("metadata") or {},
        options.get("password"),
        prune,
        options.get("again", False),
    )
