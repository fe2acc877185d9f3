"""Links into the page: a document, opened at the place that a citation names."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import Request

from ragstone.types import Citation


def base_url(request: Request) -> str:
    """Where clients reach the server: as set, else as this request did."""
    public: str = request.app.state.engine.settings.server.public_url
    return (public or str(request.base_url)).rstrip("/")


def source_url(base: str, citation: Citation) -> str:
    return place_url(base, citation.document_id, citation.start, citation.end)


def place_url(base: str, document_id: str, start: int, end: int) -> str:
    return f"{base}/#/source/{quote(document_id, safe='')}/{start}/{end}"
