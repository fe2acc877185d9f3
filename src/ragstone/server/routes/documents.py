"""List, read, change and delete documents: `/v1/documents`; show the watched folder."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from ragstone.engine import Engine
from ragstone.messages import translate_outcome
from ragstone.server.deps import CallerDep, EngineDep, LanguageDep
from ragstone.server.openapi import BINARY, INVALID, NOT_FOUND, PAGED, TOTAL_HEADER, Replies
from ragstone.server.routes.explore import Passage
from ragstone.server.schemas import DocumentReply, DocumentSummary, forbid_other_fields
from ragstone.server.watch import name_folder, read_last_look
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION, Document
from ragstone.types import Query as Question

router = APIRouter(tags=["documents"])

_PROBLEMS = NOT_FOUND | INVALID
_FILE: Replies = {
    200: {"content": {"application/octet-stream": {"schema": BINARY, "example": "(the file)"}}}
}


class DocumentChange(BaseModel):
    model_config = forbid_other_fields({"tags": ["contract", "2026"]})

    tags: list[Annotated[str, Field(max_length=100)]] = Field(
        description="All its tags from now on.", max_length=100
    )


class TextReply(BaseModel):
    """`text` is `document.text[start:end]`; `length` is that of the whole text, in code points."""

    document_id: str
    document_name: str
    media_type: str
    start: int
    end: int
    length: int
    text: str


class Version(DocumentSummary):
    retired_at: float | None
    """When a newer version replaced it; null for the current one."""


@router.get("/v1/documents", responses=PAGED)
async def list_documents(
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
    language: LanguageDep,
    collection: str = DEFAULT_COLLECTION,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[DocumentSummary]:
    """List the documents of a collection by name, also those that could not be read."""
    caller.require_read(collection)
    page = await run_in_thread("store", engine.documents, collection, skip=skip, limit=limit)
    total = await run_in_thread("store", engine.catalog.document_count, collection)
    response.headers[TOTAL_HEADER] = str(total)
    failed = [document.id for document in page if document.status == "failed"]
    hints = await run_in_thread("store", engine.records.hints, failed) if failed else {}
    shown = [DocumentSummary.of(document) for document in page]
    for one in shown:
        if one.status == "failed":
            known = translate_outcome({"error": one.error, "hint": hints.get(one.id)}, language)
            one.error, one.hint = known["error"], known["hint"]
    return shown


@router.get("/v1/documents/{document_id}", responses=_PROBLEMS)
async def get_document(document_id: str, engine: EngineDep, caller: CallerDep) -> DocumentReply:
    """Return one document with its text; old versions too, until they expire."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    return DocumentReply.of(document)


@router.get("/v1/documents/{document_id}/lines", responses=_PROBLEMS)
async def list_lines(
    document_id: str,
    engine: EngineDep,
    caller: CallerDep,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
) -> list[dict[str, Any]]:
    """List the lines of a span with their place on the page, in points from the lower left."""
    caller.find_document(engine, document_id)
    return [
        {name: getattr(line, name) for name in line.__slots__}
        for line in await run_in_thread("store", engine.records.lines, document_id)
        if line.end > start and (end is None or line.start < end)
    ]


@router.get(
    "/v1/documents/{document_id}/original",
    responses=_PROBLEMS | _FILE,
    response_class=FileResponse,
)
async def download_original(document_id: str, engine: EngineDep, caller: CallerDep) -> FileResponse:
    """Download the original file."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    path = await run_in_thread("store", engine.original, document)
    # Never displayed by the browser: a document may be a hostile page.
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=document.name.rpartition("/")[2],
        headers={"X-Content-Type-Options": "nosniff"},
    )


@router.patch("/v1/documents/{document_id}", responses=_PROBLEMS)
async def change_document(
    document_id: str, body: DocumentChange, engine: EngineDep, caller: CallerDep
) -> DocumentSummary:
    """Give a document other tags; nothing is read or embedded again."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    caller.require_write(document.collection)
    tags = [tag.strip() for tag in body.tags if tag.strip()]
    await run_in_thread("store", engine.intake.change_tags, document_id, tags)
    return DocumentSummary.of(await run_in_thread("store", engine.catalog.document, document_id))


@router.delete("/v1/documents/{document_id}", responses=_PROBLEMS, status_code=204)
async def delete_document(document_id: str, engine: EngineDep, caller: CallerDep) -> None:
    """Delete a document completely: text, vectors, terms and the file."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    caller.require_write(document.collection)
    await engine.delete(document_id)


@router.get("/v1/documents/{document_id}/text", responses=_PROBLEMS)
async def get_text(
    document_id: str,
    engine: EngineDep,
    caller: CallerDep,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
    around: Annotated[
        int, Query(ge=0, le=1_000_000, description="Characters before and after.")
    ] = 0,
) -> TextReply:
    """Return the text of a document, or the part around a span of it."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    length = len(document.text)
    first = min(length, max(0, start - around))
    last = length if end is None else max(first, min(length, end + around))
    return TextReply(
        document_id=document.id,
        document_name=document.name,
        media_type=document.media_type,
        start=first,
        end=last,
        length=length,
        text=document.text[first:last],
    )


@router.get("/v1/documents/{document_id}/chunks", responses=_PROBLEMS)
async def list_chunks(
    document_id: str,
    engine: EngineDep,
    caller: CallerDep,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[Passage]:
    """List the chunks of a document in order; a replaced version has none."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    keys = list_chunk_keys(engine, document)[skip : skip + limit]
    found = await run_in_thread("store", engine.catalog.chunks, keys)
    return [Passage.of(chunk) for chunk in found.values()]


def list_chunk_keys(engine: Engine, document: Document) -> list[int]:
    query = Question("", "", collection=document.collection, document_ids=(document.id,))
    scope = engine.catalog.resolve_scope(query)
    return [key for keys in (scope.ranges if scope else ()) for key in keys]


@router.get("/v1/documents/{document_id}/versions", responses=_PROBLEMS)
async def list_versions(document_id: str, engine: EngineDep, caller: CallerDep) -> list[Version]:
    """List the versions of a document, newest first."""
    document = await run_in_thread("store", caller.find_document, engine, document_id)
    found = await run_in_thread(
        "store", engine.records.versions, document.collection, document.name
    )
    return [
        Version(**DocumentSummary.of(one).model_dump(), retired_at=retired_at)
        for one, retired_at in found
    ]


_UNREADABLE = "The watched folder could not be read."
_ASK_ADMIN = "Ask an administrator of this server: an admin is shown the reason."


class UnreadFileReply(BaseModel):
    name: str
    error: str
    hint: str


class WatchedFolderReply(BaseModel):
    folder: str | None = Field(
        description="Its path for an admin, its name for others. Null: no folder is watched, or "
        "the caller cannot read its collection."
    )
    collection: str = ""
    every_s: float = Field(default=0.0, description="Seconds between two looks.")
    prune: bool = Field(default=False, description="Whether a file that is gone is removed.")
    looked_at: float | None = Field(default=None, description="When it was listed last.")
    changed_at: float | None = Field(
        default=None, description="When a look last changed what is searched."
    )
    is_reading: bool = Field(default=False, description="Whether its files are being read.")
    files: int = Field(default=0, description="The readable files in it.")
    unread: list[UnreadFileReply] = Field(
        default_factory=list, description="Files that could not be read, with the reason."
    )
    error: str = Field(
        default="",
        description="Why the folder as a whole was not read. Only an admin is told the reason, "
        "which may name places of the server.",
    )
    hint: str = ""


@router.get("/v1/watched-folder")
async def get_watched_folder(
    engine: EngineDep, caller: CallerDep, language: LanguageDep
) -> WatchedFolderReply:
    """Show the folder whose files the server reads by itself (`ingest.watch`)."""
    options = engine.settings.ingest
    folder = await run_in_thread("store", name_folder, options)
    if not folder or not caller.can_read(options.watch_collection):
        return WatchedFolderReply(folder=None)
    shown = folder if caller.is_admin else PurePath(folder).name
    reply = WatchedFolderReply(
        folder=shown,
        collection=options.watch_collection,
        every_s=options.watch_s,
        prune=options.watch_prune,
    )
    directory = engine.settings.data.directory
    look = await run_in_thread("store", read_last_look, directory, folder)
    if look is None:
        return reply
    if look.error and not caller.is_admin:
        look = replace(look, error=_UNREADABLE, hint=_ASK_ADMIN)
    known = translate_outcome(asdict(look), language) | {
        "folder": shown,
        "changed_at": look.changed_at or None,
        "unread": [translate_outcome(asdict(one), language) for one in look.unread],
    }
    return WatchedFolderReply.model_validate(reply.model_dump() | known)
