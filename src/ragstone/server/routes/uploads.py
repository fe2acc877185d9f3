"""Add documents: uploads with their progress, imports from a URL, the samples."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from ragstone.catalog.uploads import upload_not_found
from ragstone.engine import Engine
from ragstone.errors import ForbiddenError
from ragstone.ingest.jobs import NoWorkerError, Upload
from ragstone.messages import translate, translate_outcome
from ragstone.reports import IngestReport
from ragstone.server.auth import Caller
from ragstone.server.background import BackgroundTasks
from ragstone.server.deps import CallerDep, EngineDep, LanguageDep
from ragstone.server.fetch import fetch_document, list_hosts
from ragstone.server.openapi import (
    BINARY,
    INVALID,
    JSON_OBJECT,
    NOT_FOUND,
    Replies,
    describe_form,
)
from ragstone.server.receive import ReceivedDocuments, receive_documents
from ragstone.server.schemas import forbid_other_fields
from ragstone.server.sse import EventStream
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION

router = APIRouter(tags=["documents"])

_PROBLEMS = NOT_FOUND | INVALID
_POLL_S = 0.2
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


class FileOutcome(BaseModel):
    id: str | None
    name: str
    outcome: str
    chunk_count: int


class FileFailure(BaseModel):
    name: str
    error: str
    hint: str = ""


_NOTE: str = Field("", description="Why it is not read yet, if its sender waited in vain.")


class UploadReply(BaseModel):
    upload_id: str
    collection: str
    status: str
    file_count: int
    documents: list[FileOutcome]
    failed: list[FileFailure]
    note: str = _NOTE

    @classmethod
    def of(cls, upload: dict[str, Any], language: str, note: str = "") -> Self:
        failed = [file for file in upload["files"] if file["outcome"] == "failed"]
        return cls(
            upload_id=upload["id"],
            collection=upload["collection"],
            status=upload["status"],
            file_count=upload["file_count"],
            documents=[
                FileOutcome(
                    id=file["document_id"],
                    **{k: file[k] for k in ("name", "outcome", "chunk_count")},
                )
                for file in upload["files"]
                if file["outcome"] != "failed"
            ],
            failed=[
                FileFailure(name=file["name"], error=file["error"] or "", hint=file["hint"])
                for file in (translate_outcome(one, language) for one in failed)
            ],
            note=note,
        )


_WAITING = UploadReply(
    upload_id="42937b6f2b5242b3a41daa1975efad88",
    collection="house",
    status="running",
    file_count=1,
    documents=[],
    failed=[],
    note="",
)
ACCEPTED: Replies = {
    202: {
        "model": UploadReply,
        "description": "They are being read.",
        "content": {"application/json": {"example": _WAITING.model_dump()}},
    }
}


class UploadedFile(BaseModel):
    id: str
    name: str
    chunk_count: int


class FailedFile(BaseModel):
    name: str
    error: str


class ChatUploadReply(BaseModel):
    uploaded: list[UploadedFile]
    failed: list[FailedFile]
    note: str = _NOTE

    @classmethod
    def of(cls, report: IngestReport) -> Self:
        return cls(
            uploaded=[
                UploadedFile(id=file.document_id, name=file.name, chunk_count=file.chunk_count)
                for file in report.files
                if file.outcome != "failed" and file.document_id
            ],
            failed=[
                FailedFile(name=file.name, error=file.error or "") for file in report.of("failed")
            ],
        )


CHAT_ACCEPTED: Replies = {
    202: {
        "model": ChatUploadReply,
        "description": "They are stored, and are read when a worker is there.",
        "content": {
            "application/json": {
                "example": {
                    "uploaded": [],
                    "failed": [],
                    "note": "No worker took the upload within 30 s; it stays queued. Start one: "
                    "ragstone worker. Ask for the result: GET /v1/uploads/42937b6f2b5242b3",
                }
            }
        },
    }
}


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


async def wait_for_upload(
    request: Request,
    upload_id: str,
    work: asyncio.Future[IngestReport],
    response: Response,
    language: str,
) -> str:
    """Wait until an upload is read; if no worker takes it, reply with 202 and return the reason."""
    engine: Engine = request.app.state.engine
    background: BackgroundTasks = request.app.state.background
    background.start(work)
    try:
        await engine.intake.wait_for_upload(upload_id, work)
    except NoWorkerError as error:
        response.status_code = 202
        return f"{translate(error.message, language)} {translate(error.hint, language)}"
    return ""


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
    `embedding`) and while its chunks are embedded (`chunks_done` of `chunk_count`), `file` for each
    document, `done` at the end."""
    await run_in_thread("store", _find_upload, engine, caller, upload_id)
    return EventStream(request, _follow_upload(engine, upload_id, language))


async def _follow_upload(
    engine: Engine, upload_id: str, language: str
) -> AsyncGenerator[dict[str, Any], None]:
    sent = 0
    stages: dict[str, dict[str, Any]] = {}
    while True:
        upload = await run_in_thread("store", engine.upload, upload_id)
        for name, stage in upload["stages"].items():
            if stages.get(name) != stage:
                yield {"type": "stage", "name": name, **stage}
        stages = upload["stages"]
        for file in upload["files"][sent:]:
            sent += 1
            told = translate_outcome(file, language)
            yield {"type": "file", **told, "done": sent, "file_count": upload["file_count"]}
        if upload["status"] != "running":
            yield {"type": "done", "upload_id": upload_id, "status": upload["status"]}
            return
        await asyncio.sleep(_POLL_S)


class ImportRequest(BaseModel):
    model_config = forbid_other_fields({"url": "https://example.org/lease.pdf"})

    url: str = Field(description="A URL with http or https.", max_length=2000)
    collection: str = Field(DEFAULT_COLLECTION, description="The collection to add to.")
    tags: list[str] = Field(default_factory=list, max_length=100)


class ImportOptions(BaseModel):
    hosts: list[str] = Field(description="Where documents may come from; empty: importing is off.")


@router.get("/v1/imports")
async def get_import_options(engine: EngineDep, caller: CallerDep) -> ImportOptions:
    """Say from which hosts documents may be imported."""
    return ImportOptions(hosts=list_hosts(engine.settings.server))


@router.post("/v1/imports", responses=INVALID | ACCEPTED, status_code=201)
async def import_document(
    body: ImportRequest,
    request: Request,
    response: Response,
    engine: EngineDep,
    caller: CallerDep,
    language: LanguageDep,
) -> UploadReply:
    """Read one document from a URL whose host is in IMPORT_HOSTS, and add it."""
    caller.require_write(body.collection)
    options = engine.settings.server
    if not list_hosts(options):
        raise ForbiddenError(
            "Importing from a URL is switched off.",
            hint="An admin can list the allowed hosts in IMPORT_HOSTS.",
        )
    path = engine.originals.new_path()
    upload_id = uuid.uuid4().hex
    try:
        name = await fetch_document(body.url, path, options)
        tags = [tag.strip() for tag in body.tags if tag.strip()]
        work = await engine.accept_uploads(
            [Upload(path, name)],
            collection=body.collection,
            upload_id=upload_id,
            metadata={"url": body.url, **({"tags": tags} if tags else {})},
        )
    finally:
        path.unlink(missing_ok=True)
    future = asyncio.wrap_future(work)
    note = await wait_for_upload(request, upload_id, future, response, language)
    upload = await run_in_thread("store", engine.records.upload, upload_id)
    return UploadReply.of(upload, language, note)


class SamplesRequest(BaseModel):
    model_config = forbid_other_fields({"collection": "demo"})

    collection: str = DEFAULT_COLLECTION


class SamplesReply(BaseModel):
    collection: str
    documents: int
    chunks: int


@router.post("/v1/samples", responses=_PROBLEMS, status_code=201)
async def add_samples(body: SamplesRequest, engine: EngineDep, caller: CallerDep) -> SamplesReply:
    """Add the sample documents of a small observatory to a collection."""
    caller.require_write(body.collection)
    samples = Path(str(resources.files("ragstone.samples") / "documents"))
    report = await engine.ingest(
        [samples], collection=body.collection, metadata={"tags": ["sample"]}
    )
    return SamplesReply(
        collection=body.collection, documents=len(report.files), chunks=report.chunk_count
    )
