"""Add documents, follow their upload, list, read and delete them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from ragstone.catalog.uploads import upload_not_found
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError
from ragstone.messages import translate_outcome
from ragstone.reports import IngestReport
from ragstone.server.auth import Caller
from ragstone.server.background import BackgroundTasks
from ragstone.server.deps import CallerDep, EngineDep, LanguageDep
from ragstone.server.openapi import (
    BINARY,
    INVALID,
    JSON_OBJECT,
    NOT_FOUND,
    PAGED,
    TOTAL_HEADER,
    Replies,
    describe_form,
)
from ragstone.server.receive import ReceivedDocuments, receive_documents
from ragstone.server.schemas import DocumentReply, DocumentSummary
from ragstone.server.sse import EventStream
from ragstone.server.upload_replies import (
    ACCEPTED,
    CHAT_ACCEPTED,
    ChatUploadReply,
    UploadReply,
    wait_for_upload,
)
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION

router = APIRouter(tags=["documents"])

_PROBLEMS = NOT_FOUND | INVALID
_FILES = {"type": "array", "items": BINARY}
_BODIES = describe_form(
    {
        "files": _FILES,
        "collection": {"type": "string"},
        "tags": {"type": "string", "description": "Separated by commas."},
        "metadata": JSON_OBJECT,
        "password": {"type": "string"},
    },
    example={"files": ["(the files)"], "collection": "house", "tags": "home,2026"},
    alternatives={
        "application/json": {
            "example": {
                "name": "notes.md",
                "text": "# Notes\n\nThe gate code is 8812.",
                "collection": "default",
                "tags": ["home"],
                "metadata": {"year": 2026},
            }
        },
        "text/plain": {"example": "The gate code is 8812."},
    },
)
_FORM = describe_form({"files": _FILES}, required=["files"], example={"files": ["(the files)"]})
_FILE: Replies = {
    200: {"content": {"application/octet-stream": {"schema": BINARY, "example": "(the file)"}}}
}


class DocumentChange(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"tags": ["contract", "2026"]}]}
    )

    tags: list[Annotated[str, Field(max_length=100)]] = Field(
        description="All its tags from now on.", max_length=100
    )


_POLL_S = 0.2


@router.post(
    "/v1/documents", responses=_PROBLEMS | ACCEPTED, openapi_extra=_BODIES, status_code=201
)
async def add_documents(
    request: Request,
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
    language: LanguageDep,
    collection: Annotated[str | None, Query(description="The collection to add to.")] = None,
    name: Annotated[str | None, Query(description="Name of a document in plain text.")] = None,
    wait: Annotated[bool, Query(description="Reply when all are read.")] = True,
) -> UploadReply:
    """Add documents to a collection: files, plain text, or JSON with the text in it.

    With `wait=false` the reply comes at once, and `/v1/uploads/{id}` shows the progress.
    """
    caller.require_writer()
    received = await receive_documents(request, engine.originals, name=name, collection=collection)
    _require_write(caller, received)
    upload_id = uuid.uuid4().hex
    work = asyncio.wrap_future(await _accept(engine, received, upload_id, retry=not wait))
    note = ""
    if wait:
        note = await wait_for_upload(request, upload_id, work, response, language)
    else:
        background: BackgroundTasks = request.app.state.background
        background.start(work)
        response.status_code = 202
    upload = await run_in_thread("store", engine.records.upload, upload_id)
    return UploadReply.of(upload, language, note)


def _require_write(caller: Caller, received: ReceivedDocuments) -> None:
    """Check the collection after the body was read: it may be named there."""
    try:
        caller.require_write(received.collection or DEFAULT_COLLECTION)
    except ForbiddenError:
        received.discard()
        raise


@router.post(
    "/chat/{chat_id}/documents",
    responses=_PROBLEMS | CHAT_ACCEPTED,
    openapi_extra=_FORM,
    response_model_exclude_defaults=True,
)
async def add_chat_documents(
    chat_id: str,
    request: Request,
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
    language: LanguageDep,
) -> ChatUploadReply:
    """Add documents for one chat; a file that cannot be read does not stop the others."""
    caller.require_write(f"chat_{chat_id}")
    received = await receive_documents(request, engine.originals, collection=f"chat_{chat_id}")
    upload_id = uuid.uuid4().hex
    work = asyncio.wrap_future(await _accept(engine, received, upload_id))
    if note := await wait_for_upload(request, upload_id, work, response, language):
        return ChatUploadReply(uploaded=[], failed=[], note=note)
    return ChatUploadReply.of(work.result())


async def _accept(
    engine: Engine, received: ReceivedDocuments, upload_id: str, *, retry: bool = False
) -> Future[IngestReport]:
    """Store what was received; from here on it is read, even if the server is killed."""
    try:
        return await engine.accept_uploads(
            received.uploads,
            collection=received.collection or DEFAULT_COLLECTION,
            upload_id=upload_id,
            metadata=received.metadata,
            password=received.password,
            again=received.again,
            retry=retry,
        )
    finally:
        received.discard()


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


@router.get("/v1/uploads/{upload_id}", responses=_PROBLEMS)
async def get_upload(
    upload_id: str, engine: EngineDep, caller: CallerDep, language: LanguageDep
) -> UploadReply:
    """Show the progress of an upload and the outcome of each file."""
    upload = await run_in_thread("store", _find_upload, engine, caller, upload_id)
    return UploadReply.of(upload, language)


def _find_upload(engine: Engine, caller: Caller, upload_id: str) -> dict[str, Any]:
    upload = engine.upload(upload_id)
    if not caller.can_read(upload["collection"]):
        raise upload_not_found(upload_id)
    return upload


@router.get(
    "/v1/uploads/{upload_id}/events",
    responses=_PROBLEMS,
    response_class=EventStream,
    status_code=200,
)
async def stream_upload(
    upload_id: str, request: Request, engine: EngineDep, caller: CallerDep, language: LanguageDep
) -> EventStream:
    """Follow an upload by server-sent events: `stage` when a file enters one (`reading`,
    `embedding`), `file` for each document, `done` at the end."""
    await run_in_thread("store", _find_upload, engine, caller, upload_id)
    return EventStream(request, _follow_upload(engine, upload_id, language))


async def _follow_upload(
    engine: Engine, upload_id: str, language: str
) -> AsyncGenerator[dict[str, Any], None]:
    sent = 0
    stages: dict[str, str] = {}
    while True:
        upload = await run_in_thread("store", engine.upload, upload_id)
        for name, stage in upload["stages"].items():
            if stages.get(name) != stage:
                yield {"type": "stage", "name": name, "stage": stage}
        stages = upload["stages"]
        for file in upload["files"][sent:]:
            sent += 1
            told = translate_outcome(file, language)
            yield {"type": "file", **told, "done": sent, "file_count": upload["file_count"]}
        if upload["status"] != "running":
            yield {"type": "done", "upload_id": upload_id, "status": upload["status"]}
            return
        await asyncio.sleep(_POLL_S)
