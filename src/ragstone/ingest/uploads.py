"""Accept uploads so that a kill loses none: files and a row of the catalog first, then the reading.

Received files are stored and an upload is in the catalog before its sender is told so. A process
that ends leaves its uploads to the next one, by the name of its locked spool folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.catalog.originals import Originals
from ragstone.catalog.uploads import UPLOAD_SCHEME
from ragstone.ingest.discover import FoundFile, FoundFiles
from ragstone.ingest.formats.read import clean_name, number_name
from ragstone.protocols import AcceptedUpload, IntakeRecords
from ragstone.reports import IngestedFile


@dataclass(frozen=True, slots=True)
class Upload:
    """Hold a received file: where it is stored, and the name that its sender gave it."""

    path: Path
    name: str


def accept_upload(
    records: IntakeRecords,
    originals: Originals,
    uploads: Sequence[Upload],
    *,
    upload_id: str,
    collection: str,
    options: Mapping[str, Any],
) -> AcceptedUpload:
    """Store received files and record their upload; after this it survives a kill."""
    counts: dict[str, int] = {}
    received = [
        originals.receive(number_name(clean_name(upload.name), counts), upload.path)
        for upload in uploads
    ]
    accepted = AcceptedUpload(
        upload_id, collection, originals.spool.name, tuple(received), dict(options)
    )
    places = {file.sha256: upload.path for file, upload in zip(received, uploads, strict=True)}
    records.accept_upload(accepted, lambda: originals.files.put(places))
    return accepted


def find_upload_files(originals: Originals, upload: AcceptedUpload) -> FoundFiles:
    """Return the files to read. The name is the source: the same name is a new version."""
    return FoundFiles(
        tuple(
            # A file that is gone is reported by the parser.
            FoundFile(
                originals.files.find(file.sha256) or originals.new_path(),
                file.name,
                UPLOAD_SCHEME + file.name,
            )
            for file in upload.files
        ),
        roots=(),
    )


def fail_upload(records: IntakeRecords, upload: AcceptedUpload, *, error: str, hint: str) -> None:
    """Record the files that were not read as failed; the upload has ended."""
    done = [str(file["name"]) for file in records.upload(upload.id)["files"]]
    unread = [
        IngestedFile(file.name, "failed", None, 0, error, hint)
        for file in upload.files
        if not any(other == file.name or other.startswith(f"{file.name}/") for other in done)
    ]
    records.record_outcomes(upload.id, unread, [file.name for file in upload.files])
    records.finish_upload(upload.id, "failed")
