"""Links into the page: a document, opened at the place that a citation names."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import Request

from ragstone.query.ground.cite import Statement, statements
from ragstone.query.ground.markers import Marker, Notation
from ragstone.types import Answer, Citation, Claim


def base_url(request: Request) -> str:
    """Where clients reach the server: as set, else as this request did."""
    public: str = request.app.state.engine.settings.server.public_url
    return (public or str(request.base_url)).rstrip("/")


def source_url(base: str, citation: Citation) -> str:
    return place_url(base, citation.document_id, citation.start, citation.end)


def place_url(base: str, document_id: str, start: int, end: int) -> str:
    return f"{base}/#/source/{quote(document_id, safe='')}/{start}/{end}"


def url_citations(answer: Answer, content: str, base: str) -> list[dict[str, Any]]:
    """A citation stands at its marker; where the client never saw one, at its sentence."""
    notation = Notation(answer.sources)
    said, markers = statements(content, notation), list(notation.find(content))
    found = []
    rest = list(answer.citations)
    for claim in answer.claims:
        for number in claim.citations:
            citation = _take(rest, number)
            place = _place(claim, number, said, markers)
            if citation is not None and place is not None:
                found.append(_annotation(citation, place, base))
    return found


def _take(rest: list[Citation], number: int) -> Citation | None:
    """The next citation with this number: they come in the order of the claims."""
    for place, citation in enumerate(rest):
        if citation.number == number:
            return rest.pop(place)
    return None


def _place(
    claim: Claim, number: int, said: list[Statement], markers: list[Marker]
) -> tuple[int, int] | None:
    # From the end: after a provider failed in the middle, a sentence may stand there twice.
    spoken = next((one for one in reversed(said) if one.text == claim.text), None)
    if spoken is None:
        return None
    own = (m for m in markers if spoken.start <= m.start < spoken.reach and number in m.numbers)
    return next(((m.start, m.end) for m in own), (spoken.start, spoken.end))


def _annotation(citation: Citation, place: tuple[int, int], base: str) -> dict[str, Any]:
    page = f", page {citation.page}" if citation.page else ""
    return {
        "type": "url_citation",
        "url_citation": {
            "start_index": place[0],
            "end_index": place[1],
            "url": source_url(base, citation),
            "title": f"{citation.document_name}{page}",
        },
    }
