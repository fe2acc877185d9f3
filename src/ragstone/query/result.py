"""Build the answer from what the steps of the pipeline found out.

understood query, checked draft, evidence and run → `Answer`.
"""

from __future__ import annotations

from ragstone.evidence import CheckedDraft, Draft, Evidence, UnderstoodQuery
from ragstone.index.analyze import extract_query_terms
from ragstone.trace import QueryRun
from ragstone.types import Answer, Query


def build_answer(
    understood: UnderstoodQuery,
    checked: CheckedDraft,
    run: QueryRun,
    evidence: Evidence | None = None,
    draft: Draft | None = None,
) -> Answer:
    """Build the answer: the only place where one is made."""
    query, detected = understood.query, understood.detected
    return Answer(
        query_id=query.id,
        question=query.original_text or query.text,
        searched_as=find_searched_as(query),
        collection=query.collection,
        text=checked.text,
        status=checked.status,
        citations=checked.citations,
        claims=checked.claims,
        sources=evidence.sources if evidence else (),
        is_grounded=checked.is_grounded,
        groundedness_score=checked.groundedness_score,
        confidence=checked.confidence,
        citation_precision=checked.citation_precision,
        citation_recall=checked.citation_recall,
        short_answer=checked.short_answer,
        highlights=checked.highlights,
        detected_intent=detected.intent,
        intent_confidence=round(detected.confidence, 4),
        route=query.route if evidence else "conversational",
        provider=draft.provider if draft else "none",
        model=_name_model(query, draft),
        top_k=query.top_k if evidence and query.mode != "plain" else 0,
        chunks_retrieved=evidence.chunks_found if evidence else 0,
        degraded=tuple(run.degraded),
        notes=tuple(run.notes),
        usage=tuple(run.usage),
        stop_reason=draft.stop_reason if draft else "stop",
        started_at=run.started_at,
        total_ms=round(run.elapsed_ms(), 3),
        timings={stage: round(ms, 3) for stage, ms in run.timings.items()},
        trace=run.as_dict(),
    )


def _name_model(query: Query, draft: Draft | None) -> str:
    """Return the model that wrote: the one asked for, unless the fallback had to."""
    if draft is None:
        return ""
    return draft.model if draft.is_fallback else query.model or draft.model


def find_searched_as(query: Query) -> str:
    """Return what was searched in place of the message; empty if that was the message itself."""
    typed = query.original_text
    # "And who is the landlord?" and "Who is the landlord?" are the same search.
    is_same = not typed or extract_query_terms(query.text) == extract_query_terms(typed)
    return "" if is_same else query.text
