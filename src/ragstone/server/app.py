"""The ASGI application around one engine: a list of doors and of what stands in front of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from starlette.routing import Route

from ragstone import __version__
from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.observe.logs import stop_watching
from ragstone.server import errors
from ragstone.server import schemas as openapi
from ragstone.server.auth import caller_of
from ragstone.server.background import Background, Observed, forget_in_time, give_back_memory
from ragstone.server.limits import (
    Admission,
    BodyLimit,
    Deadline,
    ForeignFailures,
    KnownHosts,
    answering,
)
from ragstone.server.rate import AddressLimit, Rates
from ragstone.server.routes import chat as api_chat
from ragstone.server.routes import chat as chat_room
from ragstone.server.routes import (
    chunkenizer,
    documents,
    explore,
    health,
    history,
    openai,
    page,
    query,
)
from ragstone.server.routes import document_parts as collections
from ragstone.server.routes import document_parts as parts
from ragstone.server.routes import health as metrics
from ragstone.server.routes import history as analytics
from ragstone.server.routes import history as sessions
from ragstone.server.routes import page as settings
from ragstone.server.routes import query as check
from ragstone.server.routes import query as explain
from ragstone.settings import Setting

if TYPE_CHECKING:
    from ragstone.integrations.mcp import HttpDoor

# Doors that write answers: they ask who is there, and only so many answers are written at once.
ANSWERING = (query, check, api_chat, chat_room, openai)
# Doors that ask who is there. A new one belongs here; those below are open to everybody.
KEYED = (
    explain, history, analytics, sessions, collections, documents, explore, parts, settings,
    metrics, chunkenizer,
)  # fmt: skip
OPEN = (health, page)


def create_app(
    engine: Engine,
    listing: Sequence[Setting] = (),
    *,
    only_hosts: Collection[str] = (),
    only_assistants: bool = False,
) -> FastAPI:
    """All doors, with the engine behind them; it is closed when the server stops.

    `listing` says who set each setting, for those who ask. With `only_hosts` a request without a
    key must be for one of these names; with `only_assistants` there is `/mcp` and health alone.
    """

    assistants = _assistants(engine)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        upkeep = [
            asyncio.create_task(work) for work in (forget_in_time(engine), give_back_memory())
        ]
        try:
            async with engine, assistants.running() if assistants else nullcontext():
                yield
                await app.state.background.finish(engine.settings.server.shutdown_grace_s)
        finally:
            for task in upkeep:
                task.cancel()
            await app.state.rates.close()
            stop_watching()

    app = FastAPI(
        title="Ragstone",
        version=__version__,
        summary="Answers questions from your own documents, with citations that can be checked.",
        lifespan=lifespan,
        # The framework's own pages fetch their scripts from another server; ours is in page.py.
        docs_url=None,
        redoc_url=None,
    )
    limits = engine.settings.server
    app.state.engine = engine
    app.state.listing = tuple(listing)
    app.state.keys = KeyRing(engine.catalog)
    app.state.rates = Rates(engine.settings)
    app.state.admission = Admission(limits)
    app.state.background = Background()
    app.state.shared_metrics = ""
    for door in () if only_assistants else ANSWERING:
        app.include_router(door.router, dependencies=[Depends(caller_of), Depends(answering)])
    for door in () if only_assistants else KEYED:
        app.include_router(door.router, dependencies=[Depends(caller_of)])
    for door in (health,) if only_assistants else OPEN:
        app.include_router(door.router)
    if assistants:
        app.router.routes.append(Route("/mcp", assistants, methods=["POST"]))
    errors.install(app)
    openapi.install(app)
    # The last one added is the first that a request meets.
    app.add_middleware(
        BodyLimit,
        max_bytes=int(limits.max_body_mb * 1_000_000),
        max_upload_bytes=int(limits.max_upload_mb * 1_000_000),
    )
    app.add_middleware(Deadline, seconds=limits.request_timeout_s)
    app.add_middleware(AddressLimit, rates=app.state.rates)
    if only_hosts:
        app.add_middleware(KnownHosts, hosts=only_hosts, keys=app.state.keys)
    app.add_middleware(ForeignFailures)
    app.add_middleware(Observed)
    return app


def _assistants(engine: Engine) -> HttpDoor | None:
    """The door for assistants, where `ragstone[mcp]` is installed."""
    try:
        from ragstone.integrations.mcp import HttpDoor
    except ImportError:
        return None
    return HttpDoor(engine)
