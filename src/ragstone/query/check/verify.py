"""A second opinion on the claims that the fast check cannot decide: one bounded call to the small
model, only when the answer lies in the ambiguous band.

review → the same review with those claims decided. Whatever the model says, facts that were
compared to the letter stay as they were found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel

from ragstone.prompts import render
from ragstone.query.check.ground import GROUNDED, NOT_GROUNDED, groundedness
from ragstone.query.check.review import Review
from ragstone.query.ground.markers import neutral
from ragstone.query.understand.rewrite import ask_json
from ragstone.stages import Chat
from ragstone.types import Claim, Source, Verdict

MOST_CLAIMS = 8
_MOST_SOURCES = 6
_MOST_CHARS = 1500
# What the model's word is worth: enough to be grounded, and little enough not to be.
_CONFIRMED, _DENIED = 0.9, 0.2


class ClaimVerdict(BaseModel):
    claim: int
    supported: Literal["yes", "partly", "no"]


class Verdicts(BaseModel):
    verdicts: list[ClaimVerdict]


def in_doubt(claims: Sequence[Claim]) -> list[int]:
    """Places of the claims to ask about; none when the answer as a whole is clear."""
    if not NOT_GROUNDED <= groundedness(claims) <= GROUNDED:
        return []
    places = [at for at, claim in enumerate(claims) if NOT_GROUNDED <= claim.score <= GROUNDED]
    return places[:MOST_CLAIMS]


async def verified(
    chat: Chat, review: Review, sources: Sequence[Source], *, timeout_s: float
) -> Review:
    """Ask once, within the time given. A failure is the caller's: the fast check stands."""
    places = in_doubt(review.claims)
    if not places:
        return review
    cited = {number for at in places for number in review.claims[at].citations}
    shown = [s for s in sources if s.number in cited] or list(sources[:_MOST_SOURCES])
    prompt = render(
        "verify",
        passages="\n\n".join(
            f"<passage {source.number}>\n{neutral(source.text[:_MOST_CHARS])}\n</passage>"
            for source in shown[:_MOST_SOURCES]
        ),
        claims="\n".join(f"{n}. {review.claims[at].text}" for n, at in enumerate(places, start=1)),
    )
    async with asyncio.timeout(timeout_s):
        reply = Verdicts.model_validate(await ask_json(chat, prompt, Verdicts))
    decided = {
        places[one.claim - 1]: one.supported
        for one in reply.verdicts
        if 1 <= one.claim <= len(places)
    }
    return _decided(review, decided)


def _decided(review: Review, decided: Mapping[int, str]) -> Review:
    claims = list(review.claims)
    denied: set[int] = set()
    for at, word in decided.items():
        if word == "yes":
            claims[at] = replace(claims[at], score=_CONFIRMED, verdict="supported", reasons=())
        elif word == "no":
            verdict: Verdict = "unsupported"
            reason = "A model that read the sources did not find it there."
            claims[at] = replace(claims[at], score=_DENIED, verdict=verdict, reasons=(reason,))
            denied.add(at)
    citations = list(review.citations)
    for place, (at, citation) in enumerate(zip(review.claim_of_citation, citations, strict=True)):
        if decided.get(at) == "yes":
            citations[place] = replace(citation, verdict="supported")
        elif at in denied:
            citations[place] = replace(citation, verdict="unsupported")
    return replace(review, claims=tuple(claims), citations=tuple(citations))
