"""Receive documents: a form with files, plain text, or JSON → files in the spool folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, UploadFile

from ragstone.catalog.originals import Originals
from ragstone.errors import InputError
from ragstone.ingest.jobs import Upload
from ragstone.threads import run_in_thread

_FILE_FIELDS = ("files", "file", "files[]")
_TRUE = frozenset({"1", "true", "yes", "y", "on"})


class TextDocument(BaseModel):
    """A document in a JSON body. It has no URL: the server downloads nothing."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=300)
    text: str = Field(min_length=1)
    collection: str | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReceivedDocuments:
    """The spooled files of a request with their collection and metadata."""

    uploads: tuple[Upload, ...]
    collection: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    password: str | None = None
    again: bool = False
    """Also read files that have not changed."""

    def discard(self) -> None:
        """Delete the files that were not moved out of the spool folder."""
        for upload in self.uploads:
            upload.path.unlink(missing_ok=True)


async def receive_documents(
    request: Request,
    originals: Originals,
    *,
    name: str | None = None,
    collection: str | None = None,
) -> ReceivedDocuments:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _receive_form(request, originals, collection)
    if kind == "application/json":
        return _receive_json(await request.body(), originals, collection)
    if kind.startswith("text/"):
        suffix = ".md" if kind == "text/markdown" else ".html" if kind == "text/html" else ".txt"
        text = await request.body()
        upload = _spool_bytes(text, name or f"text{suffix}", originals)
        return ReceivedDocuments((upload,), collection)
    raise InputError(
        f"Unsupported Content-Type '{kind}' for documents.",
        hint="Send multipart/form-data with the field 'files', text/plain, or application/json.",
    )


async def _receive_form(
    request: Request, originals: Originals, collection: str | None
) -> ReceivedDocuments:
    async with request.form(max_files=10_000) as form:
        files = [
            file
            for field in _FILE_FIELDS
            for file in form.getlist(field)
            if isinstance(file, UploadFile)
        ]
        if not files:
            raise InputError("The form holds no files.", hint="Put them in the field 'files'.")
        given = _read_field(form, "metadata") or _read_field(form, "metadata_json")
        metadata = _parse_metadata(given, _read_field(form, "tags"))
        return ReceivedDocuments(
            tuple([await _spool_file(file, originals) for file in files]),
            collection or _read_field(form, "collection"),
            metadata,
            _read_field(form, "password"),
            (_read_field(form, "force_reindex") or "").strip().lower() in _TRUE,
        )


def _receive_json(body: bytes, originals: Originals, collection: str | None) -> ReceivedDocuments:
    try:
        document = TextDocument.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "The body"
        raise InputError(
            f"{where}: {first['msg']}.", hint='Send {"name": "notes.md", "text": "…"}.'
        ) from error
    metadata = {**document.metadata, **({"tags": document.tags} if document.tags else {})}
    upload = _spool_bytes(document.text.encode(), document.name, originals)
    return ReceivedDocuments((upload,), collection or document.collection, metadata)


async def _spool_file(file: UploadFile, originals: Originals) -> Upload:
    path = originals.new_path()
    await run_in_thread("intake", _copy, file, path)
    return Upload(path, file.filename or "unnamed")


def _copy(file: UploadFile, path: Path) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(file.file, target)


def _spool_bytes(content: bytes, name: str, originals: Originals) -> Upload:
    path = originals.new_path()
    path.write_bytes(content)
    return Upload(path, name)


def _read_field(form: FormData, name: str) -> str | None:
    value = form.get(name)
    return value if isinstance(value, str) and value else None


def _parse_metadata(given: str | None, tags: str | None) -> dict[str, Any]:
    try:
        metadata = json.loads(given) if given else {}
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"The field 'metadata' is not valid JSON: {error}.", hint='Send {"year": 2026}.'
        ) from error
    if not isinstance(metadata, dict):
        raise InputError("The field 'metadata' is not a JSON object.", hint='Send {"year": 2026}.')
    listed = [tag.strip() for tag in (tags or "").split(",") if tag.strip()]
    return {**metadata, "tags": listed} if listed else metadata
