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
    place = f"{citation.start}/{citation.end}"
    return f"{base}/#/source/{quote(citation.document_id, safe='')}/{place}"
