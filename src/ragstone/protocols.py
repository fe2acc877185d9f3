"""The verbs: one Protocol per slot of the pipeline.

Slots that wait (a model, a service) are async. Slots that only compute or read local files are
plain functions: a hop to a thread costs more than the work (848 against 134 requests/s measured).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragstone.blocks import LineBox, Loaded
from ragstone.filters import Filter
from ragstone.trace import QueryRun, Span
from ragstone.types import (
    ANY_QUERY,
    LOCAL_OWNER,
    Answer,
    Chunk,
    Document,
    HistoryFilter,
    Hits,
    IngestedFile,
    Message,
    Prompt,
    Query,
    Retrieved,
    Source,
    Usage,
)

if TYPE_CHECKING:
    from ragstone.query.evidence import Checked, Draft, Evidence, Understood

Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Within:
    """What a search is limited to: as a filter, and as the chunk keys that it lets through."""

    filter: Filter
    ranges: tuple[range, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """One line of a search: the catalog's key of a chunk, and how well it matched."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document ready to be stored: its chunks and one vector for each."""

    document: Document
    chunks: tuple[Chunk, ...]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a collection's history. The keys of a document's chunks are consecutive."""

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
    """How many documents and chunks of a collection are living, and its latest change."""

    documents: int
    chunks: int
    last_change: int


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """How many chunks an index holds, by each of its searches."""

    dense: int
    keyword: int


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file on the disk as it was when it was last read, and what became of it."""

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


class Embedder(Protocol):
    """Text to unit vectors. `name` stamps a collection: vectors of two embedders never mix."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    def embed(self, texts: Sequence[str]) -> Vectors: ...
    def token_starts(self, text: str) -> Sequence[int]:
        """The offset of every token, so that a span's length in tokens is a binary search."""
        ...


class Catalog(Protocol):
    """The truth: documents, their chunks and vectors, and the journal. Every call is one commit.

    One behind a network says `waits = True`, and is then asked off the event loop.
    """

    def add(self, batch: Sequence[NewDocument], *, embedder: str) -> None:
        """Store documents; each replaces, in the same step, what its source held before."""
        ...

    def add_failure(self, document: Document) -> None: ...
    def delete(self, document_id: str) -> None: ...
    def document(self, document_id: str) -> Document: ...
    def documents(
        self, collection: str, *, skip: int = 0, limit: int | None = None
    ) -> list[Document]:
        """The living documents of a collection by name, without their texts."""
        ...

    def document_count(self, collection: str) -> int: ...  # those that could not be read as well

    def current(self, collection: str, source: str) -> Document | None:
        """What a source holds now, without its text."""
        ...

    def attach(self, collection: str, source: str, document_id: str) -> bool:
        """A further source with the bytes of a document; False when that is no longer there."""
        ...

    def release(self, collection: str, source: str) -> None:
        """A source that is gone; a document that no source holds leaves the search."""
        ...

    def identity(self) -> int:
        """A number that no other catalog has."""
        ...

    def collections(self) -> list[str]: ...
    def embedder_of(self, collection: str) -> str | None: ...
    def chunks(self, keys: Iterable[int]) -> dict[int, Chunk]:
        """The living chunks with these keys; one that is gone is left out."""
        ...

    def passage(self, document_id: str, start: int, end: int) -> str:
        """A span of a document's text; empty when the document is gone."""
        ...

    def keys_within(self, query: Query) -> Within | None:
        """The keys of the chunks that a query's limits allow."""
        ...

    def document_fields(self, document_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """What filters can ask of these documents."""
        ...

    def counts(self, collection: str) -> CatalogCounts: ...
    def last_change(self, collection: str) -> int: ...
    def changes(self, collection: str, *, after: int, limit: int) -> list[Change]: ...
    def indexable(self, ranges: Sequence[range], *, dimension: int) -> tuple[list[Chunk], Vectors]:
        """The living chunks with these keys and their vectors, in ascending order."""
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """One transaction, for the tables that stand beside the documents."""
        ...

    def reading(self) -> AbstractContextManager[Any]:
        """The same for those who only look; it waits for nobody."""
        ...

    def scrub(self) -> None:
        """Let nothing that was deleted stand in the files any longer."""
        ...

    def record(
        self, answer: Answer, *, query_log: str, owner: str = LOCAL_OWNER,
        session_id: str | None = None, upload_id: str | None = None,
    ) -> None: ...  # fmt: skip
    def forget_queries(
        self, *, older_than_days: int = 0, wanted: HistoryFilter | None = None
    ) -> int:
        """Remove entries of the journal, the old ones (0 days keeps all) or those that fit."""
        ...

    def forget_query(self, query_id: str) -> None: ...
    def queries(
        self, *, skip: int = 0, limit: int = 20, wanted: HistoryFilter = ANY_QUERY
    ) -> list[dict[str, Any]]:
        """Newest first, each without its trace."""
        ...

    def query(self, query_id: str) -> dict[str, Any]: ...
    def close(self) -> None: ...


class IntakeRecords(Protocol):
    """What ingestion remembers beside the documents: files, uploads, lines of pages."""

    def seen(self, collection: str) -> dict[str, SeenFile]:
        """Every file that was read into a collection, by path."""
        ...

    def note(self, collection: str, files: Sequence[SeenFile]) -> None: ...
    def forget(self, collection: str, path: str) -> None: ...
    def sources_inside(self, collection: str, path: str) -> dict[str, str]:
        """The documents read from inside a file: source → document id."""
        ...

    def is_living(self, document_id: str) -> bool:
        """Whether a document is there, read well and not replaced."""
        ...

    def vectors_of(self, document_id: str) -> dict[str, Vectors]:
        """The vectors of a document's chunks by the text that was embedded."""
        ...

    def versions(self, collection: str, name: str) -> list[tuple[Document, float | None]]:
        """What stands and stood under a name, newest first, and when each was replaced."""
        ...

    def keep_lines(self, lines: Mapping[str, Sequence[LineBox]]) -> None: ...
    def lines(self, document_id: str) -> list[LineBox]: ...
    def begin_upload(self, upload_id: str, collection: str, *, file_count: int) -> None: ...
    def note_upload(self, upload_id: str, position: int, file: IngestedFile) -> None: ...
    def finish_upload(self, upload_id: str, status: str) -> None: ...
    def upload(self, upload_id: str) -> dict[str, Any]: ...
    def forget_document(self, document_id: str) -> bool:
        """Remove what is kept beside a document; True when no other has the same bytes."""
        ...

    def expire(self, *, before: float) -> list[str]:
        """Remove versions replaced before a moment; gives the hashes that nothing has now."""
        ...


class Splitter(Protocol):
    """Cut a document into chunks: `loaded.text[start:end]` is the text of each."""

    def split(self, loaded: Loaded, *, document_id: str, document_name: str) -> list[Chunk]: ...


class Index(Protocol):
    """Search structures derived from the catalog; what is lost here can be built again.

    One behind a network says `waits = True`, and is then asked off the event loop.
    """

    def refresh(self, collection: str) -> None:
        """Take in every change that the catalog has and this index has not."""
        ...

    def rebuild(self, collection: str) -> None:
        """Build everything again from the catalog."""
        ...

    def counts(self, collection: str) -> IndexCounts: ...
    def last_change(self, collection: str) -> int: ...  # the newest one that a search sees

    def dense(
        self, collection: str, vector: Vectors, *, limit: int, within: Within | None = None
    ) -> list[Found]: ...
    def keyword(
        self, collection: str, text: str, *, limit: int, k1: float, b: float,
        within: Within | None = None,
    ) -> list[Found]: ...  # fmt: skip
    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        """The stored vectors of these chunks, in this order; zeros for one that is gone."""
        ...

    def close(self) -> None: ...


class Understander(Protocol):
    """Turn a typed question into one that can be searched, or into a reply without a search."""

    async def understand(self, query: Query, run: QueryRun) -> Understood: ...


class Retriever(Protocol):
    """Find candidate hits for a question, best first."""

    async def retrieve(self, query: Query, run: QueryRun) -> Retrieved: ...


class Refiner(Protocol):
    """Return fewer or better ordered hits. Any number of refiners follow each other."""

    @property
    def name(self) -> str: ...
    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits: ...


class ContextBuilder(Protocol):
    """Turn hits into the numbered sources that fit the prompt."""

    def build(self, query: Query, hits: Hits, span: Span) -> tuple[Source, ...]: ...


class Grader(Protocol):
    """Estimate how probable it is that sources hold the answer, before anything is written."""

    def probability(self, question: str, sources: Sequence[Source]) -> float: ...


class Answerer(Protocol):
    """Write an answer from sources: pieces of text, and the draft as the last item."""

    def write(
        self, query: Query, sources: tuple[Source, ...], run: QueryRun
    ) -> AsyncGenerator[str | Draft, None]: ...


class Checker(Protocol):
    """Say of a draft which of its claims the sources support."""

    async def check(
        self, query: Query, evidence: Evidence, draft: Draft, run: QueryRun
    ) -> Checked: ...


class Provider(Protocol):
    """A prompt to an answer, piece by piece, with markers; the tokens it took may come last."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str: ...
    def stream(self, prompt: Prompt) -> AsyncIterator[str | Usage]: ...


@runtime_checkable
class Chat(Protocol):
    """The small fast model of a provider, for the inner calls: rewrite, rerank, verify.

    A provider without `complete` (one that only quotes) has none; every step that would ask it
    does without. With a JSON `schema` the reply is one JSON value; a failure is a ProviderError.
    """

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> str: ...


Moderated: TypeAlias = Literal["question", "answer"]


class Moderator(Protocol):
    """Judges what is asked before anything is done, and what is answered before it goes out."""

    @property
    def name(self) -> str: ...
    async def objection(self, kind: Moderated, text: str) -> str | None:
        """None lets it pass. A sentence refuses it, and is shown to whoever asked."""
        ...
