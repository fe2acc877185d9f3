"""The engine: everything an endpoint or a command needs, in one object."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ragstone.catalog import journal
from ragstone.catalog.collections import CollectionInfo
from ragstone.catalog.database import Database
from ragstone.catalog.documents import SqlCatalog, refuse_other_embedder
from ragstone.catalog.journal import JournalDesk
from ragstone.errors import StoreError
from ragstone.files import prepare
from ragstone.history import History
from ragstone.ingest.intake import IngestOptions, Intake, Upload, UploadOptions
from ragstone.models.cache import QuestionBatcher, remembered
from ragstone.plugins import IndexContext, PartContext, find
from ragstone.protocols import Catalog, Chat, Embedder, Index, Moderator, Provider
from ragstone.query.build import assemble
from ragstone.query.cache import asked
from ragstone.query.check.review import grounding
from ragstone.query.compare import SideEvent, SideName, compare
from ragstone.query.conversation import Memory
from ragstone.query.explain import Explainer, Explanation
from ragstone.query.fallback import Ladder
from ragstone.query.moderate import Moderation
from ragstone.query.plain import plain_chat
from ragstone.query.request import QueryOptions, build_query, check_collection
from ragstone.query.shared import RepeatedAnswers
from ragstone.settings import Settings, load_settings
from ragstone.trace import Trace
from ragstone.types import (
    DEFAULT_COLLECTION,
    LOCAL_OWNER,
    Answer,
    Comparison,
    Document,
    Event,
    Finished,
    Grounding,
    Hits,
    IngestReport,
    Message,
    Query,
)

if TYPE_CHECKING:
    from os import PathLike


log = logging.getLogger(__name__)


class Engine:
    """Ask, stream, search and ingest. Any part can be handed in ready-made.

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
        settings: Settings | None = None,
        *,
        embedder: Embedder | None = None,
        catalog: Catalog | None = None,
        index: Index | None = None,
        provider: Provider | None = None,
        moderator: Moderator | None = None,
    ) -> None:
        self.settings = settings or load_settings().settings
        self.embedder = embedder or find("embedder", self.settings.embed.name)(self.settings)
        directory = prepare(self.settings.data.directory)
        self.catalog = catalog or open_catalog(self.settings, directory)
        self.index: Index = index or find("index", self.settings.index.kind)(
            IndexContext(self.settings, self.catalog, self.embedder)
        )
        self.intake = Intake(
            self.catalog, self.index, self.embedder, self.settings.ingest, directory
        )
        self.records, self.collections = self.intake.records, self.intake.collections
        self.originals = self.intake.originals
        memory = remembered(self.embedder)
        self._together = QuestionBatcher(memory)
        context = PartContext(
            self.settings, memory, self.index,
            # Answers are chosen and checked with weights that were fitted to the shipped embedder.
            reader=(
                None if embedder or self.settings.embed.name == "builtin"
                else remembered(find("embedder", "builtin")(self.settings))
            ),
        )  # fmt: skip
        self.provider: Provider = provider or find("provider", self.settings.provider.name)(context)
        self.ladder = Ladder()
        self.moderator = moderator or _moderator(context)
        self._moderation = Moderation(self.moderator, self.settings.moderate, self.ladder)
        self._pipeline = assemble(context, self.catalog, self.provider, self.ladder)
        self._repeated = RepeatedAnswers(
            self.catalog, self.index, self.provider,
            # What another service holds may change at any time, and nobody tells us.
            most=0 if self.settings.retrieve.chunkenizer_url else self.settings.data.answer_cache,
            most_bytes=int(self.settings.data.answer_cache_mb * 1_000_000),
            query_log=self.settings.journal.query_log,
        )  # fmt: skip
        self._desk = JournalDesk(self.catalog)
        self.history = History(self.catalog, self.settings.journal)
        chat = self.provider if isinstance(self.provider, Chat) else None
        self.memory = Memory(
            self.history.sessions, self.embedder, self.settings.memory, chat, self.ladder
        )

    async def ask(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """Answer a question; wait for the whole answer."""
        answer: Answer | None = None
        async for event in self.stream(question, **options):
            if isinstance(event, Finished):
                answer = event.answer
        assert answer is not None, "a stream always ends with Finished"
        return answer

    def ask_sync(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """Do the same in code without an event loop."""

        async def asked() -> Answer:
            try:
                return await self.ask(question, **options)
            finally:
                await self.close_connections()

        return asyncio.run(asked())

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
        query = await self._query(question, options)
        trace = Trace(options.get("request_id") or query.id)
        await self._moderation.question(query.said, trace)
        query = await self._with_history(query, options, trace)
        async with aclosing(self._repeated.events(query, trace, self._anew)) as events:
            async for event in events:
                yield await self._remembered(event, options)

    async def _anew(self, query: Query, trace: Trace) -> AsyncGenerator[Event, None]:
        await self._together.embed(query.text)
        events = self._moderation.judged(self._pipeline.answer(query, trace), trace)
        async for event in events:
            yield event

    async def compare(self, question: str, **options: Unpack[QueryOptions]) -> Comparison:
        """Answer twice from one retrieval, before and after refine; remember the second one."""
        answers: dict[SideName, Answer] = {}
        async for one in self.compare_stream(question, **options):
            if isinstance(one.event, Finished):
                answers[one.side] = one.event.answer
        return Comparison(**answers)

    async def compare_stream(
        self, question: str, **options: Unpack[QueryOptions]
    ) -> AsyncGenerator[SideEvent, None]:
        """Yield the events of both answers as they happen."""
        query = await self._query(question, options)
        trace = Trace(options.get("request_id") or query.id)
        await self._moderation.question(query.said, trace)
        query = await self._with_history(query, options, trace)
        async with aclosing(compare(self._pipeline.line, query, trace)) as events:
            async for one in events:
                for event in await self._moderation.passed(one.event, trace):
                    kept = one.side == "enhanced"
                    yield SideEvent(
                        one.side, await self._remembered(event, options) if kept else event
                    )

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        temperature: float | None = None,
        model: str | None = None,
        request_id: str = "",
    ) -> AsyncGenerator[Event, None]:
        """Chat without documents: the provider gets the messages exactly as they are."""
        given = self.settings.ground.temperature if temperature is None else temperature
        trace = Trace(request_id or uuid.uuid4().hex)
        await self._moderation.question(messages, trace)
        events = plain_chat(
            self.provider, messages, temperature=given, model=model or "", trace=trace
        )
        async for event in self._moderation.judged(events, trace):
            if isinstance(event, Finished):
                Trace.tell(event.answer)
            yield event

    async def _with_history(self, query: Query, options: QueryOptions, trace: Trace) -> Query:
        session_id = options.get("session_id")
        if not session_id:
            return query
        owner = options.get("owner") or LOCAL_OWNER
        recalled = await self.memory.recall(owner, session_id, query, trace)
        return replace(query, history=(*recalled, *query.history))

    async def _remembered(self, event: Event, options: QueryOptions) -> Event:
        if not isinstance(event, Finished):
            return event
        return Finished(await self._remember(event.answer, options))

    async def _remember(self, answer: Answer, options: QueryOptions) -> Answer:
        """Write an answer down; a store that cannot take it costs the memory, not the answer."""
        try:
            await self._write_down(answer, options)
        except StoreError as error:
            log.warning("an answer was not written down: %s", type(error).__name__)
            answer = replace(answer, degraded=(*answer.degraded, "not_remembered"))
        Trace.tell(answer)
        return answer

    async def _write_down(self, answer: Answer, options: QueryOptions) -> None:
        """Into the journal, as far as it may know, and into the session, if there is one."""
        owner, session_id = options.get("owner") or LOCAL_OWNER, options.get("session_id")
        query_log = self.settings.journal.query_log
        if query_log != "off":
            await self._desk.write(
                journal.entry(
                    answer, query_log=query_log, owner=owner, session_id=session_id,
                    upload_id=options.get("upload_id"),
                )
            )  # fmt: skip
        if session_id:
            await self.memory.keep(owner, session_id, answer)

    async def search(self, question: str, **options: Unpack[QueryOptions]) -> Hits:
        """Find the evidence alone, without an answer; search for the question as it stands."""
        return (await self.search_traced(question, **options))[0]

    async def search_traced(
        self, question: str, **options: Unpack[QueryOptions]
    ) -> tuple[Hits, Trace]:
        """Do the same, and return the record of how the hits came about."""
        query = await self._query(question, options)
        trace = Trace(options.get("request_id") or query.id)
        await self._moderation.question(query.said, trace)
        return await self._pipeline.search(query, trace), trace

    async def explain(
        self, question: str, chunk_id: str, **options: Unpack[QueryOptions]
    ) -> Explanation:
        """Explain why a chunk is, or is not, among the hits of a question."""
        _, trace = await self.search_traced(question, **options)
        query = await self._query(question, options)
        waterfall = trace.waterfall.as_dict()
        return await asyncio.to_thread(self._explainer().explain, query, waterfall, chunk_id)

    def explain_past(self, query_id: str, chunk_id: str) -> Explanation:
        """Do the same for a query of the journal, by what was written down at the time."""
        entry = self.catalog.query(query_id)
        query = Query(query_id, entry["query"] or "", collection=entry["collection"])
        return self._explainer().explain(query, entry["trace"]["waterfall"], chunk_id)

    def _explainer(self) -> Explainer:
        return Explainer(self.catalog, self.index, self.embedder, self.settings.retrieve)

    async def check(
        self, answer: str, facts: Sequence[str], *, threshold: float = 0.6
    ) -> Grounding:
        """Check an answer that anybody wrote against `facts`, claim by claim."""
        return await asyncio.to_thread(grounding, answer, facts, self.embedder, threshold=threshold)

    async def ingest(
        self, paths: Sequence[str | PathLike[str]], **options: Unpack[IngestOptions]
    ) -> IngestReport:
        """Read files, folders and globs into a collection; what is unchanged is left alone.

        `prune` removes what the folders no longer hold; `again` reads even what is unchanged.
        """
        return await self.intake.ingest(paths, **options)

    async def ingest_uploads(
        self, uploads: Sequence[Upload], **options: Unpack[UploadOptions]
    ) -> IngestReport:
        """Read files that were received; a name that is known already is a new version of it."""
        return await self.intake.ingest_uploads(uploads, **options)

    def upload(self, upload_id: str) -> dict[str, Any]:
        """Tell how far an upload is, and what became of its files."""
        return self.intake.upload(upload_id)

    def original(self, document: Document) -> Path:
        """Find the file that a document was read from, as it came."""
        return self.intake.original(document)

    async def delete(self, document_id: str) -> None:
        """Remove a document completely: text, vectors, terms, and the file as it came."""
        await asyncio.to_thread(self.intake.delete, document_id)

    def documents(
        self, collection: str = DEFAULT_COLLECTION, *, skip: int = 0, limit: int | None = None
    ) -> list[Document]:
        """List the documents of a collection by name, also those that could not be read."""
        return self.catalog.documents(check_collection(collection), skip=skip, limit=limit)

    async def create_collection(self, name: str) -> CollectionInfo:
        """Make a collection with nothing in it yet."""
        return await asyncio.to_thread(self.intake.create_collection, name)

    async def delete_collection(self, name: str) -> None:
        """Remove a collection completely: documents, index, originals, and what was asked of it."""
        await asyncio.to_thread(self.intake.delete_collection, name)

    def close(self) -> None:
        """Close the stores; `async with` does it by itself."""
        self.intake.close()
        close = getattr(self.embedder, "close", None)  # one behind HTTP pools connections
        if close is not None:
            close()
        self.index.close()
        self.catalog.close()

    async def close_connections(self) -> None:
        """Close the connections of the running event loop: a provider may pool them."""
        aclose = getattr(self.provider, "aclose", None)
        if aclose is not None:
            await aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.close_connections()
        self.close()

    async def _query(self, question: str, options: QueryOptions) -> Query:
        query = build_query(question, options, self.settings)
        name = self.embedder.name
        await asked(self.catalog, refuse_other_embedder, self.catalog, query.collection, name)
        return query


def _moderator(context: PartContext) -> Moderator | None:
    name = context.settings.moderate.name
    return find("moderator", name)(context) if name else None


def open_catalog(settings: Settings, directory: Path) -> Catalog:
    url = settings.data.database_url.get_secret_value()
    return SqlCatalog(Database.at_url(url) if url else Database.in_directory(directory))
