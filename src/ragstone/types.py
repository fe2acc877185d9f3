"""The nouns: immutable values that travel through the pipeline.

All offsets are Unicode code points, end-exclusive, into the stored text of a document
(for chunks and citations) or into the text of an answer (for claims).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ragstone.filters import Filter

Metadata: TypeAlias = Mapping[str, Any]
DocumentStatus: TypeAlias = Literal["pending", "indexed", "failed"]
AnswerStatus: TypeAlias = Literal["answered", "abstained", "refused"]
"""`refused`: a moderator withheld it."""
RetrievalMethod: TypeAlias = Literal["semantic", "keyword", "hybrid"]
Intent: TypeAlias = Literal[
    "greeting", "gratitude", "farewell", "chitchat", "help",
    "question", "follow_up", "summarize", "compare",
]  # fmt: skip
SMALL_TALK: frozenset[Intent] = frozenset({"greeting", "gratitude", "farewell", "chitchat", "help"})
"""What needs no documents and is answered at once."""
Route: TypeAlias = Literal["simple", "complex", "conversational", "summarize"]
Verdict: TypeAlias = Literal["supported", "partial", "misattributed", "contradicted", "unsupported"]
QueryMode: TypeAlias = Literal["refined", "raw", "plain"]
"""The whole pipeline; without refining and correcting; or a chat without documents."""
CitationStyle: TypeAlias = Literal["source", "chunk"]
"""`[Source N]`, or `[document_id:chunk_index]`."""

DEFAULT_COLLECTION = "default"
LOCAL_OWNER = "local"
"""Whose sessions and history these are where nobody has a key."""

NO_ANSWER = (
    "I don't have enough information to answer this question based on the provided documents."
)


@dataclass(frozen=True, slots=True)
class Document:
    """One file or text as it was at one moment; a changed file is a new document."""

    id: str
    collection: str
    source: str
    """Where it came from; a newer document with the same source replaces this one."""
    name: str
    media_type: str
    sha256: str
    status: DocumentStatus = "indexed"
    text: str = ""
    chunk_count: int = 0
    metadata: Metadata = field(default_factory=dict)
    upload_id: str | None = None
    error: str | None = None
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a document, the unit that is searched: `document.text[start:end] == text`."""

    document_id: str
    index: int
    text: str
    start: int
    end: int
    document_name: str = ""
    page: int | None = None
    heading_path: tuple[str, ...] = ()
    content_type: str = "text"
    key: int = 0
    """Its number in the catalog, by which an index knows it; 0 until it is stored."""
    passage: tuple[int, int] | None = None
    """The wider span that is read when this chunk is found; None is the chunk itself."""

    @property
    def id(self) -> str:
        return f"{self.document_id}:{self.index}"

    @property
    def contextual_text(self) -> str:
        """What is embedded and keyword-indexed: the heading path, then the text."""
        return f"{' > '.join(self.heading_path)}\n{self.text}" if self.heading_path else self.text


@dataclass(frozen=True, slots=True)
class Scores:
    """What every stage said of a hit. A stage adds its own verdict and never changes another's."""

    dense_rank: int | None = None
    similarity: float | None = None
    keyword_rank: int | None = None
    keyword_score: float | None = None
    fused: float | None = None
    filter: Literal["kept", "floor"] | None = None
    rerank: float | None = None
    combined: float | None = None
    mmr_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found, with the score it is ranked by."""

    chunk: Chunk
    score: float
    method: RetrievalMethod
    scores: Scores = field(default_factory=Scores)

    def judged(self, *, score: float | None = None, **verdicts: Any) -> Hit:
        """The same hit with one more stage's verdict, ranked by `score` if one is given."""
        ranked_by = self.score if score is None else score
        return Hit(self.chunk, ranked_by, self.method, replace(self.scores, **verdicts))


Hits: TypeAlias = tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Hold the hits of one search, and what it knows beyond them."""

    hits: Hits = ()
    found: int = 0
    """How many chunks the searches listed."""
    is_complete: bool = True
    """False when the search listed candidates that it did not read."""


ExpansionKind: TypeAlias = Literal["rewrite", "variant", "sub-question", "hypothetical", "feedback"]


@dataclass(frozen=True, slots=True)
class Expansion:
    """A further text that is searched for beside the question, in the question's favour."""

    kind: ExpansionKind
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A question that has passed validation, with everything that limits its search."""

    id: str
    text: str
    collection: str = DEFAULT_COLLECTION
    upload_id: str | None = None
    document_ids: tuple[str, ...] = ()
    filter: Filter | None = None
    method: RetrievalMethod = "hybrid"
    top_k: int = 10
    mmr_lambda: float = 1.0
    temperature: float = 0.1
    asked: str = ""
    """What was typed, where `text` is a standalone form of it."""
    history: tuple[Message, ...] = ()
    route: Route = "simple"
    expansions: tuple[Expansion, ...] = ()
    citation_style: CitationStyle = "source"
    model: str = ""
    """The model that shall write; empty is the provider's usual one."""
    mode: QueryMode = "refined"

    @property
    def said(self) -> tuple[Message, ...]:
        """The conversation with this question at its end."""
        return (*self.history, Message("user", self.text))


@dataclass(frozen=True, slots=True)
class Source:
    """A hit that reached the prompt, numbered from 1; `text` may be cut at a sentence end."""

    number: int
    hit: Hit
    text: str
    excerpt: str = ""
    """What of the text stands in the prompt, where sentences were dropped to shorten it."""

    @property
    def shown(self) -> str:
        """What of it stands in the prompt."""
        return self.excerpt or self.text

    @property
    def start(self) -> int:
        return self.hit.chunk.start

    @property
    def end(self) -> int:
        return self.hit.chunk.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn as a chat model sees it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call to a model, and what they cost where the price is known."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hold what a provider answers: messages for a model, sources for one that quotes."""

    question: str
    sources: tuple[Source, ...]
    messages: tuple[Message, ...] = ()
    """Empty for a provider with `reads_messages = False`."""
    temperature: float = 0.1
    model: str = ""
    """The model that shall write; empty is the provider's usual one."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A marker of the answer, resolved: `document.text[start:end] == snippet`."""

    number: int
    document_id: str
    document_name: str
    page: int | None
    chunk_id: str
    start: int
    end: int
    snippet: str
    relevance_score: float
    verdict: Verdict = "supported"


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of the answer, at `answer.text[start:end]`, and what its sources say of it."""

    text: str
    start: int
    end: int
    citations: tuple[int, ...]
    verdict: Verdict
    score: float
    reasons: tuple[str, ...] = ()
    """What speaks against it, in words: "The source says 13 m/s, not 15 m/s." """
    repaired: bool = False
    """Whether its markers were put right after the fact."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """What a set of facts says of an answer, whoever wrote it."""

    support_score: float
    claims: tuple[Claim, ...]
    """Their `citations` are the facts that support them, numbered from 1."""
    cited_facts: tuple[int, ...]


_SEARCH = ("embed", "fuse", "read", "retrieve", "refine.")
"""What the names of the search and refine stages start with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the reply to one question.

    `trace` records for people how it was made. Code reads the fields and never the trace.
    """

    query_id: str
    question: str
    collection: str
    text: str
    status: AnswerStatus
    citations: tuple[Citation, ...] = ()
    claims: tuple[Claim, ...] = ()
    sources: tuple[Source, ...] = ()
    is_grounded: bool = False
    groundedness_score: float = 0.0
    confidence: float = 0.0
    citation_precision: float = 0.0
    """Share of the citations that support their claim."""
    citation_recall: float = 0.0
    """Share of the claims that a citation supports."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Short answers (a name, a date, an amount) as spans of `text`."""
    degraded: tuple[str, ...] = ()
    detected_intent: Intent = "question"
    intent_confidence: float = 1.0
    route: Route = "simple"
    notes: tuple[str, ...] = ()
    provider: str = ""
    model: str = ""
    top_k: int = 0
    """How many hits were wanted; 0 where nothing was searched."""
    chunks_retrieved: int = 0
    usage: tuple[Usage, ...] = ()
    """The tokens of each call to the model that wrote it."""
    repeated: bool = False
    """Taken from the answer cache, or from work that another caller started."""
    started_at: float = 0.0
    total_ms: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds per stage."""
    trace: Mapping[str, Any] = field(default_factory=dict)

    @property
    def retrieval_ms(self) -> float:
        """Time of every search and refine stage together."""
        return round(sum(ms for stage, ms in self.timings.items() if stage.startswith(_SEARCH)), 3)

    @property
    def generation_ms(self) -> float:
        return self.timings.get("ground.generate", 0.0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two answers from one retrieval: from its raw hits, and from the refined ones."""

    baseline: Answer
    enhanced: Answer


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of a session and its answer."""

    position: int
    query_id: str
    question: str
    answer: str
    status: AnswerStatus
    intent: Intent
    created_at: float


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation about one collection. Turns before `summarised` live on in `summary`."""

    id: str
    owner: str
    collection: str
    created_at: float
    updated_at: float
    title: str = ""
    turn_count: int = 0
    summary: str = ""
    summarised: int = 0
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which queries of the journal are meant; what is None does not limit."""

    owner: str | None = None
    collections: Sequence[str] | None = None
    upload_id: str | None = None
    session_id: str | None = None
    since: float | None = None
    before: float | None = None


ANY_QUERY = HistoryFilter()


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """What became of one file of an ingest run."""

    name: str
    outcome: Literal["added", "updated", "unchanged", "failed", "removed"]
    document_id: str | None = None
    chunk_count: int = 0
    error: str | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of every file of an ingest run, in the order they were read."""

    collection: str
    files: tuple[IngestedFile, ...]
    embedded_chunks: int = 0
    """How many chunks had to be embedded; those whose text was there before are not."""
    seconds: float = 0.0
    peak_bytes: int = 0
    """Most memory of this process and the parser processes, each at its own peak."""

    def of(self, outcome: str) -> tuple[IngestedFile, ...]:
        """Return the files with this outcome."""
        return tuple(file for file in self.files if file.outcome == outcome)

    @property
    def chunk_count(self) -> int:
        return sum(file.chunk_count for file in self.files)
