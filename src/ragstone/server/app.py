"""The ASGI application around one engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ragstone import __version__
from ragstone.engine import Engine
from ragstone.server import errors
from ragstone.server.limits import BodyLimit, RequestId
from ragstone.server.routes import check, documents, explain, health, query


def create_app(engine: Engine) -> FastAPI:
    """All doors, with the engine behind them; it is closed when the server stops."""

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
    app.include_router(query.router)
    app.include_router(explain.router)
    app.include_router(check.router)
    app.include_router(documents.router)
    app.include_router(health.router)
    errors.install(app)
    limits = engine.settings.server
    app.add_middleware(
        BodyLimit,
        max_bytes=int(limits.max_body_mb * 1_000_000),
        max_upload_bytes=int(limits.max_upload_mb * 1_000_000),
    )
    app.add_middleware(RequestId)
    return app
