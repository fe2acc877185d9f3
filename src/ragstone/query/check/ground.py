"""Every sentence of an answer against the sources that it cites: a score and a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.query.check.overlap import support
from ragstone.query.ground.cite import Statement
from ragstone.types import Claim, Source, Verdict

# The design documents' band: above is grounded, below is not, between is doubtful.
GROUNDED, NOT_GROUNDED = 0.8, 0.3


def check_claim(statement: Statement, sources: Sequence[Source]) -> Claim:
    """A sentence without a source has no support."""
    scores = [support(statement.text, sources[number - 1].text) for number in statement.numbers]
    score = max(scores, default=0.0)
    return Claim(
        text=statement.text,
        start=statement.start,
        end=statement.end,
        citations=statement.numbers,
        verdict=_verdict(score),
        score=round(score, 4),
    )


def groundedness(claims: Sequence[Claim]) -> float:
    """The mean over the claims, each as heavy as it is long."""
    total = sum(len(claim.text) for claim in claims)
    return sum(claim.score * len(claim.text) for claim in claims) / total if total else 0.0


def _verdict(score: float) -> Verdict:
    if score > GROUNDED:
        return "supported"
    return "unsupported" if score < NOT_GROUNDED else "partial"
