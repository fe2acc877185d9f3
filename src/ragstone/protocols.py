"""Define one Protocol per slot of the pipeline, and the values that pass between them.

Slots that wait (a model, a service) are async. Slots that only compute or read local files are
plain functions: a hop to a thread costs more than the work (848 against 134 requests/s measured).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragstone.blocks import LineBox, LoadedDocument
from ragstone.calls import Usage
from ragstone.evidence import CheckedDraft, Draft, Evidence, Extract, UnderstoodQuery
from ragstone.filters import ANY_QUERY, HistoryFilter, SearchScope
from ragstone.trace import QueryRun, Span
from ragstone.types import (
    LOCAL_OWNER,
    Answer,
    Chunk,
    Document,
    Hits,
    Message,
    Prompt,
    Query,
    RetrievedHits,
    Source,
)

Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ScoredKey:
    """Name a chunk by its catalog key, with its score in one search."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class NewDocument:
    """Hold a document that is ready to be stored: its chunks, one vector for each, its lines."""

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: Vectors
    lines: tuple[LineBox, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """Record one document that was added or removed. The keys of its chunks are consecutive."""

    seq: int
    kind: Literal["add", "remove"]
    document_id: str
    first_key: int
    chunk_count: int

    @property
    def keys(self) -> range:
        return range(self.first_key, self.first_key + self.chunk_count)


@dataclass(frozen=True, slots=True)
class CatalogCounts:
    """Count the current documents and chunks of a collection; name its latest change."""

    documents: int
    chunks: int
    last_change: int


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Count the chunks in each of an index's two searches; `recall` where it was measured."""

    dense: int
    keyword: int
    recall: float | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Describe a file as it was when it was last read, and the result."""

    path: str
    size: int
    mtime_ns: int
    sha256: str
    fingerprint: str
    status: Literal["indexed", "failed"]
    document_id: str | None = None
    chunk_count: int = 0
    error: str | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """Name a received file that is stored under its hash."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class AcceptedUpload:
    """Describe an upload that will be read, by this process or by another."""

    id: str
    collection: str
    files: tuple[ReceivedFile, ...]
    """Those that are not read yet."""
    options: Mapping[str, Any]
    attempts: int = 0


class Embedder(Protocol):
    """Turn texts into unit vectors. Vectors of embedders with different `name` never mix."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Vectors: ...
    def token_starts(self, text: str) -> Sequence[int]:
        """Return the offset of every token, to count the tokens of a span by binary search."""
        ...


class Catalog(Protocol):
    """Store documents, their chunks and vectors, and the journal. Every call is one commit.

    A catalog behind a network sets `waits = True`; it is then called in a thread.
    """

    def add(self, batch: Sequence[NewDocument], *, embedder: str) -> None:
        """Store documents; each replaces the document that its source had before."""
        ...

    def add_failure(self, document: Document) -> None: ...
    def delete(self, document_id: str) -> None: ...
    def document(self, document_id: str) -> Document: ...
    def documents(
        self, collection: str, *, skip: int = 0, limit: int | None = None, after: str = ""
    ) -> list[Document]:
        """List the current documents by name, without their texts; `after` is a document's id."""
        ...

    def document_count(self, collection: str) -> int:
        """Count the current documents, including those that could not be read."""
        ...

    def is_empty(self, collection: str) -> bool:
        """Return True when a collection has no chunk that a search could find."""
        ...

    def find_by_source(self, collection: str, source: str) -> Document | None:
        """Return the current document of a source, without its text."""
        ...

    def add_source(self, collection: str, source: str, document_id: str) -> bool:
        """Add a source with the same bytes as a document; False if the document is gone."""
        ...

    def remove_source(self, collection: str, source: str) -> None:
        """Remove a source; a document without any source leaves the search."""
        ...

    def identity(self) -> int:
        """Return a number that identifies this catalog; a restored copy has another one."""
        ...

    def collections(self) -> list[str]: ...
    def embedder_of(self, collection: str) -> str | None: ...
    def chunks(self, keys: Iterable[int]) -> dict[int, Chunk]:
        """Return the current chunks with these keys; missing ones are left out."""
        ...

    def read_passage(self, document_id: str, start: int, end: int) -> str:
        """Return a span of a document's text; empty if the document is gone."""
        ...

    def resolve_scope(self, query: Query) -> SearchScope | None:
        """Find the chunks that a query's filters allow; None allows all."""
        ...

    def document_fields(self, document_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Return the fields of these documents that filters can compare."""
        ...

    def counts(self, collection: str) -> CatalogCounts: ...
    def last_change(self, collection: str) -> int: ...
    def changes(self, collection: str, *, after: int, limit: int) -> list[Change]: ...
    def chunks_with_vectors(
        self, ranges: Sequence[range], *, dimension: int, embedder: str = ""
    ) -> tuple[list[Chunk], Vectors]:
        """Return the current chunks with these keys and their vectors, by ascending key."""
        ...

    def write_transaction(self, lock: str = "catalog") -> AbstractContextManager[Any]:
        """Open one that may write, after those with the same `lock`; an inner one joins it."""
        ...

    def read_transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction that only reads; it never waits for a writer."""
        ...

    def erase_deleted(self) -> None:
        """Overwrite deleted data on the disk."""
        ...

    def record(
        self,
        answer: Answer,
        *,
        query_log: str,
        owner: str = LOCAL_OWNER,
        session_id: str | None = None,
        upload_id: str | None = None,
    ) -> None: ...
    def delete_queries(
        self, *, older_than_days: int = 0, wanted: HistoryFilter | None = None
    ) -> int:
        """Delete old queries (0 days keeps all) or those that match; return how many."""
        ...

    def delete_query(self, query_id: str) -> None: ...
    def queries(
        self, *, skip: int = 0, limit: int = 20, wanted: HistoryFilter = ANY_QUERY
    ) -> list[dict[str, Any]]:
        """List past queries, newest first, without their traces."""
        ...

    def query(self, query_id: str) -> dict[str, Any]: ...
    def close(self) -> None: ...


class Splitter(Protocol):
    """Cut a document into chunks: `loaded.text[start:end]` is the text of each."""

    def split(
        self, loaded: LoadedDocument, *, document_id: str, document_name: str
    ) -> list[Chunk]: ...


class Index(Protocol):
    """Search the chunks of the catalog; everything in an index can be rebuilt from it.

    An index behind a network sets `waits = True`; it is then called in a thread.
    """

    def refresh(self, collection: str) -> None:
        """Apply the catalog's changes that are not in this index yet."""

    def rebuild(self, collection: str) -> None:
        """Build the whole index again from the catalog."""

    def counts(self, collection: str) -> IndexCounts: ...
    def last_change(self, collection: str) -> int:
        """Return the newest change that a search sees."""

    def search_dense(
        self, collection: str, vector: Vectors, *, limit: int, scope: SearchScope | None = None
    ) -> list[ScoredKey]: ...
    def search_keyword(
        self,
        collection: str,
        text: str,
        *,
        limit: int,
        k1: float,
        b: float,
        scope: SearchScope | None = None,
    ) -> list[ScoredKey]: ...
    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        """Return the vectors of these chunks, in this order; zeros for a missing chunk."""
        ...

    def close(self) -> None: ...


class Understander(Protocol):
    """Turn a typed question into one that can be searched, or into a reply without a search."""

    async def understand(self, query: Query, run: QueryRun) -> UnderstoodQuery: ...


class Retriever(Protocol):
    """Find candidate hits for a question, best first.

    One whose documents are not in the catalog sets `is_external = True` (`retrieve/external.py`).
    """

    async def retrieve(self, query: Query, run: QueryRun) -> RetrievedHits: ...


class Refiner(Protocol):
    """Return fewer or better ordered hits. Any number of refiners follow each other."""

    @property
    def name(self) -> str:
        """Its name in the trace (`refine.NAME`); of a reranker, the `reranker_type`."""
        ...

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits: ...


class ContextBuilder(Protocol):
    """Turn hits into the numbered sources that fit the prompt."""

    def build(self, query: Query, hits: Hits, span: Span) -> tuple[Source, ...]: ...


class Reader(Protocol):
    """Find what answers a question in its sources, before anything is written."""

    def read(self, question: str, sources: Sequence[Source]) -> Extract: ...


class Answerer(Protocol):
    """Write an answer from the evidence: pieces of text, and the draft as the last item."""

    def write(
        self, query: Query, evidence: Evidence, run: QueryRun
    ) -> AsyncGenerator[str | Draft, None]: ...


class Checker(Protocol):
    """Check which claims of a draft the sources support."""

    async def check(
        self, query: Query, evidence: Evidence, draft: Draft, run: QueryRun
    ) -> CheckedDraft: ...


class Provider(Protocol):
    """Answer a prompt piece by piece, with markers; the usage may come last."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str: ...
    def stream(self, prompt: Prompt) -> AsyncIterator[str | Usage]: ...


@runtime_checkable
class Chat(Protocol):
    """Ask the small fast model of a provider: to rewrite, rerank and verify.

    A provider that only quotes has no `complete`; the steps that need it are then skipped. With a
    JSON `schema` the reply is one JSON value; a failure is a ProviderError.
    """

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class MeteredChat:
    """Ask a model on behalf of a stage. A provider with `counts_usage` reports every call."""

    chat: Chat
    span: Span

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str:
        more: dict[str, Any] = {}
        if getattr(self.chat, "counts_usage", False):
            more["count"] = self.span.count_usage
        return await self.chat.complete(messages, schema=schema, **more)


Moderated: TypeAlias = Literal["question", "answer"]


class Moderator(Protocol):
    """Judge questions and answers; with `judges = ("question",)` answers are not held back."""

    @property
    def name(self) -> str: ...
    async def objection(self, kind: Moderated, text: str) -> str | None:
        """Return None to let it pass, or the reason for a refusal, which the user sees."""
        ...
