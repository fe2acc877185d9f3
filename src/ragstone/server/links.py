"""Link citations to the page that opens a source at its place."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ragstone.query.ground.cite import Marker, Notation, Statement, split_statements
from ragstone.types import Answer, Citation, Claim


def link_source(base_url: str, document_id: str, start: int, end: int) -> str:
    """Build the address at which the page shows a span of a document."""
    return f"{base_url}/#/source/{quote(document_id, safe='')}/{start}/{end}"


def annotate_citations(answer: Answer, content: str, base_url: str) -> list[dict[str, Any]]:
    """Place each citation at its marker in `content`, or at its sentence if the marker is missing.

    `content` is what the client received; a checked answer may differ from it.
    """
    notation = Notation(answer.sources)
    sentences, markers = split_statements(content, notation), list(notation.find_markers(content))
    annotations = []
    rest = list(answer.citations)
    for claim in answer.claims:
        if _shares_marker(claim, sentences):
            continue
        for number in claim.citations:
            citation = _pop_citation(rest, number)
            span = _find_span(claim, number, sentences, markers)
            if citation is not None and span is not None:
                annotations.append(_build_annotation(citation, span, base_url))
    return annotations


def _shares_marker(claim: Claim, sentences: list[Statement]) -> bool:
    """Return True for an item of a list whose marker stands after a later item."""
    sentence = next((one for one in reversed(sentences) if one.text == claim.text), None)
    return sentence is not None and not sentence.all_numbers and bool(sentence.shared_numbers)


def _pop_citation(rest: list[Citation], number: int) -> Citation | None:
    """Take the next citation with this number: they are in the order of the claims."""
    for position, citation in enumerate(rest):
        if citation.number == number:
            return rest.pop(position)
    return None


def _find_span(
    claim: Claim, number: int, sentences: list[Statement], markers: list[Marker]
) -> tuple[int, int] | None:
    # From the end: after a provider failed half way, the same sentence may be there twice.
    sentence = next((one for one in reversed(sentences) if one.text == claim.text), None)
    if sentence is None:
        return None
    own = (
        m
        for m in markers
        if sentence.start <= m.start < sentence.next_start and number in m.numbers
    )
    return next(((m.start, m.end) for m in own), (sentence.start, sentence.end))


def _build_annotation(citation: Citation, span: tuple[int, int], base_url: str) -> dict[str, Any]:
    page = f", page {citation.page}" if citation.page else ""
    return {
        "type": "url_citation",
        "url_citation": {
            "start_index": span[0],
            "end_index": span[1],
            "url": link_source(base_url, citation.document_id, citation.start, citation.end),
            "title": f"{citation.document_name}{page}",
        },
    }
