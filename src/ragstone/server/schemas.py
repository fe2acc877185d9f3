"""The shapes of requests and replies, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any, Self

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from ragstone.types import (
    DEFAULT_COLLECTION,
    Answer,
    Citation,
    Claim,
    Document,
    IngestReport,
    RetrievalMethod,
    Source,
)

# With a bound pydantic looks into the text, and refuses half a surrogate pair: nothing that a text
# is passed on to can encode one. The size of a request is limited elsewhere.
Text = Annotated[str, Field(max_length=10_000_000)]


class QueryRequest(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"query": "How long is the notice period?", "collection": "demo"}]
        },
    )

    query: str = Field(description="The question; 3 to 1,000 characters after trimming.")
    collection: str = Field(DEFAULT_COLLECTION, description="Where to look.")
    upload_id: str | None = Field(None, description="Only documents of this upload.")
    top_k: int | None = Field(None, ge=1, le=1000, description="How many sources to read.")
    mmr_lambda: float | None = Field(None, ge=0, le=1, description="Relevance against diversity.")
    temperature: float | None = Field(None, ge=0, le=2, description="Of the model.")
    method: RetrievalMethod | None = Field(None, description="How to search.")
    filters: dict[str, Any] | None = Field(
        None, description='Only what fits, e.g. {"year": {"gte": 2020}, "tags": "lease"}.'
    )
    session_id: str | None = Field(
        None, description="The conversation that this continues; it is remembered from then on."
    )


# Read from the noun itself: taking it apart first (`asdict`) costs ten times as much.
_FROM_NOUN = ConfigDict(from_attributes=True)


class CitationReply(BaseModel):
    model_config = _FROM_NOUN

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

    @classmethod
    def of(cls, citation: Citation) -> Self:
        return cls.model_validate(citation)


class UsedChunk(BaseModel):
    chunk_id: str
    relevance_score: float
    retrieval_method: str

    @classmethod
    def of(cls, source: Source) -> Self:
        hit = source.hit
        return cls(chunk_id=hit.chunk.id, relevance_score=hit.score, retrieval_method=hit.method)


class SourceReply(BaseModel):
    """A passage that went into the prompt, as it stands in its document."""

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
    retrieval_method: str

    @classmethod
    def of(cls, source: Source) -> Self:
        chunk = source.hit.chunk
        return cls(
            number=source.number,
            document_id=chunk.document_id,
            document_name=chunk.document_name,
            page=chunk.page,
            heading_path=list(chunk.heading_path),
            chunk_id=chunk.id,
            chunk_index=chunk.index,
            start=source.start,
            end=source.end,
            snippet=source.text,
            relevance_score=source.hit.score,
            retrieval_method=source.hit.method,
        )


class ClaimReply(BaseModel):
    model_config = _FROM_NOUN

    text: str
    start: int
    end: int
    citations: list[int]
    verdict: str
    score: float
    reasons: list[str]
    repaired: bool

    @classmethod
    def of(cls, claim: Claim) -> Self:
        return cls.model_validate(claim)


class QueryMetadata(BaseModel):
    retrieval_time_ms: float
    generation_time_ms: float
    total_time_ms: float
    chunks_retrieved: int
    chunks_used: int
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
    detected_intent: str
    intent_confidence: float
    route: str
    metadata: QueryMetadata
    trace: dict[str, Any] | None = None

    @classmethod
    def of(cls, answer: Answer, *, with_trace: bool = False) -> Self:
        return cls(
            query_id=answer.query_id,
            answer=answer.text,
            citations=[CitationReply.of(citation) for citation in answer.citations],
            used_chunks=[UsedChunk.of(source) for source in answer.sources],
            claims=[ClaimReply.of(claim) for claim in answer.claims],
            confidence=answer.confidence,
            is_grounded=answer.is_grounded,
            groundedness_score=answer.groundedness_score,
            citation_precision=answer.citation_precision,
            citation_recall=answer.citation_recall,
            highlights=list(answer.highlights),
            status=answer.status,
            degraded=list(answer.degraded),
            detected_intent=answer.detected_intent,
            intent_confidence=answer.intent_confidence,
            route=answer.route,
            metadata=QueryMetadata.of(answer),
            trace=dict(answer.trace) if with_trace else None,
        )


TOTAL = "X-Total-Count"
PAGED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One page; the header says how many there are in all.",
        "headers": {TOTAL: {"schema": {"type": "integer"}, "description": "How many in all."}},
    }
}


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
    created_at: float
    metadata: dict[str, Any]

    @classmethod
    def of(cls, document: Document) -> Self:
        return cls(**{name: getattr(document, name) for name in cls.model_fields})


class DocumentReply(DocumentSummary):
    text: str


class FileOutcome(BaseModel):
    id: str | None
    name: str
    outcome: str
    chunk_count: int


class FileFailure(BaseModel):
    name: str
    error: str
    hint: str = ""


class UploadReply(BaseModel):
    upload_id: str
    collection: str
    status: str
    file_count: int
    documents: list[FileOutcome]
    failed: list[FileFailure]

    @classmethod
    def of(cls, upload: dict[str, Any]) -> Self:
        return cls(
            upload_id=upload["id"],
            collection=upload["collection"],
            status=upload["status"],
            file_count=upload["file_count"],
            documents=[
                FileOutcome(
                    id=file["document_id"],
                    **{k: file[k] for k in ("name", "outcome", "chunk_count")},
                )
                for file in upload["files"]
                if file["outcome"] != "failed"
            ],
            failed=[
                FileFailure(name=file["name"], error=file["error"] or "", hint=file["hint"] or "")
                for file in upload["files"]
                if file["outcome"] == "failed"
            ],
        )


class UploadedFile(BaseModel):
    id: str
    name: str
    chunk_count: int


class FailedFile(BaseModel):
    name: str
    error: str


class ChatUploadReply(BaseModel):
    uploaded: list[UploadedFile]
    failed: list[FailedFile]

    @classmethod
    def of(cls, report: IngestReport) -> Self:
        return cls(
            uploaded=[
                UploadedFile(id=file.document_id, name=file.name, chunk_count=file.chunk_count)
                for file in report.files
                if file.outcome != "failed" and file.document_id
            ],
            failed=[
                FailedFile(name=file.name, error=file.error or "") for file in report.of("failed")
            ],
        )


_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_CONTENT = {"application/problem+json": {"schema": _REFERENCE}}


BINARY = {"type": "string", "format": "binary"}
JSON_OBJECT = {"type": "string", "description": "A JSON object."}


def form(
    fields: Mapping[str, Any], *, required: Sequence[str] = (), example: Mapping[str, Any],
    or_else: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A body that is a form with files; `or_else` are other kinds that the door takes."""
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = list(required)
    content = {"multipart/form-data": {"schema": schema, "example": example}, **(or_else or {})}
    return {"requestBody": {"required": True, "content": content}}


def install(app: FastAPI) -> None:
    """Describe the failures of all doors, in one place."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        fresh = app.openapi_schema is None
        schema = plain()
        if fresh:
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas.setdefault("Problem", Problem.model_json_schema())
            shown = _examples()
            for path, operations in schema["paths"].items():
                for method, operation in operations.items():
                    _describe(operation["responses"])
                    _show(operation, shown.get(f"{method.upper()} {path}"))
        return schema

    # Replacing the method is how FastAPI wants its schema extended.
    app.openapi = described  # type: ignore[method-assign]


def _describe(responses: dict[str, Any]) -> None:
    for code, response in responses.items():
        if code[0] in "45":
            response["content"] = _CONTENT
        # A stream has no schema: it is no one value.
        response.get("content", {}).get("text/event-stream", {}).pop("schema", None)
    responses.setdefault(
        "default",
        {"description": "What went wrong, and what to do about it.", "content": _CONTENT},
    )


def _examples() -> dict[str, Any]:
    text = (resources.files("ragstone.server") / "examples.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _show(operation: dict[str, Any], example: dict[str, Any] | None) -> None:
    if example is None:
        return
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example["params"]:
            parameter["example"] = example["params"][parameter["name"]]
    for which, reply in example["replies"].items():
        status, _, kind = which.partition(" ")
        operation["responses"][status]["content"][kind]["example"] = reply
