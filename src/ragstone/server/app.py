"""The ASGI application around one engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

from ragstone import __version__
from ragstone.engine import Engine
from ragstone.server import errors
from ragstone.server.auth import caller_of
from ragstone.server.limits import BodyLimit, RequestId
from ragstone.server.routes import (
    check,
    documents,
    explain,
    explore,
    health,
    page,
    parts,
    query,
    settings,
)
from ragstone.settings import Setting
from ragstone.stores.keys import KeyRing

# Doors that ask who is there. A new one belongs here; those below are open to everybody.
DOORS = (query, explain, check, documents, explore, parts, settings)
OPEN_DOORS = (health, page)


def create_app(engine: Engine, listing: Sequence[Setting] = ()) -> FastAPI:
    """All doors, with the engine behind them; it is closed when the server stops.

    `listing` says who set each setting, for those who ask.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        engine.close()

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
