"""Check a draft: claims, citations, and one number for the confidence in the whole.

query, evidence and draft → `CheckedDraft`. A model is asked only about claims that the fast check
leaves in doubt.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from pydantic import BaseModel

from ragstone.evidence import CheckedDraft, Draft, Evidence
from ragstone.fallback import MODEL_FAILED, Fallbacks
from ragstone.plugins import PartContext
from ragstone.prompts import render
from ragstone.protocols import Chat, MeteredChat
from ragstone.query.check.judge import GROUNDED, NOT_GROUNDED, OUT_OF_TIME
from ragstone.query.check.review import Review, measure_groundedness, review_text
from ragstone.query.ground.cite import Notation, find_text
from ragstone.query.ground.generate import is_refusal
from ragstone.query.understand.rewrite import ask_json
from ragstone.reading.markers import escape_markers
from ragstone.trace import QueryRun
from ragstone.types import NEAREST, NO_ANSWER, Claim, Query, Source

MAX_CLAIMS = 8
_MAX_SOURCES = 6
_MAX_SOURCE_CHARS = 1500
# The score of a claim that the model confirms is enough to be grounded; of one it denies, not.
_CONFIRMED, _DENIED = 0.9, 0.2
# Platt's method on one half of the question sets.
_SLOPE, _OFFSET = 0.739, -0.464


@dataclass(frozen=True, slots=True)
class ClaimChecker:
    """The check of a draft against its sources. `chat` is asked only about what is in doubt."""

    chat: Chat | None
    fallbacks: Fallbacks
    verify_timeout_s: float = 30.0
    self_judging: bool = False
    """Let the model that wrote an answer judge its claims."""

    async def check(
        self, query: Query, evidence: Evidence, draft: Draft, run: QueryRun
    ) -> CheckedDraft:
        """Separate refusals from answers, judge each claim, and compute the figures."""
        if draft.is_plain:
            return CheckedDraft(draft.text, "ungrounded")
        text = draft.text.strip()
        notation = Notation(evidence.sources, query.citation_style)
        if is_refusal(text):
            return await self._check_refusal(draft, notation, run)
        judge = self._choose_judge(query, draft)
        is_cut_off = draft.stop_reason == "length"
        review = await self._review(text, notation, run, judge, is_cut_off=is_cut_off)
        score = measure_groundedness(review.claims)
        places = find_text(evidence.short_answer, review.text)
        return CheckedDraft(
            review.text,
            citations=review.citations,
            claims=review.claims,
            is_grounded=score > GROUNDED,
            groundedness_score=round(score, 4),
            confidence=compute_confidence(evidence.probability, score),
            citation_precision=round(review.precision, 4),
            citation_recall=round(review.recall, 4),
            short_answer=evidence.short_answer if places else "",
            highlights=places,
        )

    async def _check_refusal(self, draft: Draft, notation: Notation, run: QueryRun) -> CheckedDraft:
        """Keep the nearest passage that was quoted as one that does not answer."""
        _, mark, nearest = draft.text.partition(NEAREST)
        if not mark or draft.provider != "extractive":
            # Ragstone's own refusal may say which documents there are.
            own = draft.provider == "extractive" and draft.text.startswith(NO_ANSWER)
            return CheckedDraft(draft.text if own else NO_ANSWER, "abstained")
        review = await self._review(nearest.strip(), notation, run, None)
        text = f"{NO_ANSWER}\n\n{NEAREST}\n\n{review.text}"
        return CheckedDraft(text, "abstained", citations=review.citations)

    def _choose_judge(self, query: Query, draft: Draft) -> Chat | None:
        """Return the model that may judge: never the one that wrote, unless that is wanted."""
        if self.chat is None or self.self_judging or draft.provider == "extractive":
            return self.chat
        own = getattr(self.chat, "model", "")
        judge = getattr(self.chat, "fast_model", own)
        writer = query.model or draft.model
        return self.chat if judge and judge != writer else None

    async def _review(
        self,
        text: str,
        notation: Notation,
        run: QueryRun,
        judge: Chat | None,
        *,
        is_cut_off: bool = False,
    ) -> Review:
        with run.span("check.ground") as span:
            review = await span.run_in_background(
                partial(review_text, text, notation, is_cut_off=is_cut_off)
            )
            span.count(
                claims=len(review.claims),
                citations=len(review.citations),
                attributed=review.attributed,
                repaired=review.repaired,
                groundedness_score=round(measure_groundedness(review.claims), 4),
            )
            for note in review.notes:
                span.note(note)
        doubtful = find_doubtful_claims(review.claims, review.final)
        # A model that has just failed is not asked again.
        if not doubtful or judge is None or MODEL_FAILED & set(run.degraded):
            return review
        with run.span("check.verify") as span:
            span.count(claims=len(doubtful))
            try:
                review = await verify_with_model(
                    MeteredChat(judge, span),
                    review,
                    notation.sources,
                    timeout_s=self.verify_timeout_s,
                )
            except Exception as error:  # noqa: BLE001  whatever a provider raises, the check stands
                self.fallbacks.use("without_llm_steps", run, span, error)
            span.count(groundedness_score=round(measure_groundedness(review.claims), 4))
        return review


def build(context: PartContext) -> ClaimChecker:
    return ClaimChecker(
        context.chat,
        context.fallbacks,
        context.settings.provider.timeout_s,
        context.settings.check.self_judging,
    )


def compute_confidence(probability: float, groundedness: float) -> float:
    """Estimate how probable it is that an answer is right: that the sources hold it, times how far
    they support what was written."""
    return round(calibrate_probability(probability) * min(max(groundedness, 0.0), 1.0), 4)


def calibrate_probability(probability: float) -> float:
    """Turn the probability that the sources hold the answer into a share of right answers."""
    bounded = min(max(probability, 1e-6), 1 - 1e-6)
    return 1 / (1 + math.exp(-(_SLOPE * math.log(bounded / (1 - bounded)) + _OFFSET)))


def find_doubtful_claims(claims: Sequence[Claim], final: frozenset[int] = frozenset()) -> list[int]:
    """Return the places of the claims to ask about; none when the answer as a whole is clear.

    `final` claims are left out: no model overrules an exact value, a quotation or a warning.
    Claims in another language than their source are always asked about.
    """
    is_open = NOT_GROUNDED <= measure_groundedness(claims) <= GROUNDED
    places = [
        at
        for at, claim in enumerate(claims)
        if at not in final
        and (
            (claim.verdict == "unchecked" and OUT_OF_TIME not in claim.reasons)
            or (is_open and NOT_GROUNDED <= claim.score <= GROUNDED)
        )
    ]
    return places[:MAX_CLAIMS]


class ClaimVerdict(BaseModel):
    claim: int
    supported: Literal["yes", "partly", "no"]


class Verdicts(BaseModel):
    verdicts: list[ClaimVerdict]


async def verify_with_model(
    chat: Chat, review: Review, sources: Sequence[Source], *, timeout_s: float
) -> Review:
    """Ask a model once about all claims in doubt, and return the review with its verdicts."""
    places = find_doubtful_claims(review.claims, review.final)
    if not places:
        return review
    cited = {number for at in places for number in review.claims[at].citations}
    read = [source for source in sources if source.number in cited] or list(sources)
    prompt = render(
        "verify",
        passages="\n\n".join(
            f"<passage {source.number}>\n"
            f"{escape_markers(source.text[:_MAX_SOURCE_CHARS])}\n</passage>"
            for source in read[:_MAX_SOURCES]
        ),
        claims="\n".join(f"{n}. {review.claims[at].text}" for n, at in enumerate(places, start=1)),
    )
    async with asyncio.timeout(timeout_s):
        reply = Verdicts.model_validate(await ask_json(chat, prompt, Verdicts))
    asked = [row for row in reply.verdicts if 1 <= row.claim <= len(places)]
    return _apply_verdicts(review, {places[row.claim - 1]: row.supported for row in asked})


def _apply_verdicts(review: Review, verdicts: Mapping[int, str]) -> Review:
    """Change the claims that the model confirms or denies, and their citations."""
    claims = list(review.claims)
    for at, word in verdicts.items():
        claim = claims[at]
        # Reasons stay, whatever the model says: they are facts about the source.
        reasons = () if claim.verdict == "unchecked" else claim.reasons
        if word == "yes":
            claims[at] = replace(claim, score=_CONFIRMED, verdict="supported", reasons=reasons)
        elif word == "no":
            reasons = (*reasons, "A model that read the sources did not find it there.")
            claims[at] = replace(claim, score=_DENIED, verdict="unsupported", reasons=reasons)
        elif claim.verdict == "unchecked":
            claims[at] = replace(claim, verdict="partial", reasons=reasons)
    citations = list(review.citations)
    for place, (at, citation) in enumerate(zip(review.claim_of_citation, citations, strict=True)):
        if at in verdicts:
            citations[place] = replace(citation, verdict=claims[at].verdict)
    return replace(review, claims=tuple(claims), citations=tuple(citations))
