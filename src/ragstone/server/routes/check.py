"""`POST /v1/check-grounding`: the check alone, for any other system's answers."""

from __future__ import annotations

from typing import Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import InputError
from ragstone.server.routes.query import engine_of
from ragstone.server.schemas import Text
from ragstone.types import Claim, Grounding

router = APIRouter(prefix="/v1", tags=["check"])

# Every sentence is held against every fact, and this cannot be stopped half way: 47 s of one core
# for 8e10 (100,000 characters against 800,000).
_MOST_WORK = 2e10


class CheckRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"answer": "The gate is red.", "facts": ["The gate is green."]}]
        },
    )

    answer: str = Field(description="What is to be checked.", max_length=100_000)
    facts: list[Text] = Field(
        description="Texts that the answer should rest on.", min_length=1, max_length=200
    )
    citation_threshold: float = Field(
        0.6, ge=0, le=1, description="From this score on a fact supports a claim."
    )


class CheckedClaim(BaseModel):
    text: str
    start: int
    end: int
    verdict: str
    score: float
    cited: list[int]
    reasons: list[str]

    @classmethod
    def of(cls, claim: Claim) -> Self:
        return cls(
            text=claim.text,
            start=claim.start,
            end=claim.end,
            verdict=claim.verdict,
            score=claim.score,
            cited=list(claim.citations),
            reasons=list(claim.reasons),
        )


class CheckReply(BaseModel):
    support_score: float
    claims: list[CheckedClaim]
    cited_facts: list[int] = Field(description="Numbers of the facts that support a claim, from 1.")

    @classmethod
    def of(cls, found: Grounding) -> Self:
        claims = [CheckedClaim.of(claim) for claim in found.claims]
        return cls(
            support_score=found.support_score, claims=claims, cited_facts=list(found.cited_facts)
        )


@router.post("/check-grounding")
async def check_grounding(body: CheckRequest, request: Request) -> CheckReply:
    """Say of each sentence of an answer whether the facts support, contradict or ignore it."""
    _refuse_too_much(body)
    found = await engine_of(request).check(
        body.answer, body.facts, threshold=body.citation_threshold
    )
    return CheckReply.of(found)


def _refuse_too_much(body: CheckRequest) -> None:
    facts = sum(map(len, body.facts))
    if len(body.answer) * facts > _MOST_WORK:
        raise InputError(
            f"{len(body.answer)} characters of answer against {facts} of facts are too much.",
            hint="Send the answer in parts, or only the facts that it should rest on.",
        )
