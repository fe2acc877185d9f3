"""Show the folder that the server watches: `/v1/watched-folder`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import PurePath

from fastapi import APIRouter
from pydantic import BaseModel, Field

from ragstone.messages import translate_outcome
from ragstone.server.deps import CallerDep, EngineDep, LanguageDep
from ragstone.server.watch import name_folder, read_last_look
from ragstone.threads import run_in_thread

router = APIRouter(prefix="/v1/watched-folder", tags=["documents"])

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


@router.get("")
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
