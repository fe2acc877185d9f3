"""The writing side of the engine: documents into collections and out of them, one run at a time.

`Engine` hands its parts over and its calls on; a stranger meets these methods there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ragstone.catalog.collections import CollectionInfo, SqlCollections
from ragstone.catalog.documents import refuse_other_embedder
from ragstone.catalog.originals import Originals
from ragstone.catalog.uploads import INSIDE, SqlIntakeRecords
from ragstone.errors import NotFoundError
from ragstone.ingest.discover import Found, FoundFile, find_files
from ragstone.ingest.formats.detect import shown_name
from ragstone.ingest.run import Ingestor, Progress, RunOptions
from ragstone.ingest.store import bring_up_to_date
from ragstone.protocols import Catalog, Embedder, Index, IntakeRecords, Splitter
from ragstone.query.request import check_collection
from ragstone.settings import IngestSettings
from ragstone.types import DEFAULT_COLLECTION, Document, IngestedFile, IngestReport

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
        splitter: Splitter | None = None,
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._index = index
        self._embedder = embedder
        self._settings = settings
        self.records: IntakeRecords = SqlIntakeRecords(catalog)
        self.collections = SqlCollections(catalog)
        self.originals = Originals(directory)
        self._ingesting = threading.Lock()
        self._splitter = splitter

    def recover(self) -> None:
        """Mark uploads whose process was killed as failed."""
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
            progress=progress, stop=stop, splitter=self._splitter,
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


log = logging.getLogger(__name__)

_SCHEME = "upload:"


@dataclass(frozen=True, slots=True)
class Upload:
    """A received file: where it lies, and the name that its sender gave it."""

    path: Path
    name: str


class UploadDesk:
    """The life of one upload: begun, noted file by file, finished."""

    def __init__(self, records: IntakeRecords, originals: Originals, options: RunOptions) -> None:
        self._records = records
        self._originals = originals
        self._collection = options.collection
        self._id = options.upload_id or ""
        self._noted = 0

    def begin(self, uploads: Sequence[Upload]) -> None:
        names = [file.name for file in self.found(uploads).files]
        self._originals.spool.begin(self._id, names)
        self._records.begin_upload(self._id, self._collection, file_count=len(uploads))

    def found(self, uploads: Sequence[Upload]) -> Found:
        """What the pipeline reads. The name is the source: the same name again is a new version."""
        files: list[FoundFile] = []
        seen: dict[str, int] = {}
        for upload in uploads:
            name = shown_name(upload.name)
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name = f"{name} ({seen[name]})"
            files.append(FoundFile(upload.path, name, _SCHEME + name))
        return Found(tuple(files), ())

    def note(self, outcome: IngestedFile, _done: int, _total: int) -> None:
        self._records.note_upload(self._id, self._noted, outcome)
        self._noted += 1

    def note_unread(self, uploads: Sequence[Upload]) -> None:
        """The run was stopped: what it did not come to is told as such."""
        names = [file.name for file in self.found(uploads).files]
        _note_unread(self._records, self._records.upload(self._id), names)

    def finish(self, uploads: Sequence[Upload], status: str, *, keep: bool) -> None:
        self._records.finish_upload(self._id, status)
        for upload in uploads:
            if keep and upload.path.is_file() and upload.path.stat().st_size:
                self._originals.keep(upload.path)
            else:
                upload.path.unlink(missing_ok=True)
        self._originals.spool.end(self._id)


def fail_interrupted(records: IntakeRecords, originals: Originals) -> None:
    """Uploads whose process was killed end as `failed`, each unread file with the reason."""
    for left in originals.spool.clear():
        with suppress(NotFoundError):  # killed before the upload was noted
            upload = records.upload(left.upload_id)
            if upload["status"] != "running":
                continue
            _note_unread(records, upload, left.names)
            records.finish_upload(left.upload_id, "failed")


def _note_unread(records: IntakeRecords, upload: Mapping[str, Any], names: Sequence[str]) -> None:
    noted = [str(file["name"]) for file in upload["files"]]
    unread = [
        name
        for name in names
        if not any(done == name or done.startswith(f"{name}/") for done in noted)
    ]
    for position, name in enumerate(unread, start=len(noted)):
        records.note_upload(str(upload["id"]), position, _interrupted(name))
    log.warning("an upload was interrupted: %d of its files unread", len(unread))


def _interrupted(name: str) -> IngestedFile:
    return IngestedFile(
        name, "failed", None, 0, "The server was stopped before this file was read.",
        "Send it again; what the upload had stored is there.",
    )  # fmt: skip


def still_there(document: Document) -> Path:
    """The file on the disk that a document was read from, if it is still the same."""
    source = document.source
    path = Path(source)
    if not source.startswith(_SCHEME) and INSIDE not in source and path.is_file():
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == document.sha256:
                return path
    raise NotFoundError(
        f"The file of '{document.name}' is not there as it was when it was read.",
        hint="Its text is: ragstone documents show.",
    )
