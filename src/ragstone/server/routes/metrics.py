"""`GET /metrics`: what Prometheus reads. Where there are keys it wants one, of any role."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from ragstone.observe.metrics import page

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    content, media_type = page(request.app.state.shared_metrics)
    return Response(content, media_type=media_type)
