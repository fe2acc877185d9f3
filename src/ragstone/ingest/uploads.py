"""Record the progress of uploads, and fail those whose process was stopped.

An upload is recorded twice: in the catalog, and in the spool folder of its process, which tells
after a crash which uploads were interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.catalog.originals import Originals
from ragstone.errors import NotFoundError
from ragstone.ingest.discover import FoundFile, FoundFiles
from ragstone.ingest.formats.read import clean_name, number_name
from ragstone.protocols import IntakeRecords
from ragstone.reports import IngestedFile

log = logging.getLogger(__name__)

UPLOAD_SCHEME = "upload:"


@dataclass(frozen=True, slots=True)
class Upload:
    """Hold a received file: where it is stored, and the name that its sender gave it."""

    path: Path
    name: str


class UploadRecorder:
    """Record one upload: its begin, the outcome of each file, its end."""

    def __init__(
        self,
        records: IntakeRecords,
        originals: Originals,
        uploads: Sequence[Upload],
        *,
        upload_id: str,
    ) -> None:
        self._records = records
        self._originals = originals
        self._uploads = uploads
        self._id = upload_id
        self._recorded = 0
        counts: dict[str, int] = {}
        names = [number_name(clean_name(upload.name), counts) for upload in uploads]
        self._names = names
        # The name is the source: a file of the same name is a new version.
        self.files = FoundFiles(
            tuple(
                FoundFile(upload.path, name, UPLOAD_SCHEME + name)
                for upload, name in zip(uploads, names, strict=True)
            ),
            roots=(),
        )

    def begin(self, collection: str) -> None:
        self._originals.spool.begin_upload(self._id, self._names)
        self._records.begin_upload(self._id, collection, file_count=len(self._uploads))

    def record_outcome(self, outcome: IngestedFile, _done: int, _total: int) -> None:
        self._records.add_upload_file(self._id, self._recorded, outcome)
        self._recorded += 1

    def fail_unread(self) -> None:
        """Record the files that a stopped run did not read as failed."""
        _fail_unread(self._records, self._records.upload(self._id), self._names)

    def finish(self, status: str, *, keep: bool) -> None:
        self._records.finish_upload(self._id, status)
        for upload in self._uploads:
            if keep and upload.path.is_file() and upload.path.stat().st_size:
                self._originals.store(upload.path)
            else:
                upload.path.unlink(missing_ok=True)
        self._originals.spool.end_upload(self._id)


def fail_interrupted(records: IntakeRecords, originals: Originals) -> None:
    """Fail the uploads whose process was killed, and each of their unread files."""
    for interrupted in originals.spool.clear_abandoned():
        with suppress(NotFoundError):  # killed before the upload was recorded
            upload = records.upload(interrupted.upload_id)
            if upload["status"] == "running":
                _fail_unread(records, upload, interrupted.names)
                records.finish_upload(interrupted.upload_id, "failed")


def _fail_unread(records: IntakeRecords, upload: Mapping[str, Any], names: Sequence[str]) -> None:
    done = [str(file["name"]) for file in upload["files"]]
    unread = [
        name
        for name in names
        if not any(other == name or other.startswith(f"{name}/") for other in done)
    ]
    for position, name in enumerate(unread, start=len(done)):
        outcome = IngestedFile(
            name,
            "failed",
            None,
            0,
            "The server was stopped before this file was read.",
            "Send it again; the files that were read are stored.",
        )
        records.add_upload_file(str(upload["id"]), position, outcome)
    log.warning("an upload was interrupted: %d of its files unread", len(unread))
