"""The corrective loop (CRAG, Yan et al. 2024) around the straight line: evidence that does not
seem to hold the answer is searched for again in other words, before anything is written; an
answer that nothing supports is written once more from other evidence.

Bounded by `MAX_ITERATIONS`, every attempt in the trace, the best one kept. Where the first
evidence is good nothing is done twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from ragstone.errors import UnusableReplyError
from ragstone.query.check.evidence import CORRECT_FROM, Evidence
from ragstone.query.check.ground import NOT_GROUNDED
from ragstone.query.found import FoundBefore
from ragstone.query.ground.choose.features import SOURCES_READ
from ragstone.query.ladder import MODEL_FAILED, Ladder
from ragstone.query.pipeline import Pipeline, reply_events
from ragstone.query.understand.rewrite import widen
from ragstone.query.understand.understander import Understood
from ragstone.stages import Chat
from ragstone.stores.analyze import STOP_WORDS, terms
from ragstone.trace import Span, Trace, Waterfall
from ragstone.types import Answer, Event, Expansion, Finished, Hits, Query, Source

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
