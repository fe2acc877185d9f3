"""Answer a question: understand → retrieve → refine → ground → check, in one async generator.

Every endpoint and command drains `Pipeline.answer`. The corrective loop (CRAG, Yan et al. 2024) is
inside it and bounded by `MAX_ITERATIONS`: poor evidence is searched again in other words before
anything is written, and an answer that nothing supports is written again from other evidence.

A query has a mode. `refined` is the whole pipeline, `raw` leaves out refining and correcting (the
baseline of compare), and `plain` is a chat without documents.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace

from ragstone.admission import AdmissionQueue, leave_place
from ragstone.errors import InputError, UnusableReplyError
from ragstone.events import Event, Finished, SourcesFound, Token
from ragstone.evidence import (
    CORRECT_FROM,
    NEAR_FROM,
    Attempt,
    CheckedDraft,
    DetectedIntent,
    Draft,
    Evidence,
    Quote,
    Start,
    UnderstoodQuery,
)
from ragstone.fallback import MODEL_FAILED, FallbackLevel, Fallbacks
from ragstone.models.cache import QuestionBatcher
from ragstone.protocols import (
    Answerer,
    Chat,
    Checker,
    ContextBuilder,
    MeteredChat,
    Reader,
    Refiner,
    Retriever,
    Understander,
)
from ragstone.query.cache import EvidenceCache
from ragstone.query.check.conflict import find_conflict
from ragstone.query.check.hold import SentenceHold
from ragstone.query.ground.cite import Notation
from ragstone.query.result import build_answer, is_unsupported, keep_better
from ragstone.query.retrieve.sequential import asks_for_documents
from ragstone.query.understand.readings import repeats_answer, say_more
from ragstone.query.understand.rewrite import expand_question, find_feedback_terms
from ragstone.query.understand.understander import resolve_reading
from ragstone.reading.reader import MOST
from ragstone.settings.schema import CheckSettings
from ragstone.threads import PerLoop
from ragstone.trace import QueryRun, Span, Waterfall
from ragstone.types import Expansion, Hits, Query, RetrievedHits

_VARIANTS = 2


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Hold the parts in their slots. The refiners are a list; every other part has its place."""

    understander: Understander
    retriever: Retriever
    sequential: Retriever
    refiners: Sequence[Refiner]
    context: ContextBuilder
    reader: Reader
    answerer: Answerer
    checker: Checker
    fallbacks: Fallbacks
    options: CheckSettings
    chat: Chat | None = None
    reads_all: Retriever | None = None
    """The same search with every candidate read, where `retriever` reads only the first."""
    evidence_cache: EvidenceCache | None = None
    batcher: QuestionBatcher | None = None  # embeds questions of the same moment together
    quotes_only: bool = False
    """True when no model writes: every answer is quoted."""
    may_chat: bool = False  # a model may answer without documents (RAG_FALLBACK=chat)
    is_empty: Callable[[str], Awaitable[bool]] | None = None
    """Tells whether a collection is empty; None when another part holds the documents."""
    queue: PerLoop[AdmissionQueue] | None = None
    """Admits questions to the processor; None: all at once."""

    async def answer(
        self, query: Query, run: QueryRun, start: Start | None = None
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of one answer. `start` holds steps that were already done."""
        async with self._hold_place(run, may_refuse=start is None):
            understood, evidence = await self._gather(query, run, start)
        if understood.reply is not None:
            yield SourcesFound(())
            yield Token(understood.reply, verified=True)
            reply = CheckedDraft(understood.reply, "conversational")
            yield Finished(build_answer(understood, reply, run))
            return
        if query.mode != "plain":
            yield SourcesFound(evidence.sources)
        notation = Notation(evidence.sources, query.citation_style)
        hold = self._build_hold(query, notation, reports=run.marks_claims)
        draft: Draft | None = None
        pieces = self._write(understood.query, evidence, run)
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, Draft):
                    draft = piece
                elif hold is None:
                    yield Token(piece)
                else:
                    async for checked_piece in hold.stream(piece):
                        yield checked_piece
        assert draft is not None, "an answerer ends with its draft"
        async with self._hold_place(run):
            last = await self._finish_draft(understood.query, draft, notation, hold, run)
        for event in last:
            yield event
        async with self._hold_place(run):
            checked = await self.checker.check(understood.query, evidence, draft, run)
            best = await self._improve(understood.query, Attempt(evidence, draft, checked), run)
        yield Finished(build_answer(understood, best.checked, run, best.evidence, best.draft))

    def _hold_place(
        self, run: QueryRun, *, may_refuse: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Compute with few others at once. Nothing is written meanwhile: a reader may be slow."""
        queue = self.queue and self.queue.get()
        return queue.hold_place(run.number, may_refuse=may_refuse) if queue else nullcontext()

    def _write(
        self, query: Query, evidence: Evidence, run: QueryRun
    ) -> AsyncGenerator[str | Draft, None]:
        """Write from the evidence."""
        return self.answerer.write(query, evidence, run)

    async def _improve(self, query: Query, best: Attempt, run: QueryRun) -> Attempt:
        """Write again from other evidence while nothing supports the answer, and keep the best.

        Later attempts are not streamed: the finished answer replaces what was shown.
        """
        evidence = best.evidence
        for _ in range(self.options.max_iterations if query.mode == "refined" else 0):
            tried = len(evidence.other_wordings)
            if not is_unsupported(best, run) or tried >= self.options.max_iterations:
                break
            evidence = await self._search_again(evidence, run)
            try:
                attempt = await self._write_unseen(query, evidence, run)
            except Exception as error:  # noqa: BLE001  the answer that was shown stands
                with run.span("correct.answer") as span:
                    self.fallbacks.use("without_llm_steps", run, span, error)
                break
            best = keep_better(best, attempt, run)
        return best

    async def _write_unseen(self, query: Query, evidence: Evidence, run: QueryRun) -> Attempt:
        """Write and check one more answer that nobody sees while it is written."""
        notation = Notation(evidence.sources, query.citation_style)
        hold = self._build_hold(query, notation)
        draft: Draft | None = None
        pieces = self.answerer.write(query, evidence, run)
        async with aclosing(pieces):
            async for piece in pieces:
                if isinstance(piece, Draft):
                    draft = piece
                elif hold is not None:
                    await hold.feed(piece)
        assert draft is not None, "an answerer ends with its draft"
        await self._finish_draft(query, draft, notation, hold, run)
        return Attempt(evidence, draft, await self.checker.check(query, evidence, draft, run))

    def _build_hold(
        self, query: Query, notation: Notation, *, reports: bool = False
    ) -> SentenceHold | None:
        drops = self.options.hold_unverified
        holds = drops or query.hold_markers
        # Without sources no sentence has support: what is written then is no answer from documents.
        # What is quoted needs no check.
        if self.quotes_only or not notation.sources or not (holds or reports):
            return None
        return SentenceHold(notation, drops, holds, reports)

    async def begin(self, query: Query, run: QueryRun) -> Start:
        """Understand and search once, for two answers that share these steps."""
        async with self._hold_place(run, may_refuse=True):
            return await self._begin(query, run)

    async def _begin(self, query: Query, run: QueryRun) -> Start:
        understood = await self._understand(query, run)
        if understood.is_certain_small_talk:
            return Start(understood)
        if len(understood.query.readings) > 1:
            chosen = (await self._search_until_good(understood.query, run)).query
            understood = replace(understood, query=replace(chosen, readings=()))
        return Start(understood, await self._retrieve_or_nothing(understood.query, run))

    async def search(self, query: Query, run: QueryRun) -> RetrievedHits:
        """Retrieve and refine, whatever the text asks for."""
        async with self._hold_place(run, may_refuse=True):
            retrieved = await self.retriever.retrieve(query, run)
            return await self._refine_retrieved(query, retrieved, run)

    async def _gather(
        self, query: Query, run: QueryRun, start: Start | None
    ) -> tuple[UnderstoodQuery, Evidence]:
        """Understand, retrieve and refine: everything before the first word is written."""
        if query.mode == "plain":
            plain = replace(query, route="plain")
            return UnderstoodQuery(plain, DetectedIntent("question", 1.0, 0)), Evidence(plain)
        understood = start.understood if start else await self._understand(query, run)
        if understood.is_certain_small_talk:
            return understood, Evidence(query)
        # Two answers share one start, but each has its own mode.
        query = replace(understood.query, mode=query.mode)
        evidence = await self._find_evidence(query, run, start)
        if query.wants_more and self.quotes_only:
            evidence = say_more(evidence, query.history)
        # The documents decide: what they answer was a question.
        return understood.settle(evidence), evidence

    async def _understand(self, query: Query, run: QueryRun) -> UnderstoodQuery:
        if self.batcher is not None:
            async with leave_place():  # those that come together are embedded together
                await self.batcher.embed(query.text)
        if self.chat is not None and self.is_empty is not None:
            run.asks_model = not await self.is_empty(query.collection)
        return await self.understander.understand(query, run)

    async def _retrieve(self, query: Query, run: QueryRun) -> RetrievedHits:
        retriever = self.sequential if asks_for_documents(query) else self.retriever
        return await retriever.retrieve(query, run)

    async def _retrieve_or_nothing(self, query: Query, run: QueryRun) -> RetrievedHits:
        """Retrieve; when no search works, go on without documents where a model may chat."""
        try:
            return await self._retrieve(query, run)
        except Exception as error:  # an abstention would say that the documents hold no answer
            if not self.may_chat or isinstance(error, InputError):
                raise
            with run.span("retrieve") as span:
                self.fallbacks.use("without_context", run, span, error)
            return RetrievedHits()

    async def _retrieve_and_refine(self, query: Query, run: QueryRun) -> RetrievedHits:
        retrieved = await self._retrieve_or_nothing(query, run)
        return await self._refine_retrieved(query, retrieved, run)

    async def _refine_retrieved(
        self, query: Query, retrieved: RetrievedHits, run: QueryRun
    ) -> RetrievedHits:
        if retrieved.outline is not None:
            return retrieved
        hits, copies = await self._refine(query, retrieved.hits, run)
        crowded = copies and not retrieved.is_complete and len(hits) < query.top_k
        if crowded and self.reads_all is not None:
            # Copies of one text took the places of candidates that were found and not read.
            run.trace.waterfall = Waterfall()
            retrieved = await self.reads_all.retrieve(query, run)
            hits, _ = await self._refine(query, retrieved.hits, run)
        return replace(retrieved, hits=hits)

    async def _refine(self, query: Query, hits: Hits, run: QueryRun) -> tuple[Hits, int]:
        """Put the hits through every refiner; return them and how many copies were dropped."""
        copies = 0
        for refiner in self.refiners:
            with run.span(f"refine.{refiner.name}") as span:
                span.count(chunks_in=len(hits))
                before = hits
                try:
                    hits = await refiner.refine(query, hits, span)
                except Exception as error:  # noqa: BLE001  a refiner is optional, also that of a plug-in
                    level: FallbackLevel = "without_refine_step"
                    if refiner.name == "rerank":
                        level = "without_rerank"
                    self.fallbacks.use(level, run, span, error)
                span.count(chunks_out=len(hits))
                if refiner.name == "deduplicate":
                    copies = len(before) - len(hits)
                run.trace.waterfall.add_step(span.stage, before, hits, span.counts)
        return _cut_to_top_k(query, hits, run), copies

    async def _find_evidence(self, query: Query, run: QueryRun, start: Start | None) -> Evidence:
        if query.mode == "raw":
            retrieved = start.retrieved if start else await self._retrieve_or_nothing(query, run)
            raw = replace(retrieved, hits=_cut_to_top_k(query, retrieved.hits, run))
            return await self._grade(query, raw, run)
        if start is None and self.evidence_cache is not None:
            return await self.evidence_cache.get_or_search(query, run, self._search_until_good)
        return await self._search_until_good(query, run, start)

    async def _search_until_good(
        self, query: Query, run: QueryRun, start: Start | None = None
    ) -> Evidence:
        """Return the first evidence if it is good, else the best of all that was searched."""
        if start is None and len(query.readings) > 1:
            evidence = await self._choose_reading(query, run)
        else:
            retrieved = start.retrieved if start else await self._retrieve_or_nothing(query, run)
            retrieved = await self._refine_retrieved(query, retrieved, run)
            evidence = await self._grade(query, retrieved, run)
        for _ in range(self.options.max_iterations):
            if not self._may_search_again(evidence):
                break
            evidence = await self._search_again(evidence, run)
        return evidence

    async def _choose_reading(self, query: Query, run: QueryRun) -> Evidence:
        """Return the evidence of the reading that the documents answer best.

        If the typed words make sense alone and find an answer, nothing else is searched: a question
        that is right on its own stays right in any conversation. Other typed words come last.
        """
        best: tuple[tuple[bool, bool, float], Evidence, Waterfall] | None = None
        for reading in query.readings:
            is_typed = reading.kind == "typed"
            if is_typed and best is not None and best[1].probability >= NEAR_FROM:
                break
            run.trace.waterfall = Waterfall()
            resolved = resolve_reading(query, reading)
            hits = await self._retrieve_and_refine(resolved, run)
            evidence = await self._grade(resolved, hits, run)
            score = not repeats_answer(evidence), evidence.holds_answer, evidence.probability
            if best is None or score > best[0]:
                best = score, evidence, run.trace.waterfall
            if is_typed and evidence.holds_answer:
                break
        assert best is not None, "there is at least one reading"
        run.trace.waterfall = best[2]
        return best[1]

    async def _grade(self, query: Query, retrieved: RetrievedHits, run: QueryRun) -> Evidence:
        """Make sources of the hits, and read in them what answers."""
        with run.span("ground.context") as span:
            sources = await span.run_in_background(self.context.build, query, retrieved.hits, span)
            read = tuple(source.hit for source in sources)
            run.trace.waterfall.add_step(span.stage, retrieved.hits, read, span.counts)
        query = replace(query, outline=retrieved.outline)
        evidence = Evidence(query, sources, chunks_found=retrieved.chunks_found)
        if query.outline is not None:
            return evidence
        with run.span("check.evidence") as span:
            extract = await span.run_in_background(self.reader.read, query.text, sources)
            evidence = replace(evidence, extract=extract)
            span.count(grade=evidence.grade, probability=round(extract.probability, 4))
        return evidence

    def _may_search_again(self, evidence: Evidence) -> bool:
        # A summary reads its document in order: there is nothing to search again. Nor is there
        # where nothing is near in meaning: the collection, or what a filter leaves of it, is empty.
        query, tried = evidence.query, len(evidence.other_wordings)
        # The sources lend other words once; after that only a model has others.
        has_words = tried < self.options.max_iterations and (not tried or self.chat is not None)
        return (
            evidence.grade != "correct"
            and has_words
            and query.outline is None
            and (bool(evidence.sources) or query.method == "keyword")
        )

    async def _search_again(self, best: Evidence, run: QueryRun) -> Evidence:
        """Search in other words and return the better evidence. New evidence must be good: the
        best of several doubtful ones would only look better than it is."""
        before, run.trace.waterfall = run.trace.waterfall, Waterfall()
        with run.span("correct.search") as span:
            query = await self._reword(best, run, span)
            wording = " | ".join(one.text for one in query.expansions)
            retrieved = await self._retrieve_or_nothing(query, run)
            retrieved = await self._refine_retrieved(query, retrieved, run)
            known = {source.hit.chunk.key for source in best.sources}
            # The same sources would be worth the same.
            is_new = any(hit.chunk.key not in known for hit in retrieved.hits[:MOST])
            other = await self._grade(query, retrieved, run) if is_new else best
            kept = is_new and other.probability >= max(CORRECT_FROM, best.probability)
            span.count(
                attempt=len(best.other_wordings) + 2,
                grade_before=best.grade,
                grade=other.grade,
                probability=round(other.probability, 4),
                kept=kept,
            )
        tried = (*best.other_wordings, wording)
        if kept:
            return replace(
                other, query=best.query, other_wordings=tried, chunks_found=best.chunks_found
            )
        run.trace.waterfall = before
        return replace(best, other_wordings=tried)

    async def _reword(self, best: Evidence, run: QueryRun, span: Span) -> Query:
        """Find other words: first those of the sources, which cost nothing; then a model's."""
        query, chat = best.query, self.chat and MeteredChat(self.chat, span)
        if chat and best.other_wordings and not MODEL_FAILED & set(run.degraded):
            try:
                found = await expand_question(chat, query.text, variants=_VARIANTS)
                return replace(query, expansions=tuple(found))
            except UnusableReplyError:
                span.note("The model's other wordings could not be read.")
            except Exception as error:  # noqa: BLE001  whatever a provider raises, words are left
                # It will not answer either: the time-out is spent once and not twice.
                self.fallbacks.use("extractive_answer", run, span, error)
        text = " ".join((query.text, *find_feedback_terms(query.text, best.sources)))
        return replace(query, expansions=(*query.expansions, Expansion("feedback", text)))

    async def _finish_draft(
        self,
        query: Query,
        draft: Draft,
        notation: Notation,
        hold: SentenceHold | None,
        run: QueryRun,
    ) -> list[Event]:
        """Release what was held back, and add what another source says otherwise."""
        events: list[Event] = await hold.finish(draft, run) if hold else []
        if self.options.conflict_notice and query.mode != "plain" and query.outline is None:
            with run.span("check.conflict") as span:
                conflict = find_conflict(query.text, draft.text, notation)
                span.count(conflicts=int(conflict is not None))
            if conflict is not None:
                notice = conflict.format_notice(notation)
                if draft.quotes:
                    place = len(draft.text) + notice.index(conflict.said)
                    quote = Quote(
                        conflict.said, conflict.number, conflict.start, conflict.end, place
                    )
                    draft.quotes = (*draft.quotes, quote)
                draft.text += notice
                events.append(Token(notice, verified=True))
        return events


def _cut_to_top_k(query: Query, hits: Hits, run: QueryRun) -> Hits:
    first = hits[: query.top_k]
    if len(first) < len(hits):
        run.trace.waterfall.add_step("refine.top_k", hits, first, {"top_k": query.top_k})
    return first
