"""Provide what routes depend on: the engine, the caller, a slot for an answer, the base URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from ragstone.catalog.collections import refuse_unknown_collection
from ragstone.catalog.journal import query_not_found
from ragstone.engine import Engine
from ragstone.errors import StoreBusyError
from ragstone.files import check_collection
from ragstone.messages import choose_language
from ragstone.server.auth import Caller, authenticate_request
from ragstone.server.limits import AnswerSlots
from ragstone.threads import run_in_thread_if_blocking
from ragstone.types import DEFAULT_COLLECTION

_MAX_WAIT_TO_READ_S = 1.0
_bearer = HTTPBearer(auto_error=False, description="A key of `ragstone keys create`.")
_header = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same in one header.")


async def authenticate(
    request: Request,
    _by_bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    _by_header: Annotated[str | None, Depends(_header)],
) -> None:
    """Identify the caller, before every route that needs one.

    The two headers are parameters for the OpenAPI alone: `authenticate_request` reads them itself.
    """
    await authenticate_request(request)


async def caller_of(request: Request) -> Caller:
    """Return the caller that `authenticate` has found.

    A route without `authenticate` fails; to repeat it for each parameter costs three more lookups.
    """
    caller: Caller = request.state.caller
    return caller


async def engine_of(request: Request) -> Engine:
    engine: Engine = request.app.state.engine
    return engine


async def hold_answer_slot(request: Request) -> AsyncIterator[None]:
    """Hold one of the slots for answers until the reply is sent; only POST writes answers.

    It comes after the caller is known and the body is read, so that neither a stranger nor a slow
    sender can take one.
    """
    if request.method != "POST":
        yield
        return
    slots: AnswerSlots = request.app.state.answer_slots
    async with slots.hold_slot():
        yield


async def wait_for_history(request: Request) -> None:
    """Let a route read and delete the answers that this process has given, to the last one.

    A list may be a moment behind. What is deleted must not be written afterwards.
    """
    engine: Engine = request.app.state.engine
    if request.method != "DELETE":
        await engine.finish_history(_MAX_WAIT_TO_READ_S)
    elif not await engine.finish_history():
        raise StoreBusyError(
            "The last answers are still being written.",
            hint="The disk is busy; try again in a few seconds.",
        )


async def language_of(request: Request) -> str:
    """Return the language for messages: the first that the caller accepts and that there is."""
    return choose_language(request.headers.get("accept-language", ""))


CallerDep = Annotated[Caller, Depends(caller_of)]
LanguageDep = Annotated[str, Depends(language_of)]
EngineDep = Annotated[Engine, Depends(engine_of)]


def base_url_of(request: Request) -> str:
    """Return the address at which clients reach the server: as set, else as in this request."""
    public: str = request.app.state.engine.settings.server.public_url
    return (public or str(request.base_url)).rstrip("/")


def find_query(engine: Engine, caller: Caller, query_id: str) -> dict[str, Any]:
    """Return an entry of the history; hide the existence of one that the caller cannot read."""
    entry = engine.catalog.query(query_id)
    if not (caller.can_see(entry["owner"]) and caller.can_read(entry["collection"])):
        raise query_not_found(query_id)
    return entry


async def require_collection(
    engine: Engine, caller: Caller, name: str, *, rag_enabled: bool | None = None
) -> None:
    """Refuse to ask a collection that the caller cannot read, or that does not exist."""
    caller.require_read(name)
    is_searched = engine.settings.retrieve.enabled if rag_enabled is None else rag_enabled
    if is_searched and name != DEFAULT_COLLECTION:
        await run_in_thread_if_blocking(
            engine.catalog, refuse_missing_collection, engine, caller, name
        )


def refuse_missing_collection(engine: Engine, caller: Caller, name: str) -> None:
    """Raise a NotFoundError for a collection that does not exist: its name is probably mistyped.

    The default one may have no documents yet, and another service has collections that the catalog
    does not know.
    """
    if name != DEFAULT_COLLECTION and engine.settings.retrieve.retriever_name == "hybrid":
        refuse_unknown_collection(engine.catalog, check_collection(name), caller.can_read)
