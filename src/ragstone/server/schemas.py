"""Define the JSON of requests and replies that several endpoints share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import InputError
from ragstone.events import Comparison
from ragstone.reading.injection import has_instructions
from ragstone.settings import Settings
from ragstone.types import (
    Answer,
    Claim,
    Document,
    Grounding,
    Message,
    Source,
)

# With a bound pydantic checks the text itself and refuses half a surrogate pair, which no later
# step can encode. The size of a request is limited elsewhere.
Text = Annotated[str, Field(max_length=10_000_000)]
RAG_ENABLED = "false: a plain chat with the model, without documents. Default: RAG_ENABLED."
AS_TYPED = "Search the message as it is typed: earlier messages do not complete it."


def forbid_other_fields(example: dict[str, Any]) -> ConfigDict:
    """Configure the body of a request: an unknown field is an error, and this is an example."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


SearchedAs = Annotated[
    str,
    Field(description="The whole question that was searched; empty if that is the one typed."),
]

# Read from the dataclass itself: `asdict` first costs ten times as much.
_FROM_ATTRIBUTES = ConfigDict(from_attributes=True)


def copy_fields(model: type[BaseModel], source: object) -> dict[str, Any]:
    """Copy the attributes that have the name of a field of the model."""
    return {name: getattr(source, name) for name in model.model_fields if hasattr(source, name)}


class CitationReply(BaseModel):
    model_config = _FROM_ATTRIBUTES

    number: int
    document_id: str
    document_name: str
    page: int | None
    chunk_id: str
    snippet: str
    relevance_score: float
    start: int
    end: int
    verdict: str


_RERANK_SCORE = "The score of the reranker, from 0 to 1; null without one."
_CACHED = "True if taken from the answer cache: the same was asked before."
_SUSPICIOUS = "True when it holds text that reads like an instruction to a model."


class UsedChunk(BaseModel):
    chunk_id: str
    relevance_score: float
    rerank_score: float | None = Field(None, description=_RERANK_SCORE)
    retrieval_method: str
    suspicious: bool = Field(False, description=_SUSPICIOUS)

    @classmethod
    def of(cls, source: Source) -> Self:
        hit = source.hit
        return cls(
            chunk_id=hit.chunk.id,
            relevance_score=hit.score,
            rerank_score=hit.scores.rerank,
            retrieval_method=hit.method,
            suspicious=has_instructions(source.text),
        )


class SourceReply(BaseModel):
    """A passage of the prompt, with its place in the document."""

    number: int
    document_id: str
    document_name: str
    page: int | None
    heading_path: list[str]
    chunk_id: str
    chunk_index: int
    start: int
    end: int
    snippet: str
    relevance_score: float
    rerank_score: float | None = Field(None, description=_RERANK_SCORE)
    retrieval_method: str
    suspicious: bool = Field(False, description=_SUSPICIOUS)

    @classmethod
    def of(cls, source: Source) -> Self:
        hit = source.hit
        fields = {
            **copy_fields(cls, hit.chunk),
            "chunk_id": hit.chunk.id,
            "chunk_index": hit.chunk.index,
            "number": source.number,
            "start": source.start,
            "end": source.end,
            "snippet": source.text,
            "relevance_score": hit.score,
            "rerank_score": hit.scores.rerank,
            "retrieval_method": hit.method,
            "suspicious": has_instructions(source.text),
        }
        return cls(**fields)


class ClaimReply(BaseModel):
    model_config = _FROM_ATTRIBUTES

    text: str
    start: int
    end: int
    citations: list[int]
    verdict: str
    score: float
    reasons: list[str]
    repaired: bool


class CallReply(BaseModel):
    """One call to a model."""

    model_config = _FROM_ATTRIBUTES

    stage: str
    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None
    stop_reason: str
    is_estimate: bool


class UsageReply(BaseModel):
    """The tokens of all calls to models, internal ones included."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float | None = Field(description="In US dollars; null if no price is known.")
    calls: list[CallReply]

    @classmethod
    def of(cls, answer: Answer) -> Self:
        total = answer.total_usage
        return cls(
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cached_tokens=total.cached_tokens,
            cost_usd=total.cost_usd,
            calls=[CallReply.model_validate(one) for one in answer.usage],
        )


class CompletionUsage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


def name_finish(answer: Answer) -> Literal["stop", "length", "content_filter"]:
    """Return why an answer ended, in the words of OpenAI's protocol."""
    return "content_filter" if answer.stop_reason == "blocked" else answer.stop_reason


class QueryMetadata(BaseModel):
    retrieval_time_ms: float
    generation_time_ms: float
    total_time_ms: float
    chunks_retrieved: int = Field(description="How many chunks the searches listed.")
    chunks_used: int = Field(description="How many of them were read as sources.")
    llm_provider: str
    model: str

    @classmethod
    def of(cls, answer: Answer) -> Self:
        return cls(
            retrieval_time_ms=answer.retrieval_ms,
            generation_time_ms=answer.generation_ms,
            total_time_ms=answer.total_ms,
            chunks_retrieved=answer.chunks_retrieved,
            chunks_used=len(answer.sources),
            llm_provider=answer.provider,
            model=answer.model,
        )


class QueryReply(BaseModel):
    query_id: str
    answer: str
    searched_as: SearchedAs
    short_answer: str
    citations: list[CitationReply]
    used_chunks: list[UsedChunk]
    claims: list[ClaimReply]
    confidence: float
    is_grounded: bool
    groundedness_score: float
    citation_precision: float
    citation_recall: float
    highlights: list[tuple[int, int]]
    status: str
    degraded: list[str]
    notes: list[str] = Field([], description="Remarks for the reader, such as what was left out.")
    cached: bool = Field(False, description=_CACHED)
    detected_intent: str
    intent_confidence: float
    route: str
    stop_reason: str = Field(description="`length`: the model reached its token limit.")
    usage: UsageReply
    metadata: QueryMetadata
    trace: dict[str, Any] | None = Field(
        None, description="The record of every stage; mostly null, see `GET /v1/queries/{id}`."
    )

    @classmethod
    def of(cls, answer: Answer, *, with_trace: bool = False) -> Self:
        fields = {
            **copy_fields(cls, answer),
            "answer": answer.text,
            "used_chunks": [UsedChunk.of(source) for source in answer.sources],
            "usage": UsageReply.of(answer),
            "metadata": QueryMetadata.of(answer),
            "trace": dict(answer.trace) if with_trace else None,
        }
        return cls(**fields)


class CheckedClaim(BaseModel):
    text: str
    start: int
    end: int
    verdict: str
    score: float
    cited: list[int]
    reasons: list[str]

    @classmethod
    def of(cls, claim: Claim) -> Self:
        return cls(**copy_fields(cls, claim), cited=list(claim.citations))


class CheckReply(BaseModel):
    support_score: float
    claims: list[CheckedClaim]
    cited_facts: list[int] = Field(description="Numbers of the facts that support a claim, from 1.")
    notes: list[str] = Field([], description="Remarks on how the check was made.")
    unknown_sources: list[str] = Field(
        [], description="Markers of the answer that name a source which does not exist."
    )

    @classmethod
    def of(cls, grounding: Grounding) -> Self:
        return cls(
            support_score=grounding.support_score,
            claims=[CheckedClaim.of(claim) for claim in grounding.claims],
            cited_facts=list(grounding.cited_facts),
            notes=list(grounding.notes),
            unknown_sources=list(grounding.unknown_sources),
        )


class TextPart(BaseModel):
    type: Literal["text"]
    text: Text


class SentMessage(BaseModel):
    """Accept a message as chat clients send it; further fields (`name`, …) are ignored."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]

    def to_message(self) -> Message:
        content = self.content
        text = content if isinstance(content, str) else "\n".join(part.text for part in content)
        return Message("system" if self.role == "developer" else self.role, text)


def split_messages(messages: Sequence[SentMessage]) -> tuple[tuple[Message, ...], str]:
    """Return the earlier messages, and the question at the end."""
    *earlier, last = [one.to_message() for one in messages]
    if last.role != "user":
        raise InputError(
            f"The last message has the role '{last.role}', not 'user'.",
            hint="Put the question at the end.",
        )
    return tuple(earlier), last.content


class ChatMessage(BaseModel):
    role: Literal["system", "user", "assistant"]
    content: Text


class Choice(BaseModel):
    index: int = 0
    message: ChatMessage
    finish_reason: str = "stop"

    @classmethod
    def of(cls, answer: Answer) -> Self:
        message = ChatMessage(role="assistant", content=answer.text)
        return cls(message=message, finish_reason=name_finish(answer))


class ChatData(BaseModel):
    choices: list[Choice]
    searched_as: SearchedAs
    sources: list[SourceReply]
    citations: list[CitationReply]
    claims: list[ClaimReply]
    query_id: str
    status: str
    rag_enabled: bool
    is_grounded: bool
    groundedness_score: float
    confidence: float
    degraded: list[str]
    cached: bool = Field(False, description=_CACHED)
    metadata: QueryMetadata

    @classmethod
    def of(cls, answer: Answer) -> Self:
        fields = {
            **copy_fields(cls, answer),
            "choices": [Choice.of(answer)],
            "sources": [SourceReply.of(source) for source in answer.sources],
            "rag_enabled": answer.route != "plain",
            "metadata": QueryMetadata.of(answer),
        }
        return cls(**fields)


class Side(BaseModel):
    choices: list[Choice]
    searched_as: SearchedAs
    chunks_used: int
    chunks_scores: list[float]
    sources: list[SourceReply]
    citations: list[CitationReply]
    claims: list[ClaimReply]
    is_grounded: bool
    groundedness_score: float
    confidence: float
    status: str

    @classmethod
    def of(cls, answer: Answer, **more: Any) -> Self:
        fields = {
            **copy_fields(cls, answer),
            "choices": [Choice.of(answer)],
            "chunks_used": len(answer.sources),
            "chunks_scores": [source.hit.score for source in answer.sources],
            "sources": [SourceReply.of(source) for source in answer.sources],
        }
        return cls(**fields, **more)


class EnhancedSide(Side):
    filter_threshold: float
    reranker_enabled: bool


class ComparedData(BaseModel):
    query_id: str
    baseline: Side
    enhanced: EnhancedSide

    @classmethod
    def of(cls, comparison: Comparison, settings: Settings) -> Self:
        enhanced = EnhancedSide.of(
            comparison.enhanced,
            filter_threshold=settings.refine.min_similarity,
            reranker_enabled=settings.refine.reranker_enabled
            and "without_rerank" not in comparison.enhanced.degraded,
        )
        return cls(
            query_id=comparison.enhanced.query_id,
            baseline=Side.of(comparison.baseline),
            enhanced=enhanced,
        )


class Problem(BaseModel):
    """RFC 9457: what went wrong, in a sentence, and what to do about it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    hint: str = ""
    request_id: str = ""


class DocumentSummary(BaseModel):
    id: str
    collection: str
    name: str
    status: str
    media_type: str
    sha256: str
    chunk_count: int
    upload_id: str | None
    error: str | None
    hint: str = Field("", description="What helps, where it could not be read.")
    created_at: float
    metadata: dict[str, Any]

    @classmethod
    def of(cls, document: Document) -> Self:
        return cls(**copy_fields(cls, document))


class DocumentReply(DocumentSummary):
    text: str
