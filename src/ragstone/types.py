"""Define the immutable values that travel through the pipeline.

All offsets are Unicode code points, end-exclusive, into the stored text of a document
(for chunks and citations) or into the text of an answer (for claims).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from ragstone.calls import StopReason, Usage, sum_usage
from ragstone.filters import Filter
from ragstone.outline import Outline
from ragstone.text import remove_markup

Metadata: TypeAlias = Mapping[str, Any]
DocumentStatus: TypeAlias = Literal["pending", "indexed", "failed"]
AnswerStatus: TypeAlias = Literal[
    "answered", "near", "abstained", "conversational", "refused", "ungrounded"
]
"""`near`: the closest passages, which may not answer. `conversational`: small talk. `refused`: by a
moderator. `ungrounded`: without documents."""
RetrievalMethod: TypeAlias = Literal["semantic", "keyword", "hybrid"]
Intent: TypeAlias = Literal[
    "greeting", "gratitude", "farewell", "chitchat", "help",
    "question", "follow_up", "summarize", "compare",
]  # fmt: skip
SMALL_TALK: frozenset[Intent] = frozenset({"greeting", "gratitude", "farewell", "chitchat", "help"})
"""Intents that need no documents."""
Route: TypeAlias = Literal["simple", "complex", "conversational", "summarize", "plain"]
Verdict: TypeAlias = Literal[
    "supported", "partial", "misattributed", "contradicted", "unsupported", "unchecked",
    "suspicious",
]  # fmt: skip
"""`unchecked`: nothing could compare it with its source, e.g. for its language. `suspicious`: it
rests on text that reads like an instruction to a model."""
QueryMode: TypeAlias = Literal["refined", "raw", "plain"]
"""The whole pipeline; without refining and correcting; or a chat without documents."""
CitationStyle: TypeAlias = Literal["source", "chunk"]
"""`[Source N]`, or `[document_id:chunk_index]`."""

DEFAULT_COLLECTION = "default"
LOCAL_OWNER = "local"
"""Owner of sessions and history where no keys are used."""

NO_ANSWER = (
    "I don't have enough information to answer this question based on the provided documents."
)

NEAREST = "The documents may not answer this. The closest passages:"
"""Stands before passages that may not answer the question."""


@dataclass(frozen=True, slots=True)
class Document:
    """Hold one file or text as it was at one moment; a changed file is a new document."""

    id: str
    collection: str
    source: str
    """Its path or URL; a newer document with the same source replaces this one."""
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


UnitKind: TypeAlias = Literal["sentence", "item", "header", "row", "code"]


class StoredUnit(NamedTuple):
    """A unit of a chunk, at `text[start:end]`: a sentence, an item, a row or a listing."""

    start: int
    end: int
    kind: UnitKind
    lead: int | None = None
    """The position of the unit that leads to this item or listing."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a document, the unit of search: `document.text[start:end] == text`."""

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
    """Its number in the catalog and the index; 0 until it is stored."""
    passage: tuple[int, int] | None = None
    """The wider span that is read when this chunk is found; None for the chunk itself."""
    table_header: str = ""
    """The row of column names, `| a | b |`, of rows whose header stands outside this chunk."""
    context: str = ""
    """What names the table in this chunk and stands outside it: title, caption, units."""
    units: tuple[StoredUnit, ...] = ()
    """Found when the document was read; none where another part holds the documents."""

    @property
    def id(self) -> str:
        return f"{self.document_id}:{self.index}"

    @property
    def caption(self) -> str:
        """The lines that the text stands under: headings, title of the table, column names."""
        above = (" > ".join(self.heading_path), self.context, self.table_header)
        return "".join(f"{line}\n" for line in above if line)

    @property
    def contextual_text(self) -> str:
        """Return the text to embed and index: what it stands under, then the text."""
        return self.caption + remove_markup(self.text)


@dataclass(frozen=True, slots=True)
class Scores:
    """Hold the scores of a hit. A stage adds its own and never changes another's."""

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
    """Hold a chunk that was found, with the score it is ranked by."""

    chunk: Chunk
    score: float
    method: RetrievalMethod
    scores: Scores = field(default_factory=Scores)

    def with_scores(self, *, score: float | None = None, **added: Any) -> Hit:
        """Return the hit with the scores of one more stage, ranked by `score` if given."""
        ranked_by = self.score if score is None else score
        return Hit(self.chunk, ranked_by, self.method, replace(self.scores, **added))


Hits: TypeAlias = tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class RetrievedHits:
    """Hold the hits of one search, and what it knows beyond them."""

    hits: Hits = ()
    chunks_found: int = 0
    """How many chunks the searches listed."""
    is_complete: bool = True
    """False when the search listed candidates that it did not read."""
    outline: Outline | None = None
    """Set when whole documents were asked for: the hits are theirs, in reading order."""


ExpansionKind: TypeAlias = Literal["rewrite", "variant", "sub-question", "hypothetical", "feedback"]


@dataclass(frozen=True, slots=True)
class Expansion:
    """Hold another text to search for, beside the question."""

    kind: ExpansionKind
    text: str


ReadingKind: TypeAlias = Literal["typed", "joined", "subject", "more", "model"]
"""As typed; after the previous question; with the subject of the last answer; more of the last
answer; as a model completed it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One meaning of a message, as the text to search."""

    text: str
    kind: ReadingKind = "typed"


@dataclass(frozen=True, slots=True)
class Query:
    """Hold a validated question, with everything that limits its search."""

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
    original_text: str = ""
    """The question as it was typed, where `text` is a completed form of it."""
    history: tuple[Message, ...] = ()
    readings: tuple[Reading, ...] = ()
    """What the question may mean in its conversation; `as_typed` leaves them out."""
    as_typed: bool = False
    notes: tuple[str, ...] = ()
    """Remarks about the question itself, for the reader of the answer."""
    route: Route = "simple"
    expansions: tuple[Expansion, ...] = ()
    citation_style: CitationStyle = "source"
    model: str = ""
    """The model that writes; empty for the provider's default."""
    mode: QueryMode = "refined"
    hold_markers: bool = False
    """Stream a sentence only when its markers are right, for clients that cannot replace text."""
    outline: Outline | None = None

    @property
    def wants_more(self) -> bool:
        """Return True for "tell me more": what comes after the last answer is wanted."""
        return bool(self.readings) and self.readings[0].kind == "more"

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the conversation with this question at its end."""
        return (*self.history, Message("user", self.text))


@dataclass(frozen=True, slots=True)
class Source:
    """Hold a hit that reached the prompt, numbered from 1; `text` may be cut after a sentence."""

    number: int
    hit: Hit
    text: str
    excerpt: str = ""
    """The shortened text in the prompt, where sentences were dropped."""

    @property
    def prompt_text(self) -> str:
        """Return its text as it is in the prompt."""
        return self.excerpt or self.text

    @property
    def start(self) -> int:
        return self.hit.chunk.start

    @property
    def end(self) -> int:
        return self.hit.chunk.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Message:
    """Hold one message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str
    searched_as: str = ""
    """The whole question that a follow-up was searched as; only known inside a session."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hold what a provider answers: messages for a model, sources for one that quotes."""

    question: str
    sources: tuple[Source, ...]
    messages: tuple[Message, ...] = ()
    """Empty for a provider with `reads_messages = False`."""
    temperature: float = 0.1
    model: str = ""
    """The model that writes; empty for the provider's default."""
    outline: Outline | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """Resolve a marker of the answer to a span: `document.text[start:end] == snippet`."""

    number: int
    """The number of the source, as in `[Source 2]`."""
    document_id: str
    document_name: str
    """The file name or title of the document."""
    page: int | None
    """The page that the chunk starts on; None if the format has no pages."""
    chunk_id: str
    """`document_id:index` of the chunk that was found."""
    start: int
    end: int
    snippet: str
    """The sentences of the document that support the claim."""
    relevance_score: float
    """The score by which the chunk was ranked."""
    verdict: Verdict = "supported"
    """Whether this source supports its claim."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold one sentence of the answer, `answer.text[start:end]`, and its check."""

    text: str
    start: int
    end: int
    citations: tuple[int, ...]
    verdict: Verdict
    score: float
    reasons: tuple[str, ...] = ()
    """Reasons against it, such as "15 m/s isn't in the source." """
    repaired: bool = False
    """True when the check changed its markers."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """Hold the check of an answer against facts."""

    support_score: float
    claims: tuple[Claim, ...]
    """Each with the numbers of the facts that support it in `citations`, from 1."""
    cited_facts: tuple[int, ...]
    notes: tuple[str, ...] = ()
    """Remarks on how the check was made."""
    unknown_sources: tuple[str, ...] = ()
    """The markers that name a source which does not exist."""


_SEARCH = ("embed", "fuse", "read", "retrieve", "refine.")
"""Beginnings of the names of search and refine stages."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the reply to one question.

    `trace` records for people how it was made. Code reads the fields and never the trace.
    """

    query_id: str
    """The id of this question in the history."""
    question: str
    """The question as it was typed."""
    collection: str
    """The collection that was searched."""
    text: str
    """The answer, with its markers."""
    status: AnswerStatus
    """`abstained`: the documents hold no answer. `conversational`: a reply to small talk."""
    searched_as: str = ""
    """The whole question that was searched, where it is not the one that was typed."""
    citations: tuple[Citation, ...] = ()
    """One per marker, in the order of the claims."""
    claims: tuple[Claim, ...] = ()
    """The sentences that a source can support, each with its verdict."""
    sources: tuple[Source, ...] = ()
    """The passages that went into the prompt."""
    is_grounded: bool = False
    """True when `groundedness_score` is above 0.8."""
    groundedness_score: float = 0.0
    """How far the sources support the text, from 0 to 1."""
    confidence: float = 0.0
    """The estimated probability that the answer is right, from 0 to 1."""
    citation_precision: float = 0.0
    """Share of the citations that support their claim."""
    citation_recall: float = 0.0
    """Share of the claims that a citation supports."""
    short_answer: str = ""
    """The name, date or amount asked for, as it stands in `text`; empty where there is none."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Where the short answer stands in `text`."""
    degraded: tuple[str, ...] = ()
    """The fallback levels that were used because a part failed."""
    detected_intent: Intent = "question"
    intent_confidence: float = 1.0
    """How sure the detection of the intent is, from 0 to 1."""
    route: Route = "simple"
    """The route through the pipeline."""
    notes: tuple[str, ...] = ()
    """Remarks of the stages for the reader."""
    provider: str = ""
    """The provider that wrote it; `none` for a reply to small talk."""
    model: str = ""
    """The model that wrote it."""
    top_k: int = 0
    """How many hits were wanted; 0 where nothing was searched."""
    chunks_retrieved: int = 0
    """How many chunks the searches listed."""
    usage: tuple[Usage, ...] = ()
    """The tokens and the cost of each call to a model, those of internal steps as well."""
    stop_reason: StopReason = "stop"
    """Why the model stopped writing: `length` at its token limit."""
    cached: bool = False
    """Taken from the answer cache, or from work that another caller started."""
    started_at: float = 0.0
    """Seconds since 1970."""
    total_ms: float = 0.0
    """Milliseconds from question to answer."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds per stage."""
    trace: Mapping[str, Any] = field(default_factory=dict)
    """The record of every stage."""

    @property
    def retrieval_ms(self) -> float:
        """Return the milliseconds of all search and refine stages together."""
        return round(sum(ms for stage, ms in self.timings.items() if stage.startswith(_SEARCH)), 3)

    @property
    def total_usage(self) -> Usage:
        return sum_usage(self.usage)

    @property
    def generation_ms(self) -> float:
        return self.timings.get("ground.generate", 0.0)


@dataclass(frozen=True, slots=True)
class Turn:
    """Hold one question of a session and its answer."""

    position: int
    query_id: str
    question: str
    answer: str
    status: AnswerStatus
    intent: Intent
    created_at: float
    searched_as: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """Hold a conversation about one collection. `summary` covers the turns before `summarised`."""

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
