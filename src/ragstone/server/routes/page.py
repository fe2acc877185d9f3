"""The page at `/` and its files: HTML, modules, stylesheet, and pdf.js for those who open a PDF."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, SecretStr

from ragstone import __version__
from ragstone.errors import NotFoundError
from ragstone.server.auth import CallerDep
from ragstone.server.routes.query import engine_of
from ragstone.settings import PRESETS, Setting, allowed_values, effective, preset_values

router = APIRouter(include_in_schema=False)

_FOLDER = Path(str(resources.files("ragstone.server") / "ui"))
# By suffix and not by the machine's own table, which may know .mjs as anything.
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
    ".pfb": "application/octet-stream",
}
# Looked up and never joined: what a client names is no path.
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
# Swagger UI writes styles and markup of its own; what it shows is our own description alone.
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
    # Asked for again each time, answered with 304 while unchanged: an update shows at once.
    "Cache-Control": "no-cache",
}


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Every door to try out, without a word to anybody else's server."""
    reply = _file(request, "docs.html")
    reply.headers["Content-Security-Policy"] = DOCS_POLICY
    return reply


@router.get("/")
async def page(request: Request) -> Response:
    return _file(request, "index.html")


@router.get("/ui/{path:path}")
async def part(request: Request, path: str) -> Response:
    return _file(request, path)


def _file(request: Request, path: str) -> Response:
    known = _FILES.get(path)
    if known is None:
        raise NotFoundError(f"The page has no file '{path}'.", hint="Open / to see the page.")
    media_type = _MEDIA_TYPES[known.suffix]
    reply = FileResponse(known, media_type=media_type, headers=_HEADERS, stat_result=known.stat())
    if request.headers.get("if-none-match") == reply.headers["etag"]:
        return Response(status_code=304, headers=_HEADERS | {"ETag": reply.headers["etag"]})
    return reply


settings_router = APIRouter(prefix="/v1", tags=["settings"])


class OneSetting(BaseModel):
    name: str
    value: Any
    origin: str
    variables: list[str]
    description: str
    allowed: str


class SettingsReply(BaseModel):
    version: str
    preset: str
    presets: dict[str, dict[str, Any]]
    embedder: str
    provider: str
    model: str
    settings: list[OneSetting]


@settings_router.get("/settings")
async def settings(request: Request, caller: CallerDep) -> SettingsReply:
    """Every setting with its value, who set it, and what it may be.

    Where the data lies and which servers stand behind this one is for admins.
    """
    engine = engine_of(request)
    listing = getattr(request.app.state, "listing", None) or effective(engine.settings)
    return SettingsReply(
        version=__version__,
        preset=engine.settings.preset,
        presets={preset: preset_values(preset) for preset in PRESETS},
        embedder=engine.embedder.name,
        provider=engine.provider.name,
        model=engine.provider.model,
        settings=[_shown(one) for one in listing if caller.is_admin or _is_harmless(one)],
    )


def _is_harmless(setting: Setting) -> bool:
    section = setting.path.partition(".")[0]
    return section not in {"data", "index", "provider", "server"} and "url" not in setting.path


def _shown(setting: Setting) -> OneSetting:
    value = setting.value
    if isinstance(value, SecretStr):
        value = "********" if value.get_secret_value() else ""
    elif not isinstance(value, str | int | float | bool | None):
        value = str(value)
    return OneSetting(
        name=setting.path,
        value=value,
        origin=setting.origin,
        variables=list(setting.names),
        description=setting.description,
        allowed=allowed_values(setting.path),
    )
