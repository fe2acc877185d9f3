"""Report health and metrics: `/healthz`, `/readyz` (open to everybody), `/metrics` (with a key)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from ragstone.engine import Engine
from ragstone.observe.metrics import render_metrics
from ragstone.server.deps import EngineDep
from ragstone.threads import run_in_thread

router = APIRouter(tags=["health"])
metrics_router = APIRouter(tags=["health"])


@router.get("/healthz")
async def check_alive() -> dict[str, str]:
    """Check that the process is alive."""
    return {"status": "ok"}


@router.get("/readyz")
async def check_ready(request: Request, response: Response, engine: EngineDep) -> dict[str, Any]:
    """Check everything that an answer needs; 503 if a part fails or a queue is full.

    The provider is not called: that costs money. `provider_state` says how its last call went, that
    of the start included. If it failed, the status is `degraded`: answers quote the documents.
    """
    states = await run_in_thread("store", _check_parts, engine)
    queues = {"questions": engine.is_queue_full, "checks": request.app.state.check_work.is_full}
    full = [name for name, is_full in queues.items() if is_full]
    states["queue"] = f"full ({' and '.join(full)})" if full else "ok"
    is_ready = all(state == "ok" for state in states.values())
    health = engine.provider_health
    status = "degraded" if health.state == "failing" else "ok"
    if not is_ready:
        response.status_code = 503
        status = "failing"
    return {
        "status": status,
        **states,
        "provider": engine.provider.name,
        "provider_state": {"model": engine.provider.model, **health.as_dict()},
    }


def _check_parts(engine: Engine) -> dict[str, str]:
    parts: dict[str, Callable[[], object]] = {
        "catalog": engine.catalog.collections,
        "index": lambda: [
            engine.for_collection(name).index.counts(name)
            for name in engine.catalog.collections()[:1]
        ],
        "embedder": lambda: engine.embedder.embed(["ready"]),
    }
    return {name: _check_part(check) for name, check in parts.items()}


def _check_part(check: Callable[[], object]) -> str:
    try:
        check()
    except Exception as error:  # noqa: BLE001  any failure of a part is its state
        return f"failing ({type(error).__name__})"
    return "ok"


@metrics_router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
)
async def get_metrics(request: Request) -> Response:
    """Return the metrics in the text format of Prometheus."""
    content, media_type = render_metrics(request.app.state.shared_metrics)
    return Response(content, media_type=media_type)
