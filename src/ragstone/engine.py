"""The engine: everything a door needs, in one object.

async with Engine() as engine:
    await engine.ingest(["manuals/"])
    answer = await engine.ask("How long is the notice period?")
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from ragstone.errors import InputError
from ragstone.filters import Filter, parse_filter
from ragstone.ingest.find import Found, find_files
from ragstone.ingest.pipeline import Ingestor, Progress, RunOptions
from ragstone.ingest.uploads import Upload, UploadDesk, fail_interrupted, still_there
from ragstone.ingest.write import bring_up_to_date
from ragstone.plugins import IndexContext, PartContext, find
from ragstone.query.assemble import assemble
from ragstone.query.check.review import grounding
from ragstone.query.explain import Explainer, Explanation
from ragstone.query.ladder import Ladder
from ragstone.query.understand.validate import clean_question
from ragstone.settings import Settings, load_settings
from ragstone.stages import Catalog, Embedder, Index, IntakeRecords, Provider
from ragstone.stores.files import prepare
from ragstone.stores.originals import Originals
from ragstone.trace import Trace
from ragstone.types import (
    DEFAULT_COLLECTION,
    Answer,
    Document,
    Event,
    Finished,
    Grounding,
    Hits,
    IngestReport,
    Message,
    Query,
    RetrievalMethod,
)

if TYPE_CHECKING:
    from os import PathLike


class QueryOptions(TypedDict, total=False):
    """What may be said with a question; what is left out or None comes from the settings."""

    collection: str
    upload_id: str | None
    document_ids: Sequence[str]
    filters: Mapping[str, Any] | Filter | None
    method: RetrievalMethod | None
    top_k: int | None
    mmr_lambda: float | None
    temperature: float | None
    history: Sequence[Message]
    request_id: str


_COLLECTION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Engine:
    """Asks, streams, searches, ingests. Any part can be handed in ready-made."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        embedder: Embedder | None = None,
        catalog: Catalog | None = None,
        index: Index | None = None,
        provider: Provider | None = None,
    ) -> None:
        self.settings = settings or load_settings().settings
        self.embedder = embedder or _shipped_embedder()
        directory = prepare(self.settings.data.directory)
        self.catalog = catalog or _open_catalog(self.settings, directory)
        self.catalog.forget_queries(older_than_days=self.settings.journal.retention_days)
        self.records: IntakeRecords = _intake_records(self.catalog)
        self.originals = Originals(directory)
        fail_interrupted(self.records, self.originals)
        self._ingesting = threading.Lock()
        self.index: Index = index or find("index", self.settings.index.kind)(
            IndexContext(self.settings, self.catalog, self.embedder)
        )
        context = PartContext(self.settings, self.embedder, self.index)
        self.provider: Provider = provider or find("provider", self.settings.provider.name)(context)
        self.ladder = Ladder()
        self._pipeline = assemble(context, self.catalog, self.provider, self.ladder)

    async def ask(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """The whole answer to a question."""
        answer: Answer | None = None
        async for event in self.stream(question, **options):
            if isinstance(event, Finished):
                answer = event.answer
        assert answer is not None, "a stream always ends with Finished"
        return answer

    def ask_sync(self, question: str, **options: Unpack[QueryOptions]) -> Answer:
        """`ask` for code without an event loop."""

        async def asked() -> Answer:
            try:
                return await self.ask(question, **options)
            finally:
                await self._close_connections()

        return asyncio.run(asked())

    async def stream(self, question: str, **options: Unpack[QueryOptions]) -> AsyncIterator[Event]:
        """The events of an answer as they happen: sources, tokens, and the finished answer."""
        query = self._query(question, options)
        trace = Trace(options.get("request_id") or query.id)
        async for event in self._pipeline.answer(query, trace):
            if isinstance(event, Finished):
                await asyncio.to_thread(
                    self.catalog.record, event.answer, query_log=self.settings.journal.query_log
                )
            yield event

    async def search(self, question: str, **options: Unpack[QueryOptions]) -> Hits:
        """The evidence alone, without an answer; the question is searched for as it stands."""
        return (await self.search_traced(question, **options))[0]

    async def search_traced(
        self, question: str, **options: Unpack[QueryOptions]
    ) -> tuple[Hits, Trace]:
        """`search` with the record of how its hits came about."""
        query = self._query(question, options)
        trace = Trace(options.get("request_id") or query.id)
        return await self._pipeline.search(query, trace), trace

    async def explain(
        self, question: str, chunk_id: str, **options: Unpack[QueryOptions]
    ) -> Explanation:
        """Why a chunk is, or is not, among the hits of a question."""
        _, trace = await self.search_traced(question, **options)
        query = self._query(question, options)
        return self._explainer().explain(query, trace.waterfall.as_dict(), chunk_id)

    def explain_past(self, query_id: str, chunk_id: str) -> Explanation:
        """The same for a query of the journal, by what was written down when it was asked."""
        entry = self.catalog.query(query_id)
        query = Query(query_id, entry["query"] or "", collection=entry["collection"])
        return self._explainer().explain(query, entry["trace"]["waterfall"], chunk_id)

    def _explainer(self) -> Explainer:
        return Explainer(self.catalog, self.index, self.embedder, self.settings.retrieve)

    async def check(
        self, answer: str, facts: Sequence[str], *, threshold: float = 0.6
    ) -> Grounding:
        """What `facts` say of an answer that anybody wrote, claim by claim."""
        return await asyncio.to_thread(grounding, answer, facts, self.embedder, threshold=threshold)

    async def ingest(
        self,
        paths: Sequence[str | PathLike[str]],
        *,
        collection: str = DEFAULT_COLLECTION,
        upload_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        password: str | None = None,
        prune: bool = False,
        again: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Read files, folders and globs into a collection; what is unchanged is left alone.

        `prune` removes what the folders no longer hold; `again` reads even what is unchanged.
        """
        found = find_files([Path(path) for path in paths], may_be_empty=prune)
        options = RunOptions(
            check_collection(collection), upload_id, metadata or {}, password, prune, again
        )
        return await self._ingest(found, options, progress)

    async def ingest_uploads(
        self,
        uploads: Sequence[Upload],
        *,
        collection: str = DEFAULT_COLLECTION,
        upload_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        password: str | None = None,
    ) -> IngestReport:
        """Read files that were received; a name that is known already is a new version of it."""
        options = RunOptions(
            check_collection(collection), upload_id or uuid.uuid4().hex, metadata or {}, password
        )
        desk = UploadDesk(self.records, self.originals, options)
        desk.begin(uploads)
        status = "failed"
        try:
            report = await self._ingest(desk.found(uploads), options, desk.note)
            status = "finished"
            return report
        finally:
            desk.finish(uploads, status, keep=self.settings.ingest.keep_originals)

    def original(self, document: Document) -> Path:
        """The file that a document was read from, as it came."""
        kept = self.originals.find(document.sha256) if document.sha256 else None
        return kept or still_there(document)

    async def _ingest(
        self, found: Found, options: RunOptions, progress: Progress | None
    ) -> IngestReport:
        self._refuse_other_embedder(options.collection)
        stop = threading.Event()
        ingestor = Ingestor(
            self.catalog, self.records, self.index, self.embedder, self.settings.ingest, options,
            progress=progress, stop=stop,
        )  # fmt: skip
        try:
            return await asyncio.to_thread(self._one_at_a_time, ingestor, found)
        except asyncio.CancelledError:
            stop.set()  # the thread stores what is ready and ends
            raise

    def _one_at_a_time(self, ingestor: Ingestor, found: Found) -> IngestReport:
        with self._ingesting:
            report = ingestor.run(found)
            days = self.settings.ingest.old_version_days
            for sha256 in self.records.expire(before=time.time() - days * 86_400):
                self.originals.remove(sha256)
            return report

    async def delete(self, document_id: str) -> None:
        """Remove a document completely: text, vectors, terms, and the file as it came."""
        document = self.catalog.document(document_id)
        last_of_its_bytes = self.records.forget_document(document_id)
        self.catalog.delete(document_id)
        if last_of_its_bytes and document.sha256:
            self.originals.remove(document.sha256)
        bring_up_to_date(self.index, document.collection)

    def documents(self, collection: str = DEFAULT_COLLECTION) -> list[Document]:
        return self.catalog.documents(check_collection(collection))

    def close(self) -> None:
        self.originals.spool.close()
        self.index.close()
        self.catalog.close()

    async def _close_connections(self) -> None:
        """Those of the running event loop: a provider may pool them."""
        aclose = getattr(self.provider, "aclose", None)
        if aclose is not None:
            await aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        await self._close_connections()
        self.close()

    def _query(self, question: str, options: QueryOptions) -> Query:
        """A question with its options filled in, or a refusal."""
        settings = self.settings
        limits = settings.understand
        text = clean_question(question, min_chars=limits.min_chars, max_chars=limits.max_chars)
        collection = check_collection(options.get("collection") or DEFAULT_COLLECTION)
        self._refuse_other_embedder(collection)
        mmr_lambda, temperature = options.get("mmr_lambda"), options.get("temperature")
        filters = options.get("filters")
        return Query(
            id=uuid.uuid4().hex,
            text=text,
            collection=collection,
            upload_id=options.get("upload_id"),
            document_ids=tuple(options.get("document_ids") or ()),
            filter=parse_filter(filters) if isinstance(filters, Mapping) else filters,
            method=options.get("method") or settings.retrieve.method,
            top_k=options.get("top_k") or settings.refine.top_k,
            mmr_lambda=settings.refine.mmr_lambda if mmr_lambda is None else mmr_lambda,
            temperature=settings.ground.temperature if temperature is None else temperature,
            history=tuple(options.get("history") or ()),
        )

    def _refuse_other_embedder(self, collection: str) -> None:
        held = self.catalog.embedder_of(collection)
        if held is not None and held != self.embedder.name:
            from ragstone.stores.catalog import other_embedder

            raise other_embedder(collection, held, self.embedder.name)


def check_collection(name: str) -> str:
    """A collection's name becomes a folder's name, so it must be a plain one."""
    if not _COLLECTION_NAME.fullmatch(name) or name.endswith(".lock"):
        raise InputError(
            f"'{name}' cannot be the name of a collection.",
            hint="Use letters, digits, dots, dashes and underscores; at most 100.",
        )
    return name


def _shipped_embedder() -> Embedder:
    from ragstone.models.embedder import OnnxEmbedder

    return OnnxEmbedder()


def _open_catalog(settings: Settings, directory: Path) -> Catalog:
    from ragstone.stores.catalog import SqlCatalog
    from ragstone.stores.database import Database

    url = settings.data.database_url.get_secret_value()
    return SqlCatalog(Database.at_url(url) if url else Database.in_directory(directory))


def _intake_records(catalog: Catalog) -> IntakeRecords:
    from ragstone.stores.records import SqlIntakeRecords

    return SqlIntakeRecords(catalog)
