"""Accept uploads so that a kill loses none: files and a row of the catalog first, then the reading.

Received files are stored and an upload is in the catalog before its sender is told so. What a
process does not read to its end is read by another one (`catalog/jobs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.catalog.jobs import UploadJobs
from ragstone.catalog.originals import UPLOAD_SCHEME, Originals
from ragstone.errors import OriginalMissingError
from ragstone.ingest.discover import FoundFile, FoundFiles
from ragstone.ingest.formats.read import clean_name, number_name
from ragstone.protocols import AcceptedUpload


@dataclass(frozen=True, slots=True)
class Upload:
    """Hold a received file: where it is stored, and the name that its sender gave it."""

    path: Path
    name: str


def accept_upload(
    jobs: UploadJobs,
    originals: Originals,
    uploads: Sequence[Upload],
    *,
    upload_id: str,
    collection: str,
    options: Mapping[str, Any],
    keep: bool = True,
) -> AcceptedUpload:
    """Store received files and record their upload; after this it survives a kill.

    With `keep` this process reads it as long as it lives.
    """
    counts: dict[str, int] = {}
    received = [
        originals.receive(number_name(clean_name(upload.name), counts), upload.path)
        for upload in uploads
    ]
    accepted = AcceptedUpload(upload_id, collection, tuple(received), dict(options))
    places = {file.sha256: upload.path for file, upload in zip(received, uploads, strict=True)}
    jobs.accept(accepted, lambda: originals.files.put(places), keep=keep)
    return accepted


def find_upload_files(originals: Originals, upload: AcceptedUpload) -> FoundFiles:
    """Return the files to read. The name is the source: the same name is a new version."""
    return FoundFiles(
        tuple(
            FoundFile(_find_original(originals, file.sha256), file.name, UPLOAD_SCHEME + file.name)
            for file in upload.files
        ),
        roots=(),
    )


def _find_original(originals: Originals, sha256: str) -> Path:
    """Return the place of a received file; one that is not here may still be elsewhere."""
    if (path := originals.files.find(sha256)) is None:
        raise OriginalMissingError(
            "A received file is not in the store of this process.",
            hint="Machines that read uploads must share their originals: set a bucket.",
        )
    return path
