"""The way of a question, stated once: understand → retrieve → refine → ground → check.

One async generator that every door drains: `ask` keeps the last event, a stream forwards them all.
The corrective loop (`check/correct.py`) takes the same steps, some of them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace

from ragstone.errors import InputError, UnusableReplyError
from ragstone.index.analyze import STOP_WORDS, terms
from ragstone.protocols import Chat, Refiner, Retriever
from ragstone.query.cache import FoundBefore
from ragstone.query.check.conclude import Concluder, SentenceHold
from ragstone.query.check.conflict import find_conflict
from ragstone.query.check.review import NOT_GROUNDED
from ragstone.query.evidence import CORRECT_FROM, Evidence
from ragstone.query.fallback import MODEL_FAILED, Ladder, Rung
from ragstone.query.ground.context import ContextBuilder
from ragstone.query.ground.generate import Draft, Generator
from ragstone.query.ground.markers import Notation
from ragstone.query.ground.prompt import build_prompt
from ragstone.query.understand.rewrite import widen
from ragstone.query.understand.understander import Understander, Understood
from ragstone.reading.choose import SentenceChooser
from ragstone.reading.features import SOURCES_READ
from ragstone.trace import Span, Trace, Waterfall
from ragstone.types import (
    Answer,
    Event,
    Expansion,
    Finished,
    Hits,
    Query,
    Source,
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
    chooser: SentenceChooser
    generator: Generator
    concluder: Concluder
    ladder: Ladder
    conflict_notice: bool = True
    hold_unverified: bool = False
    reads_all: Retriever | None = None
    """The same search with every candidate read, where `retriever` reads only the first."""

    async def answer(self, query: Query, trace: Trace) -> AsyncIterator[Event]:
        understood = await self.understander.understand(query, trace)
        if understood.reply is not None:
            for event in reply_events(understood, understood.reply, trace):
                yield event
            return
        evidence = await self.gather(understood.query, trace)
        async for event in self.write(understood, evidence, trace):
            yield event

    async def search(self, query: Query, trace: Trace) -> Hits:
        """The evidence alone: retrieve, then refine. A summary reads its document in order."""
        if query.route == "summarize":
            return await self.sequential.retrieve(query, trace)
        hits = await self.refined(query, await self.retriever.retrieve(query, trace), trace)
        if self.reads_all is not None and len(hits) < query.top_k and _copies_crowd(trace):
            trace.waterfall = Waterfall()
            hits = await self.refined(query, await self.reads_all.retrieve(query, trace), trace)
        return hits

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

    async def gather(self, query: Query, trace: Trace) -> Evidence:
        """Search, make sources of the hits, and grade them."""
        return await self.graded(query, await self.found(query, trace), trace)

    async def graded(self, query: Query, hits: Hits, trace: Trace) -> Evidence:
        """Hits as sources, with how probable it is that they hold the answer."""
        with trace.span("ground.context") as span:
            sources = await span.aside(
                self.context.build, hits, span, style=query.citation_style, question=query.text
            )
            read = tuple(source.hit for source in sources)
            trace.waterfall.passed(span.stage, hits, read, span.counts)
        with trace.span("check.evidence") as span:
            probability = 0.0
            try:
                choice = await span.aside(self.chooser.choose, query.text, sources)
                probability = choice.probability
            except Exception as error:  # noqa: BLE001  an embedder may fail; ungraded is doubtful
                self.ladder.step_down("without_grade", trace, span, error)
            evidence = Evidence(query, sources, probability)
            span.count(grade=evidence.grade, probability=round(probability, 4))
        return evidence

    async def found(self, query: Query, trace: Trace) -> Hits:
        """`search`, but when no search works the answer goes on without documents."""
        try:
            return await self.search(query, trace)
        except InputError:  # not the search's fault, and no better without it
            raise
        except Exception as error:  # noqa: BLE001  the last rung: whatever a store or service raises
            with trace.span("retrieve") as span:
                self.ladder.step_down("without_context", trace, span, error)
            return ()

    async def write(
        self, understood: Understood, evidence: Evidence, trace: Trace
    ) -> AsyncIterator[Event]:
        """Ground and check: sources, tokens as they come, and the finished answer."""
        query, sources = understood.query, evidence.sources
        yield SourcesFound(sources)
        notation = Notation(sources, query.citation_style)
        hold = SentenceHold(notation, self.context.embedder) if self.hold_unverified else None
        draft = Draft(self.generator.provider)
        prompt = build_prompt(query, sources, order=self.context.options.order)
        async for piece in self.generator.write(prompt, notation, trace):
            if isinstance(piece, Draft):
                draft = piece
            elif ready := hold.feed(piece) if hold else piece:
                yield Token(ready, verified=hold is not None)
        for rest in self._last_words(query, draft, notation, hold, trace):
            yield rest
        yield Finished(await self.concluder.conclude(understood, evidence, draft, trace))

    def _last_words(
        self, query: Query, draft: Draft, notation: Notation, hold: SentenceHold | None,
        trace: Trace,
    ) -> Iterator[Token]:  # fmt: skip
        """What was held back and may go out, and what another source says otherwise."""
        if hold is not None:
            if rest := hold.close():
                yield Token(rest, verified=True)
            draft.text = hold.released
            if hold.withheld:
                with trace.span("ground.hold") as span:
                    span.count(sentences_withheld=len(hold.withheld))
                    span.note(f"{len(hold.withheld)} sentences that no source supports were left "
                              "out.")  # fmt: skip
        if self.conflict_notice:
            with trace.span("check.conflict") as span:
                conflict = find_conflict(query.text, draft.text, notation)
                span.count(conflicts=int(conflict is not None))
            if conflict is not None:
                notice = conflict.notice(notation)
                draft.text += notice
                yield Token(notice, verified=True)


def _copies_crowd(trace: Trace) -> bool:
    """Whether copies of one text took the places of what was found and not read."""
    said = {span.stage: span.counts for span in trace.spans}
    fused, unique = said.get("fuse", {}), said.get("refine.deduplicate", {})
    found = min(fused.get("chunks_in", 0), fused.get("initial_k", 0))
    dropped = unique.get("chunks_in", 0) > unique.get("chunks_out", 0)
    return bool(dropped and fused.get("chunks_out", 0) < found)


def reply_events(understood: Understood, reply: str, trace: Trace) -> Iterator[Event]:
    """The events of what needs no documents."""
    yield SourcesFound(())
    yield Token(reply, verified=True)
    yield Finished(answered_at_once(understood, reply, trace))


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


_VARIANTS = 2
_FEEDBACK_SOURCES = 3
_FEEDBACK_TERMS = 6


@dataclass(frozen=True, slots=True)
class CorrectiveLoop:
    """The pipeline's verbs, `answer` and `search`, with further attempts where they are needed."""

    line: Pipeline
    max_iterations: int
    chat: Chat | None
    ladder: Ladder
    found: FoundBefore | None = None

    async def search(self, query: Query, trace: Trace) -> Hits:
        return await self.line.search(query, trace)

    async def answer(self, query: Query, trace: Trace) -> AsyncGenerator[Event, None]:
        understood = await self.line.understander.understand(query, trace)
        if understood.reply is not None:
            for event in reply_events(understood, understood.reply, trace):
                yield event
            return
        evidence = await self._evidence(understood.query, trace)
        answer: Answer | None = None
        async for event in self.line.write(understood, evidence, trace):
            if isinstance(event, Finished):
                answer = event.answer
            else:
                yield event
        assert answer is not None, "a line always ends with Finished"
        yield Finished(await self._improved(understood, evidence, answer, trace))

    async def _evidence(self, query: Query, trace: Trace) -> Evidence:
        if self.found is None:
            return await self._searched(query, trace)
        return await self.found.evidence(query, trace, self._searched)

    async def _searched(self, query: Query, trace: Trace) -> Evidence:
        """The first evidence if it is good, else the best of all that was searched for."""
        best = await self.line.gather(query, trace)
        while self._may_search_again(best):
            best = await self._searched_again(best, trace)
        return best

    def _may_search_again(self, evidence: Evidence) -> bool:
        # A summary reads its document in order: there is nothing to search for again. Nor is there
        # where nothing is near in meaning: the collection, or what a filter leaves of it, is empty.
        query = evidence.query
        return (
            evidence.grade != "correct"
            and self._has_other_words(evidence)
            and query.route != "summarize"
            and (bool(evidence.sources) or query.method == "keyword")
        )

    def _has_other_words(self, evidence: Evidence) -> bool:
        """The sources lend theirs once; after that only a model has others."""
        tried = len(evidence.tried)
        return tried < self.max_iterations and (not tried or self.chat is not None)

    async def _searched_again(self, best: Evidence, trace: Trace) -> Evidence:
        """One more search in other words; the better of the two. A new one must be good: the best
        of several doubtful ones would only look better than it is."""
        before, trace.waterfall = trace.waterfall, Waterfall()
        with trace.span("correct.search") as span:
            query = await self._reworded(best, trace, span)
            wording = " | ".join(one.text for one in query.expansions)
            hits = await self.line.found(query, trace)
            known = {source.hit.chunk.key for source in best.sources}
            # The same sources would be worth the same.
            is_new = any(hit.chunk.key not in known for hit in hits[:SOURCES_READ])
            other = await self.line.graded(query, hits, trace) if is_new else best
            kept = is_new and other.probability >= max(CORRECT_FROM, best.probability)
            span.count(
                attempt=len(best.tried) + 2,
                grade_before=best.grade,
                grade=other.grade,
                probability=round(other.probability, 4),
                kept=kept,
            )
        tried = (*best.tried, wording)
        if kept:
            return replace(other, query=best.query, tried=tried)
        trace.waterfall = before
        return replace(best, tried=tried)

    async def _reworded(self, best: Evidence, trace: Trace, span: Span) -> Query:
        """Other words for the question: first those that its sources share, which cost nothing;
        then a model's."""
        query = best.query
        works = self.chat is not None and not MODEL_FAILED & set(trace.degraded)
        if self.chat is not None and works and best.tried:
            try:
                found = await widen(self.chat, query.text, variants=_VARIANTS)
                return replace(query, expansions=tuple(found))
            except UnusableReplyError:
                span.note("The model's other wordings could not be read.")
            except Exception as error:  # noqa: BLE001  whatever a provider raises, words are left
                # It will not answer either: the time-out is spent once and not twice.
                self.ladder.step_down("extractive_answer", trace, span, error)
        text = " ".join((query.text, *telling_terms(query.text, best.sources)))
        return replace(query, expansions=(*query.expansions, Expansion("feedback", text)))

    async def _improved(
        self, understood: Understood, evidence: Evidence, answer: Answer, trace: Trace
    ) -> Answer:
        """Once more from other evidence while nothing supports the answer. Not shown as it is
        written: the finished answer replaces what was streamed."""
        best = answer
        while _unsupported(best) and len(evidence.tried) < self.max_iterations:
            evidence = await self._searched_again(evidence, trace)
            with trace.span("correct.answer") as span:
                async for event in self.line.write(understood, evidence, trace):
                    if isinstance(event, Finished):
                        better = event.answer.groundedness_score > best.groundedness_score
                        best = event.answer if better else best
                        span.count(attempt=len(evidence.tried) + 1, kept=better)
        return replace(best, trace=trace.as_dict()) if best is not answer else best


def _unsupported(answer: Answer) -> bool:
    return (
        answer.status == "answered"
        and bool(answer.sources)
        and bool(answer.claims)
        and answer.groundedness_score < NOT_GROUNDED
        # The next rung wrote it already; what failed before would fail again.
        and "extractive_answer" not in answer.degraded
    )


def telling_terms(question: str, sources: Sequence[Source]) -> list[str]:
    """Words that the first sources share and the question lacks (pseudo relevance feedback)."""
    asked = set(terms(question))
    counts: Counter[str] = Counter()
    for source in sources[:_FEEDBACK_SOURCES]:
        words = {w.strip(".,;:!?()'’\"").casefold() for w in source.text.split()}
        counts.update(w for w in words if len(w) > 3 and w.isalpha() and w not in STOP_WORDS
                      and not asked & set(terms(w)))  # fmt: skip
    return sorted(counts, key=lambda word: (-counts[word], word))[:_FEEDBACK_TERMS]
