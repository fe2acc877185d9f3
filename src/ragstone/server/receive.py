"""What a client sends with documents: a form with files, plain text, or JSON, to spooled files."""

from __future__ import annotations

import asyncio
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
from ragstone.ingest.intake import Upload

_FILE_FIELDS = ("files", "file", "files[]")
_TRUE = frozenset({"1", "true", "yes", "y", "on"})


class TextDocument(BaseModel):
    """A document in a JSON body. There is no URL in it: the server fetches nothing."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=300)
    text: str = Field(min_length=1)
    collection: str | None = None
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Received:
    """The files of a request in the spool, and what was said about them."""

    uploads: tuple[Upload, ...]
    collection: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    password: str | None = None
    again: bool = False
    """Read even what has not changed."""

    def discard(self) -> None:
        """Remove what nobody has taken out of the spool."""
        for upload in self.uploads:
            upload.path.unlink(missing_ok=True)


async def receive(
    request: Request,
    originals: Originals,
    *,
    name: str | None = None,
    collection: str | None = None,
) -> Received:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await _form(request, originals, collection)
    if kind == "application/json":
        return _json(await request.body(), originals, collection)
    if kind.startswith("text/"):
        suffix = ".md" if kind == "text/markdown" else ".html" if kind == "text/html" else ".txt"
        text = await request.body()
        upload = _spooled(text, name or f"text{suffix}", originals)
        return Received((upload,), collection)
    raise InputError(
        f"Documents cannot be sent as '{kind or 'nothing'}'.",
        hint="Send multipart/form-data with the field 'files', text/plain, or application/json.",
    )


async def _form(request: Request, originals: Originals, collection: str | None) -> Received:
    async with request.form(max_files=10_000) as form:
        files = [
            file
            for field in _FILE_FIELDS
            for file in form.getlist(field)
            if isinstance(file, UploadFile)
        ]
        if not files:
            raise InputError("The form holds no files.", hint="Put them in the field 'files'.")
        given = _text(form, "metadata") or _text(form, "metadata_json")
        metadata = _metadata(given, _text(form, "tags"))
        return Received(
            tuple([await _saved(file, originals) for file in files]),
            collection or _text(form, "collection"),
            metadata,
            _text(form, "password"),
            (_text(form, "force_reindex") or "").strip().lower() in _TRUE,
        )


def _json(body: bytes, originals: Originals, collection: str | None) -> Received:
    try:
        document = TextDocument.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "The body"
        raise InputError(
            f"{where}: {first['msg']}.", hint='Send {"name": "notes.md", "text": "…"}.'
        ) from error
    metadata = {**document.metadata, **({"tags": document.tags} if document.tags else {})}
    upload = _spooled(document.text.encode(), document.name, originals)
    return Received((upload,), collection or document.collection, metadata)


async def _saved(file: UploadFile, originals: Originals) -> Upload:
    path = originals.incoming()
    await asyncio.to_thread(_copy, file, path)
    return Upload(path, file.filename or "unnamed")


def _copy(file: UploadFile, path: Path) -> None:
    with path.open("wb") as target:
        shutil.copyfileobj(file.file, target)


def _spooled(content: bytes, name: str, originals: Originals) -> Upload:
    path = originals.incoming()
    path.write_bytes(content)
    return Upload(path, name)


def _text(form: FormData, name: str) -> str | None:
    value = form.get(name)
    return value if isinstance(value, str) and value else None


def _metadata(given: str | None, tags: str | None) -> dict[str, Any]:
    try:
        metadata = json.loads(given) if given else {}
    except (ValueError, RecursionError) as error:
        raise InputError(f"'metadata' is no JSON: {error}.", hint='Send {"year": 2026}.') from error
    if not isinstance(metadata, dict):
        raise InputError("'metadata' is no JSON object.", hint='Send {"year": 2026}.')
    listed = [tag.strip() for tag in (tags or "").split(",") if tag.strip()]
    return {**metadata, "tags": listed} if listed else metadata
