"""The writing side of the engine: documents into collections and out of them, one run at a time.

`Engine` hands its parts over and its calls on; a stranger meets these methods there.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ragstone.ingest.find import Found, find_files
from ragstone.ingest.pipeline import Ingestor, Progress, RunOptions
from ragstone.ingest.uploads import Upload, UploadDesk, fail_interrupted, still_there
from ragstone.ingest.write import bring_up_to_date
from ragstone.query.options import check_collection
from ragstone.settings import IngestSettings
from ragstone.stages import Catalog, Embedder, Index, IntakeRecords
from ragstone.stores.catalog import refuse_other_embedder
from ragstone.stores.collections import CollectionInfo, SqlCollections
from ragstone.stores.originals import Originals
from ragstone.stores.records import SqlIntakeRecords
from ragstone.types import DEFAULT_COLLECTION, Document, IngestReport

if TYPE_CHECKING:
    from os import PathLike


class UploadOptions(TypedDict, total=False):
    """Say more about documents that were received."""

    collection: str
    """Where to put them; a collection that does not exist is made."""
    upload_id: str | None
    """The id by which they can be searched alone."""
    metadata: Mapping[str, Any] | None
    """What a filter can ask of them: `{"year": 2026, "tags": ["finance"]}`."""
    password: str | None
    """Opens encrypted files among them."""
    again: bool
    """Read even what has not changed."""


class IngestOptions(UploadOptions, total=False):
    """Say more about files and folders that are read."""

    prune: bool
    """Remove what the folders no longer hold."""
    progress: Progress | None
    """Called after each document with its outcome, the files done and the files in all."""


class Intake:
    """Reads documents, removes them, and keeps what lies beside them: originals and records."""

    def __init__(
        self, catalog: Catalog, index: Index, embedder: Embedder, settings: IngestSettings,
        directory: Path,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self.records: IntakeRecords = SqlIntakeRecords(catalog)
        self.collections = SqlCollections(catalog)
        self.originals = Originals(directory)
        self._ingesting = threading.Lock()
        fail_interrupted(self.records, self.originals)

    async def ingest(
        self, paths: Sequence[str | PathLike[str]], **options: Unpack[IngestOptions]
    ) -> IngestReport:
        """Files, folders and globs; what is unchanged is left alone."""
        prune = options.get("prune", False)
        found = find_files([Path(path) for path in paths], may_be_empty=prune)
        run = _run_options(options, upload_id=options.get("upload_id"), prune=prune)
        return await self._ingest(found, run, options.get("progress"))

    async def ingest_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> IngestReport:
        """Files that were received; a name that is known already is a new version of it."""
        run = _run_options(options, upload_id=options.get("upload_id") or uuid.uuid4().hex)
        desk = UploadDesk(self.records, self.originals, run)
        desk.begin(uploads)
        status = "failed"
        try:
            report = await self._ingest(desk.found(uploads), run, desk.note)
            status = "finished"
            return report
        except asyncio.CancelledError:
            desk.note_unread(uploads)
            raise
        finally:
            desk.finish(uploads, status, keep=self._settings.keep_originals)

    def upload(self, upload_id: str) -> dict[str, Any]:
        """One whose process was killed runs no more, and is not said to."""
        found = self.records.upload(upload_id)
        if found["status"] == "running":
            fail_interrupted(self.records, self.originals)
            found = self.records.upload(upload_id)
        return found

    def original(self, document: Document) -> Path:
        kept = self.originals.find(document.sha256) if document.sha256 else None
        return kept or still_there(document)

    def delete(self, document_id: str) -> None:
        """Text, vectors, terms, and the file as it came."""
        document = self._catalog.document(document_id)
        last_of_its_bytes = self.records.forget_document(document_id)
        self._catalog.delete(document_id)
        if last_of_its_bytes and document.sha256:
            self.originals.remove(document.sha256)
        bring_up_to_date(self._index, document.collection)
        self._catalog.scrub()

    def create_collection(self, name: str) -> CollectionInfo:
        self.collections.create(check_collection(name), embedder=self._embedder.name)
        return self.collections.get(name)

    def delete_collection(self, name: str) -> None:
        """Documents, index, originals, and what was asked of it."""
        check_collection(name)
        with self._ingesting:
            for sha256 in self.collections.delete(name):
                self.originals.remove(sha256)
            # Built anew, because an index that only follows keeps the terms of what was removed.
            self._index.rebuild(name)
        self._catalog.scrub()

    def close(self) -> None:
        self.originals.spool.close()

    async def _ingest(
        self, found: Found, options: RunOptions, progress: Progress | None
    ) -> IngestReport:
        refuse_other_embedder(self._catalog, options.collection, self._embedder.name)
        stop = threading.Event()
        ingestor = Ingestor(
            self._catalog, self.records, self._index, self._embedder, self._settings, options,
            progress=progress, stop=stop,
        )  # fmt: skip
        work = asyncio.create_task(asyncio.to_thread(self._one_at_a_time, ingestor, found))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()  # the thread stores what is ready and ends
            await asyncio.wait({work})
            raise

    def _one_at_a_time(self, ingestor: Ingestor, found: Found) -> IngestReport:
        with self._ingesting:
            report = ingestor.run(found)
            days = self._settings.old_version_days
            for sha256 in self.records.expire(before=time.time() - days * 86_400):
                self.originals.remove(sha256)
            return report


def _run_options(
    options: UploadOptions, *, upload_id: str | None, prune: bool = False
) -> RunOptions:
    return RunOptions(
        check_collection(options.get("collection", DEFAULT_COLLECTION)),
        upload_id,
        options.get("metadata") or {},
        options.get("password"),
        prune,
        options.get("again", False),
    )
