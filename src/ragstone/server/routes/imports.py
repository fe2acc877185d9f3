"""Import a document from a URL that the settings allow: `/v1/imports`."""

from __future__ import annotations

import asyncio
import uuid

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import ForbiddenError
from ragstone.ingest.uploads import Upload
from ragstone.server.deps import CallerDep, EngineDep, LanguageDep
from ragstone.server.fetch import fetch_document, list_hosts
from ragstone.server.openapi import INVALID
from ragstone.server.upload_replies import ACCEPTED, UploadReply, wait_for_upload
from ragstone.threads import run_in_thread
from ragstone.types import DEFAULT_COLLECTION

router = APIRouter(prefix="/v1/imports", tags=["documents"])


class ImportRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://example.org/lease.pdf"}]},
    )

    url: str = Field(description="A URL with http or https.", max_length=2000)
    collection: str = Field(DEFAULT_COLLECTION, description="The collection to add to.")
    tags: list[str] = Field(default_factory=list, max_length=100)


class ImportOptions(BaseModel):
    hosts: list[str] = Field(description="Where documents may come from; empty: importing is off.")


@router.get("")
async def get_import_options(engine: EngineDep, caller: CallerDep) -> ImportOptions:
    """Say from which hosts documents may be imported."""
    return ImportOptions(hosts=list_hosts(engine.settings.server))


@router.post("", responses=INVALID | ACCEPTED, status_code=201)
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
