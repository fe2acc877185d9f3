"""Build the answer from what the steps of the pipeline found out.

understood query, checked draft, evidence and run → `Answer`.
"""

from __future__ import annotations

from dataclasses import replace

from ragstone.events import Event, Finished, Token
from ragstone.evidence import Attempt, CheckedDraft, Draft, Evidence, UnderstoodQuery
from ragstone.index.analyze import detect_language, extract_query_terms
from ragstone.messages import find_language_code, translate
from ragstone.query.check.judge import NOT_GROUNDED
from ragstone.trace import QueryRun
from ragstone.types import NEAREST, NO_ANSWER, Answer, Query


def build_answer(
    understood: UnderstoodQuery,
    checked: CheckedDraft,
    run: QueryRun,
    evidence: Evidence | None = None,
    draft: Draft | None = None,
) -> Answer:
    """Build the answer: the only place where one is made.

    What differs when the same answer is given again comes from `QueryRun.measure`.
    """
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
        notes=tuple(dict.fromkeys(run.notes)),
        usage=tuple(run.usage),
        stop_reason=draft.stop_reason if draft else "stop",
        trace=run.as_dict(),
        **run.measure(),
    )


def translate_refusal(event: Event, question: str) -> Event:
    """Say in the language of the question that the documents hold no answer.

    This is the last step: the journal and the cache have the English sentence, by which the other
    parts know a refusal.
    """
    text = event.text if isinstance(event, Token) else ""
    if isinstance(event, Finished):
        text = event.answer.text
    is_own = NO_ANSWER in text or NEAREST in text
    language = find_language_code(detect_language(question)) if is_own else "en"
    if language == "en":
        return event
    if isinstance(event, Token):
        return replace(event, text=_translate_sentences(event.text, language))
    assert isinstance(event, Finished)
    text = _translate_sentences(event.answer.text, language)
    return replace(event, answer=replace(event.answer, text=text))


def _translate_sentences(text: str, language: str) -> str:
    for sentence in (NO_ANSWER, NEAREST):
        text = text.replace(sentence, translate(sentence, language))
    return text


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


def keep_better(best: Attempt, attempt: Attempt, run: QueryRun) -> Attempt:
    """Return the attempt that its sources support better."""
    is_better = attempt.checked.groundedness_score > best.checked.groundedness_score
    with run.span("correct.answer") as span:
        span.count(attempt=len(attempt.evidence.other_wordings) + 1, kept=is_better)
    return attempt if is_better else best


def is_unsupported(attempt: Attempt, run: QueryRun) -> bool:
    """Return True for an answer that should be written again from other evidence."""
    checked = attempt.checked
    return (
        checked.status == "answered"
        and bool(attempt.evidence.sources)
        and bool(checked.claims)
        and checked.groundedness_score < NOT_GROUNDED
        # The fallback wrote it already; what failed before would fail again.
        and "extractive_answer" not in run.degraded
    )
