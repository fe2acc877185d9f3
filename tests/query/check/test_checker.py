"""Confidence is a probability; what was quoted is cited where it stands."""

from __future__ import annotations

from ragstone.engine import Engine
from ragstone.evidence import Draft, Evidence, Extract, Quote
from ragstone.query.check.checker import accept_quotes

from ..build import query, sources

TEXT = "The gate is green. It was painted in 1998."


def make_draft(status: str) -> Draft:
    quote = Quote("It was painted in 1998.", 1, 19, 42, 5)
    text = "Yes. It was painted in 1998. [Source 1]"
    return Draft("extractive", text=text, status=status, quotes=(quote,))  # type: ignore[arg-type]


def test_a_quotation_is_a_supported_claim_with_its_span() -> None:
    evidence = Evidence(query(), sources(TEXT), Extract(probability=0.7, short_answer="1998"))
    checked = accept_quotes(query(), evidence, make_draft("answered"))
    [claim], [citation] = checked.claims, checked.citations
    assert checked.text[claim.start : claim.end] == claim.text == citation.snippet
    assert (claim.verdict, claim.citations, checked.confidence) == ("supported", (1,), 0.7)
    [(start, end)] = checked.highlights
    assert checked.text[start:end] == checked.short_answer == "1998"


def test_the_closest_passages_are_cited_and_claim_nothing() -> None:
    checked = accept_quotes(query(), Evidence(query(), sources(TEXT)), make_draft("near"))
    assert (checked.status, checked.claims, len(checked.citations)) == ("near", (), 1)
    assert (checked.confidence, checked.is_grounded) == (0.0, False)


async def test_an_answer_is_more_confident_than_a_refusal(sample_engine: Engine) -> None:
    known = await sample_engine.ask("What does an adult pay for an evening programme?")
    unknown = await sample_engine.ask("Who won the football World Cup in 1998?")
    assert known.confidence > 0.6
    assert (unknown.status in ("near", "abstained"), unknown.confidence) == (True, 0)
