"""The way of a question, stated once: understand → retrieve → refine → ground → cite → check.

One async generator that every door drains: `ask` keeps the last event, a stream forwards them all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from ragstone.query.check.confidence import confidence
from ragstone.query.check.ground import GROUNDED, groundedness
from ragstone.query.check.review import Review, review
from ragstone.query.ground.cite import short_answers
from ragstone.query.ground.context import ContextBuilder
from ragstone.query.ground.generate import Draft, Generator
from ragstone.query.ground.markers import Notation
from ragstone.query.ground.prompt import build_prompt
from ragstone.query.ladder import Ladder, Rung
from ragstone.query.understand.understander import Understander, Understood
from ragstone.stages import Provider, Refiner, Retriever
from ragstone.trace import Trace
from ragstone.types import (
    NO_ANSWER,
    Answer,
    Event,
    Finished,
    Hits,
    Query,
    SourcesFound,
    Token,
)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The parts in their slots. The refiners stand in a row; everything else has its place."""

    understander: Understander
    retriever: Retriever
    sequential: Retriever
    refiners: Sequence[Refiner]
    context: ContextBuilder
    provider: Provider
    ladder: Ladder
    fallback: Provider | None = None
    """Writes the answer when the provider cannot."""

    async def search(self, query: Query, trace: Trace) -> Hits:
        """The evidence alone: retrieve, then refine. A summary reads its document in order."""
        if query.route == "summarize":
            return await self.sequential.retrieve(query, trace)
        return await self.refined(query, await self.retriever.retrieve(query, trace), trace)

    async def refined(self, query: Query, hits: Hits, trace: Trace) -> Hits:
        """The candidates through every refiner, down to what the prompt may hold."""
        for refiner in self.refiners:
            with trace.span(f"refine.{refiner.name}") as span:
                span.count(chunks_in=len(hits))
                before = hits
                try:
                    hits = await refiner.refine(query, hits, span)
                except Exception as error:  # noqa: BLE001  a refiner is optional, whoever wrote it
                    rung: Rung = (
                        "without_rerank" if refiner.name == "rerank" else "without_refine_step"
                    )
                    self.ladder.step_down(rung, trace, span, error)
                trace.waterfall.passed(span.stage, before, hits, span.counts)
        return hits[: query.top_k]

    async def _evidence(self, query: Query, trace: Trace) -> Hits:
        """`search`, but when no search works the answer goes on without documents."""
        try:
            return await self.search(query, trace)
        except Exception as error:  # noqa: BLE001  the last rung: whatever a store or service raises
            with trace.span("retrieve") as span:
                self.ladder.step_down("without_context", trace, span, error)
            return ()

    async def answer(self, query: Query, trace: Trace) -> AsyncIterator[Event]:
        understood = await self.understander.understand(query, trace)
        if understood.reply is not None:
            yield SourcesFound(())
            yield Token(understood.reply)
            yield Finished(answered_at_once(understood, understood.reply, trace))
            return
        hits = await self._evidence(understood.query, trace)
        async for event in self.written(understood, hits, trace):
            yield event

    async def written(
        self, understood: Understood, hits: Hits, trace: Trace
    ) -> AsyncIterator[Event]:
        """The second half: an answer from these hits, written, cited and checked."""
        query = understood.query
        with trace.span("ground.context") as span:
            sources = self.context.build(hits, span, query.citation_style)
            read = tuple(source.hit for source in sources)
            trace.waterfall.passed(span.stage, hits, read, span.counts)
        yield SourcesFound(sources)
        notation = Notation(sources, query.citation_style)
        prompt = build_prompt(query, sources)
        draft = Draft(self.provider)
        async for piece in self._generator.write(prompt, notation, trace):
            if isinstance(piece, Draft):
                draft = piece
            else:
                yield Token(piece)
        answer = self._checked(query, draft, notation, trace)
        detected = understood.detected
        yield Finished(
            replace(
                answer,
                detected_intent=detected.intent,
                intent_confidence=round(detected.confidence, 4),
                route=query.route,
            )
        )

    @property
    def _generator(self) -> Generator:
        return Generator(self.provider, self.fallback, self.ladder)

    def _checked(self, query: Query, draft: Draft, notation: Notation, trace: Trace) -> Answer:
        text = draft.text.strip()
        abstained = not text or NO_ANSWER in text
        sources = tuple(notation.sources)
        checked = Review(text or NO_ANSWER)
        if not abstained:
            with trace.span("check.ground") as span:
                checked = review(text, notation, self.context.embedder)
                span.count(
                    claims=len(checked.claims),
                    citations=len(checked.citations),
                    attributed=checked.attributed,
                    repaired=checked.repaired,
                    groundedness_score=round(groundedness(checked.claims), 4),
                )
        score = groundedness(checked.claims)
        citations, claims = checked.citations, checked.claims
        return Answer(
            query_id=query.id,
            question=query.asked or query.text,
            collection=query.collection,
            text=checked.text,
            status="abstained" if abstained else "answered",
            citations=citations,
            claims=claims,
            sources=sources,
            is_grounded=score > GROUNDED,
            groundedness_score=round(score, 4),
            confidence=0.0 if abstained else confidence(query.text, citations, sources, score),
            citation_precision=round(checked.precision, 4),
            citation_recall=round(checked.recall, 4),
            highlights=tuple(short_answers(query.text, checked.said, checked.text)),
            degraded=tuple(trace.degraded),
            notes=tuple(trace.notes()),
            provider=draft.provider.name,
            model=_model(query, draft, self.provider),
            chunks_retrieved=_retrieved(trace),
            trace=trace.as_dict(),
        )


def _model(query: Query, draft: Draft, provider: Provider) -> str:
    """The model that wrote: the one asked for, unless another provider had to step in."""
    asked = query.model if draft.provider is provider else ""
    return asked or draft.provider.model


def _retrieved(trace: Trace) -> int:
    found = (span.counts.get("chunks_in", 0) for span in trace.spans if span.stage == "fuse")
    return int(next(found, 0))


def answered_at_once(understood: Understood, reply: str, trace: Trace) -> Answer:
    """The answer to what needs no documents."""
    query, detected = understood.query, understood.detected
    return Answer(
        query_id=query.id,
        question=query.text,
        collection=query.collection,
        text=reply,
        status="answered",
        confidence=round(detected.confidence, 4),
        degraded=tuple(trace.degraded),
        notes=tuple(trace.notes()),
        provider="none",
        detected_intent=detected.intent,
        intent_confidence=round(detected.confidence, 4),
        route="conversational",
        trace=trace.as_dict(),
    )
