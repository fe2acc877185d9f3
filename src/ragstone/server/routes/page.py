"""Serve the page at `/`, its files, and the interactive documentation at `/docs`."""

from __future__ import annotations

import gzip
from functools import lru_cache
from importlib import resources
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from ragstone.errors import NotFoundError

router = APIRouter(include_in_schema=False)

_FOLDER = Path(str(resources.files("ragstone.server") / "ui"))
# Not from the table of the system, which may map .mjs to anything.
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".pfb": "application/octet-stream",
}
# A page is text: a third of its size is sent.
_COMPRESSED = {".html", ".css", ".js", ".mjs", ".svg"}
# Only these files are served: a name from a client is looked up and never joined to a path.
_FILES = {
    file.relative_to(_FOLDER).as_posix(): file
    for file in _FOLDER.rglob("*")
    if file.suffix in _MEDIA_TYPES
}
# Nothing inline, nothing from elsewhere, no markup made from strings (trusted types): a document
# or a model that writes HTML can only ever be shown as text.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types ragstone",
    )
)
# Swagger UI writes styles and markup of its own, from our OpenAPI document alone.
DOCS_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # The browser asks each time and gets 304 while unchanged: an update shows at once.
    "Cache-Control": "no-cache",
}


@router.get("/docs")
async def show_docs(request: Request) -> Response:
    """Show every endpoint, to try out; nothing is loaded from another server."""
    reply = _send_file(request, "docs.html")
    reply.headers["Content-Security-Policy"] = DOCS_POLICY
    return reply


@router.get("/")
async def show_page(request: Request) -> Response:
    return _send_file(request, "index.html")


@router.get("/ui/{path:path}")
async def send_part(request: Request, path: str) -> Response:
    return _send_file(request, path)


def _send_file(request: Request, path: str) -> Response:
    file = _FILES.get(path)
    if file is None:
        raise NotFoundError(f"The page has no file '{path}'.", hint="Open / to see the page.")
    media_type = _MEDIA_TYPES[file.suffix]
    status = file.stat()
    reply: Response = FileResponse(
        file, media_type=media_type, headers=_HEADERS, stat_result=status
    )
    etag = reply.headers["etag"]
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=_HEADERS | {"ETag": etag})
    is_read_whole = "range" not in request.headers
    accepts = "gzip" in request.headers.get("accept-encoding", "")
    if file.suffix in _COMPRESSED and accepts and is_read_whole:
        content = _compress(file, status.st_mtime_ns)
        headers = _HEADERS | {"ETag": etag, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        reply = Response(content, media_type=media_type, headers=headers)
    return reply


@lru_cache(maxsize=100)
def _compress(file: Path, mtime_ns: int) -> bytes:
    """Compress a file of the page; again only when it has changed."""
    return gzip.compress(file.read_bytes(), mtime=0)
