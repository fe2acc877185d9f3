"""A draft → the answer: refusals told from answers, claims judged, figures put together."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.query.check.abstain import is_refusal
from ragstone.query.check.confidence import confidence
from ragstone.query.check.evidence import Evidence
from ragstone.query.check.ground import GROUNDED, groundedness
from ragstone.query.check.review import Review, review
from ragstone.query.check.verify import in_doubt, verified
from ragstone.query.ground.cite import short_answers
from ragstone.query.ground.generate import Draft
from ragstone.query.ground.markers import Notation
from ragstone.query.ladder import MODEL_FAILED, Ladder
from ragstone.query.understand.understander import Understood
from ragstone.stages import Chat, Embedder
from ragstone.trace import Trace
from ragstone.types import NO_ANSWER, Answer, Query


@dataclass(frozen=True, slots=True)
class Concluder:
    """Checks a draft against its sources. `chat` is asked only about what is in doubt."""

    embedder: Embedder
    chat: Chat | None
    ladder: Ladder
    verify_timeout_s: float = 30.0

    async def conclude(
        self, understood: Understood, evidence: Evidence, draft: Draft, trace: Trace
    ) -> Answer:
        query, detected = understood.query, understood.detected
        notation = Notation(evidence.sources, query.citation_style)
        text = draft.text.strip()
        abstained = is_refusal(text)
        checked = Review(NO_ANSWER) if abstained else await self._checked(text, notation, trace)
        score = groundedness(checked.claims)
        return Answer(
            query_id=query.id,
            question=query.asked or query.text,
            collection=query.collection,
            text=checked.text,
            status="abstained" if abstained else "answered",
            citations=checked.citations,
            claims=checked.claims,
            sources=evidence.sources,
            is_grounded=score > GROUNDED,
            groundedness_score=round(score, 4),
            confidence=0.0 if abstained else confidence(evidence.probability, score),
            citation_precision=round(checked.precision, 4),
            citation_recall=round(checked.recall, 4),
            highlights=tuple(short_answers(query.text, checked.said, checked.text)),
            degraded=tuple(trace.degraded),
            detected_intent=detected.intent,
            intent_confidence=round(detected.confidence, 4),
            route=query.route,
            notes=tuple(trace.notes()),
            provider=draft.provider.name,
            model=_model(query, draft),
            chunks_retrieved=_retrieved(trace),
            trace=trace.as_dict(),
        )

    async def _checked(self, text: str, notation: Notation, trace: Trace) -> Review:
        with trace.span("check.ground") as span:
            checked = await span.aside(review, text, notation, self.embedder)
            span.count(
                claims=len(checked.claims),
                citations=len(checked.citations),
                attributed=checked.attributed,
                repaired=checked.repaired,
                groundedness_score=round(groundedness(checked.claims), 4),
            )
        doubtful = in_doubt(checked.claims)
        # A model that has just failed is not asked again.
        if not doubtful or self.chat is None or MODEL_FAILED & set(trace.degraded):
            return checked
        with trace.span("check.verify") as span:
            span.count(claims=len(doubtful))
            try:
                checked = await verified(
                    self.chat, checked, notation.sources, timeout_s=self.verify_timeout_s
                )
            except Exception as error:  # noqa: BLE001  whatever a provider raises, the check stands
                self.ladder.step_down("without_llm_steps", trace, span, error)
            span.count(groundedness_score=round(groundedness(checked.claims), 4))
        return checked


def _model(query: Query, draft: Draft) -> str:
    """The model that wrote: the one asked for, unless another provider had to step in."""
    return draft.provider.model if draft.stepped_in else query.model or draft.provider.model


def _retrieved(trace: Trace) -> int:
    searches = ("fuse", "repeat.evidence")
    found = (span.counts.get("chunks_in", 0) for span in trace.spans if span.stage in searches)
    return int(next(found, 0))
