"""`GET /healthz` and `GET /readyz`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from ragstone.engine import Engine
from ragstone.observe.metrics import page

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request, response: Response) -> dict[str, str]:
    """The state of everything an answer needs; 503 when a part does not work.

    A provider is not called: it would cost money, and without it answers are quoted.
    """
    engine: Engine = request.app.state.engine
    states = await asyncio.to_thread(_states, engine)
    working = all(state == "ok" for state in states.values())
    if not working:
        response.status_code = 503
    return {
        "status": "ok" if working else "failing",
        **states,
        "provider": engine.provider.name,
    }


def _states(engine: Engine) -> dict[str, str]:
    parts: dict[str, Callable[[], object]] = {
        "catalog": engine.catalog.collections,
        "index": lambda: [engine.index.counts(name) for name in engine.catalog.collections()[:1]],
        "embedder": lambda: engine.embedder.embed(["ready"]),
    }
    return {name: _state(check) for name, check in parts.items()}


def _state(check: Callable[[], object]) -> str:
    try:
        check()
    except Exception as error:  # noqa: BLE001  whatever a part raises is its state
        return f"failing ({type(error).__name__})"
    return "ok"


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    content, media_type = page(request.app.state.shared_metrics)
    return Response(content, media_type=media_type)
