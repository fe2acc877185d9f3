"""Files that were sent: received into a spool, read like any other, remembered as one upload."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstone.errors import NotFoundError
from ragstone.ingest.find import Found, FoundFile
from ragstone.ingest.load.read import shown_name
from ragstone.stages import IntakeRecords
from ragstone.stores.records import INSIDE
from ragstone.types import Document, IngestedFile

if TYPE_CHECKING:
    from ragstone.ingest.pipeline import RunOptions
    from ragstone.stores.originals import Originals

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
