"""Go on without an optional part that failed, one fallback level lower, and record it.

full pipeline → without LLM steps → hybrid without rerank → semantic with keyword boost →
keyword only → plain chat without context. Only bad input, and no provider able to answer, are
errors.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Literal, TypeAlias

from ragstone.errors import MissingModelError, ProviderError
from ragstone.trace import QueryRun, Span

log = logging.getLogger(__name__)

FallbackLevel: TypeAlias = Literal[
    "without_llm_steps",
    "without_refine_step",
    "without_rerank",
    "semantic_with_keyword_boost",
    "keyword_only",
    "without_context",
    "extractive_answer",
    "without_moderation",
    "plain_chat",
]


# After one of these the model that failed is not asked again for the same question.
MODEL_FAILED: frozenset[FallbackLevel] = frozenset({"without_llm_steps", "extractive_answer"})


class Fallbacks:
    """Record each fallback: it is logged, counted and named in the answer's `degraded` list."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def use(
        self, level: FallbackLevel, run: QueryRun, span: Span, error: Exception | None = None
    ) -> None:
        """Record that a part failed, or found nothing (no `error`).

        The log names the kind of error, the reason that a provider failed, and a model that is not
        installed; never the whole text, which may hold a question or a passage. The trace has both.
        """
        if level not in run.degraded:
            self.counts[level] += 1
        run.degrade(level)
        kind = type(error).__name__ if error else ""
        if error:
            span.error = f"{kind}: {error}"
        known = {}
        if isinstance(error, ProviderError):
            known = {"reason": error.reason, "explanation": error.summary, "hint": error.hint}
            span.note(" ".join([error.summary, error.hint, f"{_SENTENCES[level]}."]))
        elif isinstance(error, MissingModelError):
            known = {"reason": "not_installed", "explanation": error.message, "hint": error.hint}
            span.note(" ".join([f"{_SENTENCES[level]}.", error.message, error.hint]))
        else:
            span.note(f"{_SENTENCES[level]} ({kind})." if error else f"{_SENTENCES[level]}.")
        log.warning(
            "degraded",
            extra={
                "fallback": level,
                "stage": span.stage,
                "error": kind,
                "request_id": run.request_id,
                **known,
            },
        )


_SENTENCES: dict[FallbackLevel, str] = {
    "without_llm_steps": "The chat model failed; the question was used as it is",
    "without_refine_step": "A refine step failed and was skipped",
    "without_rerank": "The reranker failed; the order of the search was kept",
    "semantic_with_keyword_boost": "Keyword search failed; exact terms raised similarity instead",
    "keyword_only": "Semantic search failed; only keywords were searched",
    "extractive_answer": "The provider failed; the answer is quoted from the sources",
    "without_moderation": "The moderator failed; this was not moderated",
    "without_context": "No search worked; no document was read",
    "plain_chat": "Nothing was found in the documents; the model answered from its own knowledge",
}
