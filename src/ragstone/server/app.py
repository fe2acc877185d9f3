"""Build the ASGI application around one engine: its routes and its middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from starlette.routing import Route

from ragstone import __version__
from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.observe.logs import stop_watching
from ragstone.server.background import (
    BackgroundTasks,
    StoredDataCheck,
    delete_expired_history,
    exit_after,
    trim_memory,
    watch_provider,
)
from ragstone.server.deps import authenticate, hold_answer_slot
from ragstone.server.errors import install_error_handlers
from ragstone.server.limits import AnswerSlots, RateLimits
from ragstone.server.middleware import (
    AddressRateLimit,
    BodyLimit,
    Deadline,
    HostCheck,
    ProblemReplies,
    RequestLog,
)
from ragstone.server.openapi import install_openapi
from ragstone.server.routes import (
    chat,
    chunkenizer,
    collections,
    documents,
    explore,
    feedback,
    health,
    history,
    openai,
    page,
    query,
    sessions,
    settings,
    uploads,
)
from ragstone.server.watch import FolderWatcher
from ragstone.server.work import WorkQueue
from ragstone.settings import LoadedSettings
from ragstone.threads import run_in_thread

if TYPE_CHECKING:
    from ragstone.server.mcp import McpEndpoint

# Routes that write answers: they need a caller, and a limited number of answers runs at once.
ANSWER_ROUTERS = (query.router, chat.router, chat.room_router, openai.router)
# Routes that need a caller. A new one belongs here; those below are open to everybody.
CALLER_ROUTERS = (
    history.router,
    feedback.router,
    sessions.router,
    collections.router,
    documents.router,
    uploads.router,
    explore.router,
    settings.router,
    health.metrics_router,
    chunkenizer.router,
)
OPEN_ROUTERS = (health.router, page.router)
# After the last upload: time to close files and connections.
_CLOSING_S = 1.5


def create_app(
    engine: Engine,
    *,
    loaded: LoadedSettings | None = None,
    only_hosts: Collection[str] = (),
    only_mcp: bool = False,
) -> FastAPI:
    """Build the application; the engine is closed when the server stops.

    The settings of `loaded` are listed with their origin and can be changed. `only_hosts` are the
    host names for requests without a key. `only_mcp`: only `/mcp` and the health checks.
    """
    mcp = _build_mcp_endpoint(engine)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        upkeep = [
            asyncio.create_task(work) for work in (delete_expired_history(engine), trim_memory())
        ]
        check = StoredDataCheck(engine)
        try:
            async with engine, mcp.run() if mcp else nullcontext():
                check.start()
                watches = watch_provider(engine), FolderWatcher(engine).run()
                upkeep.extend(map(asyncio.create_task, watches))
                try:
                    await run_in_thread("store", engine.intake.resume_uploads)
                    yield
                    grace_s = engine.settings.server.shutdown_grace_s
                    if app.state.is_own_process:
                        exit_after(grace_s + _CLOSING_S)
                    await app.state.background.finish(grace_s)
                finally:
                    for task in upkeep:
                        task.cancel()
                    await asyncio.gather(*upkeep, return_exceptions=True)
                    check.stop()
        finally:
            app.state.check_work.close()
            await app.state.rate_limits.close()
            stop_watching()

    app = FastAPI(
        title="Ragstone",
        version=__version__,
        summary="Answers questions from your own documents, with citations that can be checked.",
        lifespan=lifespan,
        # The framework's own pages load their scripts from another server; ours is in page.py.
        docs_url=None,
        redoc_url=None,
    )
    _fill_state(app, engine, loaded)
    _add_routes(app, only_mcp=only_mcp)
    if mcp:
        app.router.routes.append(Route("/mcp", mcp, methods=["POST"]))
    install_error_handlers(app)
    install_openapi(app)
    _add_middleware(app, engine, only_hosts)
    return app


def _fill_state(app: FastAPI, engine: Engine, loaded: LoadedSettings | None) -> None:
    app.state.engine = engine
    app.state.loaded = loaded
    app.state.listing = loaded.listing if loaded else ()
    app.state.variants = explore.EngineVariants(engine, app.state.listing)
    app.state.overviews = collections.Overviews()
    app.state.keys = KeyRing(engine.catalog)
    app.state.rate_limits = RateLimits(engine.settings)
    app.state.answer_slots = AnswerSlots(engine.settings.server)
    app.state.background = BackgroundTasks()
    app.state.settings_lock = asyncio.Lock()
    app.state.check_work = WorkQueue(engine.settings.server)
    app.state.shared_metrics = ""
    app.state.is_own_process = False


def _add_routes(app: FastAPI, *, only_mcp: bool) -> None:
    if only_mcp:
        app.include_router(health.router)
        return
    for router in ANSWER_ROUTERS:
        app.include_router(router, dependencies=[Depends(authenticate), Depends(hold_answer_slot)])
    for router in CALLER_ROUTERS:
        app.include_router(router, dependencies=[Depends(authenticate)])
    for router in OPEN_ROUTERS:
        app.include_router(router)


def _add_middleware(app: FastAPI, engine: Engine, only_hosts: Collection[str]) -> None:
    """Add the middleware, innermost first: the last one added sees a request first."""
    options = engine.settings.server
    app.add_middleware(
        BodyLimit,
        max_bytes=int(options.max_body_mb * 1_000_000),
        max_upload_bytes=int(options.max_upload_mb * 1_000_000),
    )
    app.add_middleware(Deadline, timeout_s=options.request_timeout_s)
    app.add_middleware(AddressRateLimit, limits=app.state.rate_limits)
    if only_hosts:
        app.add_middleware(HostCheck, hosts=only_hosts, keys=app.state.keys)
    app.add_middleware(ProblemReplies)
    app.add_middleware(RequestLog)


def _build_mcp_endpoint(engine: Engine) -> McpEndpoint | None:
    """Build the endpoint for assistants, if `ragstone[mcp]` is installed."""
    try:
        from ragstone.server.mcp import McpEndpoint
    except ImportError:
        return None
    return McpEndpoint(engine)
