"""`GET /healthz` and `GET /readyz`."""

from __future__ import annotations

from fastapi import APIRouter, Request

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process is alive."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, str]:
    """The catalog answers; a failure is a problem document."""
    request.app.state.engine.catalog.collections()
    return {"status": "ok", "catalog": "ok"}
