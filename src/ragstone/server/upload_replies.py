"""Define the JSON of replies to uploads."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, Field

from ragstone.messages import translate, translate_outcome
from ragstone.reports import IngestReport
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


class UploadReply(BaseModel):
    upload_id: str
    collection: str
    status: str
    file_count: int
    documents: list[FileOutcome]
    failed: list[FileFailure]
    note: str = Field("", description="Why it is not read yet, if its sender waited in vain.")

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
            note=translate(note, language),
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
