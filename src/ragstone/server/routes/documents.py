"""Documents: sent, watched while they are read, listed, fetched and deleted."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from ragstone.catalog.uploads import no_upload
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError, NotFoundError
from ragstone.server.auth import Caller, CallerDep
from ragstone.server.background import Background
from ragstone.server.receive import Received, receive
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import (
    BINARY,
    JSON_OBJECT,
    PAGED,
    TOTAL,
    ChatUploadReply,
    DocumentReply,
    DocumentSummary,
    Problem,
    UploadReply,
    form,
)
from ragstone.server.sse import EventStream
from ragstone.types import DEFAULT_COLLECTION, IngestReport

router = APIRouter(tags=["documents"])

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "Nothing has that id."},
    422: {"model": Problem, "description": "The request cannot be used."},
}
_FILES = {"type": "array", "items": BINARY}
_BODIES = form(
    {
        "files": _FILES,
        "collection": {"type": "string"},
        "tags": {"type": "string", "description": "Separated by commas."},
        "metadata": JSON_OBJECT,
        "password": {"type": "string"},
    },
    example={"files": ["(the files)"], "collection": "house", "tags": "home,2026"},
    or_else={
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
_FORM = form({"files": _FILES}, required=["files"], example={"files": ["(the files)"]})
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary"}, "example": "(the file)",
            }
        }
    }
}  # fmt: skip
_POLL_S = 0.2


_LATER: dict[int | str, dict[str, Any]] = {
    202: {"model": UploadReply, "description": "They are being read."},
}


@router.post("/v1/documents", responses=_PROBLEMS | _LATER, openapi_extra=_BODIES, status_code=201)
async def add_documents(
    request: Request,
    response: Response,
    caller: CallerDep,
    collection: Annotated[str | None, Query(description="Where they go.")] = None,
    name: Annotated[str | None, Query(description="Of a document sent as plain text.")] = None,
    wait: Annotated[bool, Query(description="Reply when all are read.")] = True,
) -> UploadReply:
    """Read documents into a collection: files, plain text, or JSON with the text in it.

    With `wait=false` the reply comes at once, and `/v1/uploads/{id}` says how it goes.
    """
    engine = engine_of(request)
    caller.require_writer()
    received = await receive(request, engine.originals, name=name, collection=collection)
    _refuse_stranger(caller, received)
    upload_id = uuid.uuid4().hex
    if not wait:
        background: Background = request.app.state.background
        task = background.start(_read(engine, received, upload_id))
        await _begun(engine, upload_id, task)
        response.status_code = 202
    else:
        await _read(engine, received, upload_id)
    return UploadReply.of(await asyncio.to_thread(engine.records.upload, upload_id))


def _refuse_stranger(caller: Caller, received: Received) -> None:
    """The collection may stand in the body, so this comes after it was read."""
    try:
        caller.require_write(received.collection or DEFAULT_COLLECTION)
    except ForbiddenError:
        received.discard()
        raise


async def _begun(engine: Engine, upload_id: str, task: asyncio.Task[IngestReport]) -> None:
    """Wait until an upload can be asked for, or until it is refused."""
    while not task.done():
        try:
            await asyncio.to_thread(engine.records.upload, upload_id)
            return
        except NotFoundError:
            await asyncio.sleep(0.01)
    task.result()


@router.post("/chat/{chat_id}/documents", responses=_PROBLEMS, openapi_extra=_FORM)
async def add_chat_documents(chat_id: str, request: Request, caller: CallerDep) -> ChatUploadReply:
    """Read documents for one chat; a bad file never fails the others."""
    engine = engine_of(request)
    caller.require_write(f"chat_{chat_id}")
    received = await receive(request, engine.originals, collection=f"chat_{chat_id}")
    report = await _read(engine, received, uuid.uuid4().hex)
    return ChatUploadReply.of(report)


async def _read(engine: Engine, received: Received, upload_id: str) -> IngestReport:
    try:
        return await engine.ingest_uploads(
            received.uploads,
            collection=received.collection or DEFAULT_COLLECTION,
            upload_id=upload_id,
            metadata=received.metadata,
            password=received.password,
            again=received.again,
        )
    finally:
        received.discard()


@router.get("/v1/documents", responses=PAGED)
async def list_documents(
    request: Request,
    response: Response,
    caller: CallerDep,
    collection: str = DEFAULT_COLLECTION,
    skip: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[DocumentSummary]:
    """The documents of a collection by name, also those that could not be read."""
    caller.require_read(collection)
    engine = engine_of(request)
    page = await asyncio.to_thread(engine.documents, collection, skip=skip, limit=limit)
    total = await asyncio.to_thread(engine.catalog.document_count, collection)
    response.headers[TOTAL] = str(total)
    return [DocumentSummary.of(document) for document in page]


@router.get("/v1/documents/{document_id}", responses=_PROBLEMS)
async def one_document(document_id: str, request: Request, caller: CallerDep) -> DocumentReply:
    """One document with its text; old versions too, until they expire."""
    engine = engine_of(request)
    document = await asyncio.to_thread(caller.readable_document, engine, document_id)
    return DocumentReply.of(document)


@router.get("/v1/documents/{document_id}/lines", responses=_PROBLEMS)
async def lines(
    document_id: str,
    request: Request,
    caller: CallerDep,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
) -> list[dict[str, Any]]:
    """Where the lines of a span stand on their pages, in points from the lower left corner."""
    engine = engine_of(request)
    caller.readable_document(engine, document_id)
    return [
        {name: getattr(line, name) for name in line.__slots__}
        for line in await asyncio.to_thread(engine.records.lines, document_id)
        if line.end > start and (end is None or line.start < end)
    ]


@router.get(
    "/v1/documents/{document_id}/original",
    responses=_PROBLEMS | _FILE,
    response_class=FileResponse,
)
async def original(document_id: str, request: Request, caller: CallerDep) -> FileResponse:
    """The file as it came."""
    engine = engine_of(request)
    document = await asyncio.to_thread(caller.readable_document, engine, document_id)
    path = await asyncio.to_thread(engine.original, document)
    # Never shown in the browser: a document may be a hostile page.
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=document.name.rpartition("/")[2],
        headers={"X-Content-Type-Options": "nosniff"},
    )


@router.delete("/v1/documents/{document_id}", responses=_PROBLEMS, status_code=204)
async def delete_document(document_id: str, request: Request, caller: CallerDep) -> None:
    """Delete a document completely: text, vectors, terms and the file."""
    engine = engine_of(request)
    document = await asyncio.to_thread(caller.readable_document, engine, document_id)
    caller.require_write(document.collection)
    await engine.delete(document_id)


@router.get("/v1/uploads/{upload_id}", responses=_PROBLEMS)
async def upload(upload_id: str, request: Request, caller: CallerDep) -> UploadReply:
    """How far an upload is, and what became of its files."""
    engine = engine_of(request)
    return UploadReply.of(await asyncio.to_thread(_readable_upload, engine, caller, upload_id))


def _readable_upload(engine: Engine, caller: Caller, upload_id: str) -> dict[str, Any]:
    found = engine.upload(upload_id)
    if not caller.may_read(found["collection"]):
        raise no_upload(upload_id)
    return found


@router.get(
    "/v1/uploads/{upload_id}/events", responses=_PROBLEMS, response_class=EventStream,
    status_code=200,
)  # fmt: skip
async def upload_events(upload_id: str, request: Request, caller: CallerDep) -> EventStream:
    """The same as server-sent events: `file` for each document, `done` at the end."""
    engine = engine_of(request)
    await asyncio.to_thread(_readable_upload, engine, caller, upload_id)

    async def events() -> AsyncGenerator[dict[str, Any], None]:
        sent = 0
        while True:
            now = await asyncio.to_thread(engine.upload, upload_id)
            for file in now["files"][sent:]:
                sent += 1
                yield {"type": "file", **file, "done": sent, "file_count": now["file_count"]}
            if now["status"] != "running":
                yield {"type": "done", "upload_id": upload_id, "status": now["status"]}
                return
            await asyncio.sleep(_POLL_S)

    return EventStream(request, events())
