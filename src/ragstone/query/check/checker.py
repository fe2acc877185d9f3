"""Check a draft: claims, citations, and one number for the confidence in the whole.

query, evidence and draft → `CheckedDraft`. A model is asked only about claims that the fast check
leaves in doubt.
"""

from __future__ import annotations

import asyncio
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
from ragstone.query.ground.cite import Notation, build_citation, find_text
from ragstone.query.ground.generate import is_refusal
from ragstone.query.understand.rewrite import ask_json
from ragstone.reading.markers import escape_markers
from ragstone.trace import QueryRun
from ragstone.types import NO_ANSWER, AnswerStatus, Claim, Query, Source

MAX_CLAIMS = 8
_MAX_SOURCES = 6
_MAX_SOURCE_CHARS = 1500
# The score of a claim that the model confirms is enough to be grounded; of one it denies, not.
_CONFIRMED, _DENIED = 0.9, 0.2


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
        if draft.status != "written":
            with run.span("check.ground") as span:
                checked = accept_quotes(query, evidence, draft)
                span.count(claims=len(checked.claims), citations=len(checked.citations))
            return checked
        text = draft.text.strip()
        if is_refusal(text):
            return CheckedDraft(text if text.startswith(NO_ANSWER) else NO_ANSWER, "abstained")
        notation = Notation(evidence.sources, query.citation_style)
        judge = self._choose_judge(query, draft)
        is_cut_off = draft.stop_reason == "length"
        review = await self._review(text, notation, run, judge, is_cut_off=is_cut_off)
        score = measure_groundedness(review.claims)
        short = evidence.extract.short_answer
        places = find_text(short, review.text)
        return CheckedDraft(
            review.text,
            citations=review.citations,
            claims=review.claims,
            is_grounded=score > GROUNDED,
            groundedness_score=round(score, 4),
            confidence=round(evidence.probability * min(max(score, 0.0), 1.0), 4),
            citation_precision=round(review.precision, 4),
            citation_recall=round(review.recall, 4),
            short_answer=short if places else "",
            highlights=places,
        )

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


def accept_quotes(query: Query, evidence: Evidence, draft: Draft) -> CheckedDraft:
    """Cite what was quoted: the reader took it from its sources, so there is nothing to judge."""
    sources, extract = evidence.sources, evidence.extract
    citations = tuple(
        build_citation(sources[quote.source - 1], (quote.start, quote.end), "supported")
        for quote in draft.quotes
    )
    if draft.status != "answered":
        status: AnswerStatus = "near" if draft.status == "near" else "abstained"
        return CheckedDraft(draft.text, status, citations)
    claims = tuple(
        Claim(quote.text, quote.place, quote.end_place, (quote.source,), "supported", 1.0)
        for quote in draft.quotes
    )
    places = find_text(extract.short_answer, draft.text)
    return CheckedDraft(
        draft.text,
        citations=citations,
        claims=claims,
        is_grounded=True,
        groundedness_score=1.0,
        confidence=round(evidence.probability, 4),
        citation_precision=1.0,
        citation_recall=1.0,
        short_answer=extract.short_answer if places else "",
        highlights=places,
    )


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
