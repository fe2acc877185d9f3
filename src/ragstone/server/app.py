"""The ASGI application around one engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

from ragstone import __version__
from ragstone.engine import Engine
from ragstone.server import errors
from ragstone.server.auth import caller_of
from ragstone.server.limits import BodyLimit, RequestId
from ragstone.server.retention import forget_in_time
from ragstone.server.routes import (
    analytics,
    check,
    collections,
    documents,
    explain,
    explore,
    health,
    history,
    page,
    parts,
    query,
    sessions,
    settings,
)
from ragstone.settings import Setting
from ragstone.stores.keys import KeyRing

# Doors that ask who is there. A new one belongs here; those below are open to everybody.
DOORS = (
    query, explain, history, analytics, sessions, check, collections, documents, explore, parts,
    settings,
)  # fmt: skip
OPEN_DOORS = (health, page)


def create_app(engine: Engine, listing: Sequence[Setting] = ()) -> FastAPI:
    """All doors, with the engine behind them; it is closed when the server stops.

    `listing` says who set each setting, for those who ask.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        forgetting = asyncio.create_task(forget_in_time(engine))
        try:
            async with engine:
                yield
        finally:
            forgetting.cancel()

    app = FastAPI(
        title="Ragstone",
        version=__version__,
        summary="Answers questions from your own documents, with citations that can be checked.",
        lifespan=lifespan,
    )
    app.state.engine = engine
    app.state.listing = tuple(listing)
    app.state.keys = KeyRing(engine.catalog)
    for door in DOORS:
        app.include_router(door.router, dependencies=[Depends(caller_of)])
    for door in OPEN_DOORS:
        app.include_router(door.router)
    errors.install(app)
    limits = engine.settings.server
    app.add_middleware(
        BodyLimit,
        max_bytes=int(limits.max_body_mb * 1_000_000),
        max_upload_bytes=int(limits.max_upload_mb * 1_000_000),
    )
    app.add_middleware(RequestId)
    return app
