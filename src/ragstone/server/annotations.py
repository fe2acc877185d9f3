"""Citations as OpenAI's annotations: which characters of the content stand for which source.

answer and the content as the client has it → `url_citation`s. What was streamed may differ from
the checked answer, so every place is looked up in the content itself.
"""

from __future__ import annotations

from typing import Any

from ragstone.query.ground.cite import Statement, statements
from ragstone.query.ground.markers import Marker, Notation
from ragstone.server.links import source_url
from ragstone.types import Answer, Citation, Claim


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
