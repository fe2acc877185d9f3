"""Ask, stream, search and ingest: everything an endpoint or a command needs, in one object.

async with Engine() as engine:
    await engine.ingest(["manuals/"])
    answer = await engine.ask("How long is the notice period?")
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from ragstone.catalog.collections import CollectionInfo
from ragstone.catalog.feedback import Feedback, Vote
from ragstone.errors import InputError
from ragstone.events import Comparison, Event, Finished, SideEvent, SideName
from ragstone.files import check_collection
from ragstone.ingest.intake import IngestOptions, UploadOptions
from ragstone.ingest.jobs import Upload
from ragstone.parts import EngineParts
from ragstone.protocols import (
    Answerer,
    Catalog,
    Checker,
    ContextBuilder,
    Embedder,
    Index,
    Moderator,
    Provider,
    Refiner,
    Retriever,
    Splitter,
    Understander,
)
from ragstone.query.batch import BatchItem, QuestionContext, answer_in_order, build_context
from ragstone.query.build import (
    GivenParts,
)
from ragstone.query.check.review import check_against_facts
from ragstone.query.explain import Explainer, Explanation
from ragstone.query.middleware import (
    EventStream,
    merge_streams,
)
from ragstone.query.request import QueryOptions, build_query
from ragstone.query.result import translate_refusal
from ragstone.reports import IngestReport
from ragstone.settings import Settings
from ragstone.threads import background_loop, run_in_thread, run_in_thread_if_blocking
from ragstone.trace import QueryRun, Trace
from ragstone.types import (
    DEFAULT_COLLECTION,
    LOCAL_OWNER,
    Answer,
    Document,
    Grounding,
    Hits,
    Query,
)

if TYPE_CHECKING:
    from os import PathLike

    Paths = str | PathLike[str] | Sequence[str | PathLike[str]]

_T = TypeVar("_T")


class Engine(EngineParts):
    """Answer questions from documents. Any part can be given ready-made.

    Making an engine does no I/O. Its parts are opened at first use, or all at once by `open`.
    A path in place of settings is the directory of documents and index. Without an event loop use
    `with Engine()` and the methods that end in `_sync`.

    Example:

        import asyncio
        from ragstone import Engine

        async def main() -> None:
            async with Engine() as engine:
                report = await engine.ingest(["contracts/"])
                print(len(report.files), "files,", len(report.of("failed")), "failed")
                answer = await engine.ask("How much is the rent?")
                print(answer.status, answer.text)
                for citation in answer.citations:
                    print(citation.document_name, citation.page, citation.snippet)

        asyncio.run(main())
    """

    def __init__(
        self,
        settings: Settings | str | PathLike[str] | None = None,
        *,
        embedder: Embedder | None = None,
        catalog: Catalog | None = None,
        index: Index | None = None,
        provider: Provider | None = None,
        moderator: Moderator | None = None,
        splitter: Splitter | None = None,
        understander: Understander | None = None,
        retriever: Retriever | None = None,
        refiners: Sequence[Refiner] | None = None,
        reranker: Refiner | None = None,
        context: ContextBuilder | None = None,
        answerer: Answerer | None = None,
        checker: Checker | None = None,
    ) -> None:
        given = GivenParts(
            embedder=embedder,
            catalog=catalog,
            index=index,
            provider=provider,
            moderator=moderator,
            splitter=splitter,
            understander=understander,
            retriever=retriever,
            refiners=refiners,
            reranker=reranker,
            context=context,
            answerer=answerer,
            checker=checker,
        )
        super().__init__(settings, given)
        self._used_background_loop = False

    def _open_sibling(self, settings: Settings) -> Self:
        given = {one.name: getattr(self._given, one.name) for one in fields(GivenParts)}
        sibling = type(self)(settings, **given | {"embedder": None, "index": None})
        sibling.share_parts(self)
        return sibling

    def open(self) -> Self:
        """Open every part, and remove what has expired. Raise an error if one cannot be opened."""
        _ = self.moderator, self.wrapped, self.intake
        self.history.delete_expired()
        return self

    async def ask(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """Return the whole answer to a question."""
        answer: Answer | None = None
        async with aclosing(self.stream(question, **options)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    answer = event.answer
        assert answer is not None, "a stream always ends with Finished"
        return answer

    def ask_sync(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """Run `ask` from code without an event loop, on one background loop for all calls."""
        return self._run(self.ask(question, **options))

    def search_sync(self, question: str, **options: Unpack[QueryOptions]) -> Hits:
        """Run `search` from code without an event loop."""
        return self._run(self.search(question, **options))

    def ingest_sync(self, paths: Paths, **options: Unpack[IngestOptions]) -> IngestReport:
        """Run `ingest` from code without an event loop."""
        return self._run(self.ingest(paths, **options))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        self._used_background_loop = True
        return background_loop().run(work)

    async def ask_many(
        self, questions: Sequence[str], *, concurrency: int = 4, **options: Unpack[QueryOptions]
    ) -> AsyncGenerator[BatchItem, None]:
        """Answer many questions, some at the same time, and yield them in their order."""

        async def ask(question: str) -> Answer:
            return await self.ask(question, **options)

        items = answer_in_order(questions, ask, concurrency=concurrency)
        async with aclosing(items):
            async for item in items:
                yield item

    async def context(
        self, question: str, *, max_tokens: int | None = None, **options: Unpack[QueryOptions]
    ) -> QuestionContext:
        """Return the numbered sources for a question within a budget, for a model of your own."""
        query, run, engine = await self._begin(question, options)
        await engine.wrapped.moderation.check_question(query.messages, run)
        return await build_context(engine.pipeline, query, run, engine.embedder, max_tokens)

    async def stream(
        self, question: str, **options: Unpack[QueryOptions]
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of an answer as they happen: sources, tokens, the finished answer.

        With a `session_id` the conversation so far goes along, and this turn is added to it.

        Example:

            import asyncio
            from ragstone import Engine, Finished, SourcesFound, Token

            async def main() -> None:
                async with Engine() as engine:
                    await engine.ingest(["contracts/"])
                    async for event in engine.stream("How much is the rent?"):
                        match event:
                            case SourcesFound(sources):
                                print(len(sources), "sources")
                            case Token(text):
                                print(text, end="")
                            case Finished(answer):
                                print("\\n", answer.confidence)

            asyncio.run(main())
        """
        query, run, engine = await self._begin(question, options)
        wrapped = engine.find_wrapped(options.get("choice"))
        async with aclosing(await wrapped.handle(query, run)) as events:
            async for event in events:
                if isinstance(event, Finished):
                    Trace.notify(event.answer)
                yield translate_refusal(event, question)

    async def compare(self, question: str, **options: Unpack[QueryOptions]) -> Comparison:
        """Return two answers from one retrieval, before and after refine; store the second."""
        answers: dict[SideName, Answer] = {}
        async with aclosing(self.compare_stream(question, **options)) as events:
            async for one in events:
                if isinstance(one.event, Finished):
                    answers[one.side] = one.event.answer
        return Comparison(**answers)

    async def compare_stream(
        self, question: str, **options: Unpack[QueryOptions]
    ) -> AsyncGenerator[SideEvent, None]:
        """Yield the events of both answers. The enhanced one is the answer that `stream` gives."""
        query, run, engine = await self._begin(question, options)
        if query.mode == "plain":
            raise InputError(
                "Two answers are compared by their documents, and rag_enabled is off.",
                hint="Leave out compare, or set rag_enabled to true.",
            )
        wrapped = engine.wrapped
        await wrapped.moderation.check_question(query.messages, run)
        query = await wrapped.conversation.with_history(query, run)
        start = await engine.pipeline.begin(query, run)
        sides: dict[str, EventStream] = {}
        for side, mode in (("baseline", "raw"), ("enhanced", "refined")):
            branch = run.branch()
            one = replace(query, mode="raw" if mode == "raw" else "refined")
            stream = EventStream(engine.pipeline.answer(one, branch, start))
            sides[side] = wrapped.moderation.moderate_answer(stream, branch)

        async def store(answer: Answer) -> Answer:
            answer = await wrapped.conversation.keep_turn(answer, run)
            answer = await wrapped.history.record(answer, run, query.upload_id)
            Trace.notify(answer)
            return answer

        sides["enhanced"].then(store)
        async with aclosing(merge_streams(sides)) as events:
            async for side_name, event in events:
                shown = translate_refusal(event, question)
                yield SideEvent("enhanced" if side_name == "enhanced" else "baseline", shown)

    async def _begin(self, question: str, options: QueryOptions) -> tuple[Query, QueryRun, Self]:
        """Return the query, its run, and the engine whose embedder its collection has."""
        query = build_query(question, options, self.settings)
        engine = self
        if query.mode != "plain":
            engine = await run_in_thread_if_blocking(
                self.catalog, self.for_collection, query.collection
            )
            if engine is not self and "wrapped" not in vars(engine):
                await run_in_thread("models", getattr, engine, "wrapped")  # it loads a model
        run = QueryRun(
            options.get("request_id") or query.id,
            owner=options.get("owner") or LOCAL_OWNER,
            session_id=options.get("session_id"),
        )
        run.notes += query.notes
        run.marks_claims = options.get("mark_claims") or False
        return query, run, engine

    @property
    def is_queue_full(self) -> bool:
        """Return True when a new question would wait longer than it may."""
        queue = self.pipeline.queue
        return queue is not None and queue.get().is_full

    async def search(self, question: str, **options: Unpack[QueryOptions]) -> Hits:
        """Return the evidence alone, without an answer; the question is searched as it stands."""
        return (await self.search_traced(question, **options))[0]

    async def search_traced(
        self, question: str, **options: Unpack[QueryOptions]
    ) -> tuple[Hits, QueryRun]:
        """Run `search` and return the record of how its hits came about as well."""
        query, run, engine = await self._begin(question, options)
        await engine.wrapped.moderation.check_question(query.messages, run)
        return (await engine.pipeline.search(query, run)).hits, run

    async def explain(
        self, question: str, chunk_id: str, **options: Unpack[QueryOptions]
    ) -> Explanation:
        """Say why a chunk is, or is not, among the hits of a question."""
        _, run = await self.search_traced(question, **options)
        query, _, engine = await self._begin(question, options)
        explainer, waterfall = _build_explainer(engine), run.trace.waterfall.as_dict()
        return await run_in_thread("models", explainer.explain, query, waterfall, chunk_id)

    def explain_past(self, query_id: str, chunk_id: str) -> Explanation:
        """Say the same for a past query, by what was recorded when it was asked."""
        entry = self.catalog.query(query_id)
        query = Query(query_id, entry["query"] or "", collection=entry["collection"])
        explainer = _build_explainer(self.for_collection(query.collection))
        return explainer.explain(query, entry["trace"]["waterfall"], chunk_id)

    def rate(
        self,
        query_id: str,
        *,
        vote: Vote | None = None,
        rating: int | None = None,
        comment: str = "",
        owner: str = LOCAL_OWNER,
    ) -> Feedback:
        """Rate an answer: a vote (`up` or `down`), a rating from 1 to 5, a comment, or several.

        Rating it again replaces what the same owner said before.
        """
        return self.history.feedback.save(query_id, owner, vote, rating, comment)

    async def check(
        self, answer: str, facts: Sequence[str], *, threshold: float = 0.6
    ) -> Grounding:
        """Check, claim by claim, whether `facts` support an answer from any source."""
        return await run_in_thread(
            "models", check_against_facts, answer, facts, threshold=threshold
        )

    async def ingest(self, paths: Paths, **options: Unpack[IngestOptions]) -> IngestReport:
        """Read files, folders and globs into a collection; unchanged files are left alone.

        `prune` removes what the folders no longer hold; `again` reads even what is unchanged.
        """
        return await self.intake.ingest(paths, **options)

    async def ingest_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> IngestReport:
        """Read files that were received; a name that is known already is a new version of it."""
        return await self.intake.ingest_uploads(uploads, **options)

    async def accept_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> Future[IngestReport]:
        """Store received files so that no kill loses them; the result comes when they are read."""
        return await self.intake.accept_uploads(uploads, **options)

    def upload(self, upload_id: str) -> dict[str, Any]:
        """Return the progress of an upload and the outcome of its files."""
        return self.intake.get_upload(upload_id)

    def original(self, document: Document) -> Path:
        """Return the file that a document was read from, as it came."""
        return self.intake.find_original(document)

    async def delete(self, document_id: str) -> None:
        """Delete a document completely: text, vectors, terms, and the file as it came."""
        await run_in_thread("intake", self.intake.delete_document, document_id)

    def documents(
        self, collection: str = DEFAULT_COLLECTION, *, skip: int = 0, limit: int | None = None
    ) -> list[Document]:
        """List the documents of a collection by name, also those that could not be read."""
        return self.catalog.documents(check_collection(collection), skip=skip, limit=limit)

    async def create_collection(self, name: str) -> CollectionInfo:
        """Create an empty collection."""
        return await run_in_thread("intake", self.intake.create_collection, name)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection completely: documents, index, originals, and its history."""
        await run_in_thread("intake", self.intake.delete_collection, name)

    def close(self) -> None:
        """Close every part that was opened."""
        if self._used_background_loop:
            background_loop().run(self.close_connections())
        opened = self.__dict__
        if "intake" in opened:
            self.intake.close()
        engines: list[Engine] = [*self._siblings.values(), self]
        for one in engines:
            close = getattr(one.__dict__.get("embedder"), "close", None)  # HTTP pools connections
            if close is not None:
                close()
            if "index" in one.__dict__:
                one.index.close()
        for name in ("_derived", "catalog"):
            if name in opened:
                opened[name].close()

    async def finish_history(self, timeout_s: float = 5.0) -> bool:
        """Wait until the answers given so far are in the history; False if some still are not.

        A busy disk may be behind.
        """
        return "_journal" not in self.__dict__ or await self._journal.finish(timeout_s)

    async def close_connections(self) -> None:
        """Close the connections of provider, moderator and retriever in the running loop."""
        opened = self.__dict__
        await self.finish_history()
        parts = [opened.get("provider"), opened.get("moderator")]
        engines: list[Engine] = [self, *self._siblings.values()]
        for one in engines:
            pipeline = one.__dict__.get("pipeline")
            parts += [*one.chosen_providers, pipeline and pipeline.retriever]
        for part in parts:
            aclose = getattr(part, "aclose", None)
            if aclose is not None:
                await aclose()

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        try:
            await self.close_connections()
        finally:
            self.close()


def _build_explainer(engine: Engine) -> Explainer:
    return Explainer(engine.catalog, engine.index, engine.embedder, engine.settings.retrieve)
