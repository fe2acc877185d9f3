"""Reorder the first hits by a model that reads question and text together.

The step `rerank` of `refine.steps` runs the one reranker that `refine.reranker` names. A reranker
never adds or drops a hit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ValidationError, field_validator

from ragstone.errors import SettingsError
from ragstone.plugins import PartContext, find_part
from ragstone.prompts import render
from ragstone.protocols import Chat, MeteredChat, Refiner
from ragstone.query.understand.rewrite import ask_json
from ragstone.reading.model import ReadingModel, load_reading_model
from ragstone.threads import run_in_thread
from ragstone.trace import Span
from ragstone.types import Hit, Hits, Query

# The design documents' blend for scores that a model gives from 0 to 10.
LLM_ORIGINAL, LLM_SCORE = 0.3, 0.7
_PASSAGE_CHARS = 1200
# Logits run from -11 to 11. So wide a sigmoid still separates poor hits, and measured best.
_LOGIT_WIDTH = 4.0


def combine_scores(original: float, rerank: float | None, *, weight: float) -> float:
    """Return (1 - weight)·original + weight·rerank; without a rerank score, the original."""
    return original if rerank is None else (1 - weight) * original + weight * rerank


def reorder_hits(
    hits: Hits, scores: Mapping[int, float | None], *, weight: float, depth: int
) -> Hits:
    """Sort the first `depth` hits by combined score, ties by key; the others follow them."""
    head: list[Hit] = []
    for hit in hits[:depth]:
        rerank = scores.get(hit.chunk.key)
        score = combine_scores(hit.score, rerank, weight=weight)
        head.append(hit.with_scores(score=score, rerank=rerank, combined=score))
    head.sort(key=lambda hit: (-hit.score, hit.chunk.key))
    # A hit without a rerank score must not rank above one that has it.
    lowest = head[-1].score if head else 0.0
    tail = [hit.with_scores(score=min(hit.score, lowest)) for hit in hits[depth:]]
    return (*head, *tail)


@dataclass(frozen=True, slots=True)
class RerankStep:
    """Run a reranker as the step `rerank`, and record under its name what it did."""

    name: ClassVar[str] = "rerank"
    reranker: Refiner

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        ordered = await self.reranker.refine(query, hits, span)
        given = (hit.scores.rerank for hit in ordered)
        span.count(
            reranker_type=self.reranker.name,
            chunks_after_rerank=len(ordered),
            rerank_scores=[round(score, 4) for score in given if score is not None],
        )
        return ordered


@dataclass(frozen=True, slots=True)
class NoopReranker:
    """Keep the order."""

    name: ClassVar[str] = "noop"

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        return hits


class PairScorer(Protocol):
    """Score how well passages answer a question, one logit each."""

    def score(self, question: str, passages: Sequence[str]) -> Iterable[float]: ...


@dataclass(frozen=True, slots=True)
class ReadingScorer:
    """Score with the rank head of the shipped reading model."""

    model: ReadingModel

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        return self.model.rank(question, passages)


@dataclass(frozen=True, slots=True)
class CrossEncoderReranker:
    """Blend the score of the search with a local model's logit, squashed to 0…1.

    The model is the one that is pulled (`cross_encoder`) or the shipped one (`reading`). Alone it
    loses 0.08 nDCG@10 over eleven sets, while a fifth of it gains (`bench/tune_refine.py`).
    """

    name: str
    scorer: PairScorer
    depth: int
    weight: float

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        first = hits[: self.depth]
        logits = await run_in_thread(
            "models", self.scorer.score, query.text, [hit.chunk.contextual_text for hit in first]
        )
        scores: dict[int, float | None] = {
            hit.chunk.key: 1 / (1 + math.exp(-float(logit) / _LOGIT_WIDTH))
            for hit, logit in zip(first, logits, strict=True)
        }
        return reorder_hits(hits, scores, weight=self.weight, depth=self.depth)


class _Score(BaseModel):
    passage: int
    score: float


class _Scores(BaseModel):
    scores: list[_Score]

    @field_validator("scores", mode="before")
    @classmethod
    def leave_out_unusable(cls, given: Any) -> Any:
        """Keep the usable scores: a bad score costs its own passage, not the whole reply."""
        return [one for one in given if _is_score(one)] if isinstance(given, list) else given


def _is_score(value: object) -> bool:
    try:
        _Score.model_validate(value)
    except ValidationError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class LlmReranker:
    """Let the provider's small model score the first hits from 0 to 10 in one call."""

    name: ClassVar[str] = "llm"
    chat: Chat
    depth: int

    async def refine(self, query: Query, hits: Hits, span: Span) -> Hits:
        first = hits[: self.depth]
        if not first:
            return hits
        reply = await ask_json(
            MeteredChat(self.chat, span), _render_prompt(query.text, first), _Scores
        )
        scores = parse_scores(reply, first)
        missing = sum(value is None for value in scores.values())
        if missing:
            span.note(f"{missing} of {len(first)} hits got no usable score and kept their own.")
        return reorder_hits(hits, scores, weight=LLM_SCORE, depth=self.depth)


def parse_scores(reply: Mapping[str, object], hits: Sequence[Hit]) -> dict[int, float | None]:
    """Return each hit's score divided by 10; None where the model gave no usable one."""
    scores: dict[int, float | None] = {hit.chunk.key: None for hit in hits}
    try:
        given = _Scores.model_validate(reply).scores
    except ValidationError:
        return scores
    for one in given:
        if 1 <= one.passage <= len(hits) and 0 <= one.score <= 10:
            scores[hits[one.passage - 1].chunk.key] = one.score / 10
    return scores


def _render_prompt(question: str, hits: Sequence[Hit]) -> str:
    passages = "\n\n".join(
        f"<passage {number}>\n{hit.chunk.contextual_text[:_PASSAGE_CHARS]}\n</passage {number}>"
        for number, hit in enumerate(hits, start=1)
    )
    return render("rerank", question=question, passages=passages)


def build_noop(context: PartContext) -> NoopReranker:
    return NoopReranker()


def build_cross_encoder(context: PartContext) -> CrossEncoderReranker:
    from ragstone.models.reranker import CrossEncoder

    scorer = CrossEncoder(context.settings.data.models)
    return _build_with("cross_encoder", scorer, context)


def build_reading(context: PartContext) -> CrossEncoderReranker:
    """Build the reranker that needs no download: the shipped model's rank head."""
    return _build_with("reading", ReadingScorer(load_reading_model()), context)


def _build_with(name: str, scorer: PairScorer, context: PartContext) -> CrossEncoderReranker:
    refine = context.settings.refine
    return CrossEncoderReranker(name, scorer, refine.rerank_top_k, refine.rerank_weight)


def build_llm(context: PartContext) -> LlmReranker:
    if not isinstance(context.provider, Chat):
        raise SettingsError(
            "The reranker 'llm' needs a provider with a chat model.",
            hint="Choose another provider, or RAG_RERANKER_TYPE=cross_encoder.",
        )
    return LlmReranker(context.provider, context.settings.refine.rerank_top_k)


def build(context: PartContext) -> RerankStep | None:
    """Build the step with the reranker that the settings name, or None when reranking is off."""
    refine = context.settings.refine
    build_reranker = find_part("reranker", refine.reranker)  # a wrong name is an error, off or on
    return RerankStep(build_reranker(context)) if refine.reranker_enabled else None
