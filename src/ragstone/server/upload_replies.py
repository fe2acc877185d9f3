"""Define the JSON of replies to uploads, and wait for what they tell."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from fastapi import Request, Response
from pydantic import BaseModel, Field

from ragstone.engine import Engine
from ragstone.ingest.jobs import NoWorkerError
from ragstone.messages import translate, translate_outcome
from ragstone.reports import IngestReport
from ragstone.server.background import BackgroundTasks
from ragstone.server.openapi import Replies


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
                    "note": "No worker took the upload within 30 s; it goes on waiting. Start one: "
                    "ragstone worker. Ask for the result: GET /v1/uploads/42937b6f2b5242b3",
                }
            }
        },
    }
}


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
