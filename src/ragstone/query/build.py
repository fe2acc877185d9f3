"""Put the parts of the pipeline into their slots, as the settings say.

Every part is found by name through its entry point, or is an object that was given to `Engine`.
The order of the middleware is stated here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ragstone.admission import AdmissionQueue
from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext, find_part
from ragstone.protocols import (
    Answerer,
    Catalog,
    Checker,
    ContextBuilder,
    Embedder,
    Index,
    Moderator,
    Provider,
    Refiner,
    Retriever,
    Splitter,
    Understander,
)
from ragstone.query.answer import Pipeline
from ragstone.query.cache import AnswerCache, EvidenceCache, SharedAnswers
from ragstone.query.middleware import (
    Handler,
    ModerateAnswers,
    ModerateQuestions,
    Moderation,
    RecordHistory,
    UseConversation,
    apply_middleware,
    stream_answer,
)
from ragstone.query.refine.rerank import RerankStep
from ragstone.query.retrieve.external import ExternalDocuments, ExternalSearch
from ragstone.query.retrieve.hybrid import HybridRetriever
from ragstone.query.retrieve.sequential import SequentialRetriever
from ragstone.reading.choose import AnswerChooser
from ragstone.settings import Settings
from ragstone.system import count_usable_cores
from ragstone.threads import PerLoop, run_in_thread_if_blocking


@dataclass(frozen=True, slots=True)
class GivenParts:
    """Hold ready-made parts. A part that is None is built by its name in the settings."""

    embedder: Embedder | None = None
    catalog: Catalog | None = None
    index: Index | None = None
    provider: Provider | None = None
    moderator: Moderator | None = None
    splitter: Splitter | None = None
    understander: Understander | None = None
    retriever: Retriever | None = None
    refiners: Sequence[Refiner] | None = None
    reranker: Refiner | None = None
    context: ContextBuilder | None = None
    answerer: Answerer | None = None
    checker: Checker | None = None


def build_pipeline(context: PartContext, given: GivenParts | None = None) -> Pipeline:
    """Build the pipeline of an engine."""
    given = given or GivenParts()
    settings = context.settings
    reading = add_vector_cache(context.reads_with)
    hybrid = HybridRetriever(
        context.catalog,
        context.index,
        add_vector_cache(context.embedder),
        settings.retrieve,
        context.fallbacks,
        reads_all=_may_reorder(settings, given),
    )
    thorough = replace(hybrid, reads_all=True)
    context = replace(context, search=hybrid)
    retriever = given.retriever or _build("retriever", settings.retrieve.retriever_name, context)
    if getattr(retriever, "is_external", False):
        retriever = ExternalSearch(retriever, settings.retrieve.rrf_k)
    quoting = context.quoting
    return Pipeline(
        understander=given.understander
        or _build("understander", settings.understand.name, context),
        retriever=retriever,
        sequential=ExternalDocuments(retriever, settings.retrieve.candidates)
        if isinstance(retriever, ExternalSearch)
        else SequentialRetriever(
            # The document that a question names may be that of the last candidate.
            context.catalog,
            context.embedder,
            thorough if retriever is hybrid else retriever,
            settings.ground.max_context_tokens,
        ),
        refiners=_build_refiners(context, given),
        context=given.context or _build("context", settings.ground.context, context),
        # One chooser for both: what was chosen when the evidence was graded is quoted.
        grader=getattr(quoting, "chooser", None) or AnswerChooser(reading),
        answerer=given.answerer or _build("answerer", settings.ground.answerer, context),
        checker=given.checker or _build("checker", settings.check.name, context),
        fallbacks=context.fallbacks,
        options=settings.check,
        chat=context.chat,
        reads_all=thorough if retriever is hybrid else None,
        evidence_cache=_build_evidence_cache(context, given),
        batcher=context.batcher,
        quotes_only=_quotes_only(context, given),
        may_chat=context.settings.retrieve.fallback == "chat" and not _quotes_only(context, given),
        is_empty=None if _has_external_documents(settings, given) else _watch_emptiness(context),
        queue=PerLoop(partial(_build_queue, settings)),
    )


def build_chosen_pipeline(context: PartContext, given: GivenParts, main: Pipeline) -> Pipeline:
    """Build a pipeline in which another provider writes; it searches with the parts of `main`."""
    return replace(
        build_pipeline(context, replace(given, refiners=main.refiners)),
        retriever=main.retriever,
        sequential=main.sequential,
        reads_all=main.reads_all,
        grader=main.grader,
        queue=main.queue,
    )


def _watch_emptiness(context: PartContext) -> Callable[[str], Awaitable[bool]]:
    catalog = context.catalog

    async def is_empty(collection: str) -> bool:
        return await run_in_thread_if_blocking(catalog, catalog.is_empty, collection)

    return is_empty


def _build_queue(settings: Settings) -> AdmissionQueue:
    """Build the queue of one process: the workers of a server share the cores."""
    places = max(1, count_usable_cores() // settings.server.workers)
    return AdmissionQueue(places, settings.server.queue_timeout_s)


def _build(slot: str, name: str, context: PartContext) -> Any:
    return find_part(slot, name)(context)


def _build_refiners(context: PartContext, given: GivenParts) -> list[Refiner]:
    """Build the refiners in the order of `refine.steps`; one that is switched off builds None."""
    if given.refiners is not None:
        return list(given.refiners)
    refiners: list[Refiner] = []
    for name in context.settings.refine.steps:
        if name == "rerank" and given.reranker is not None:
            refiners.append(RerankStep(given.reranker))
            continue
        refiner: Refiner | None = _build("refiner", name, context)
        if refiner is not None:
            refiners.append(refiner)
    return refiners


def _build_evidence_cache(context: PartContext, given: GivenParts) -> EvidenceCache | None:
    """Build the cache of evidence. Where whole answers are kept, evidence need not be as well."""
    data = context.settings.data
    if (
        _quotes_only(context, given)
        or _has_external_documents(context.settings, given)
        or not data.answer_cache
    ):
        return None
    return EvidenceCache(
        context.catalog,
        context.index,
        max_entries=data.answer_cache,
        max_bytes=int(data.answer_cache_mb * 1_000_000),
    )


def _has_external_documents(settings: Settings, given: GivenParts) -> bool:
    """Return True when another part holds the documents: they may change at any time."""
    return given.retriever is not None or settings.retrieve.retriever_name != "hybrid"


def _quotes_only(context: PartContext, given: GivenParts) -> bool:
    """Return True when every answer is quoted, so that the same question gives the same answer."""
    is_built_in = given.answerer is None and context.settings.ground.answerer == "prompt"
    return is_built_in and context.provider is not None and context.provider.name == "extractive"


# The built-in refiners keep the order and drop at most a few hits; "rerank" while it is off.
_KEEP_ORDER = frozenset({"filter", "rerank", "deduplicate", "select", "merge", "widen"})


def _may_reorder(settings: Settings, given: GivenParts) -> bool:
    """Return True when a refiner may change the order, or drop hits whose text others hold."""
    return (
        settings.refine.reranker_enabled
        or settings.ingest.chunking != "structure"
        or given.reranker is not None
        or given.refiners is not None
        or not set(settings.refine.steps) <= _KEEP_ORDER
    )


@dataclass(frozen=True, slots=True)
class WrappedPipeline:
    """Hold the pipeline inside its middleware, and the middleware that compare uses alone."""

    handle: Handler
    moderation: Moderation
    history: RecordHistory
    conversation: UseConversation
    cache: AnswerCache


def wrap_pipeline(
    pipeline: Pipeline,
    context: PartContext,
    moderator: Moderator | None,
    history: RecordHistory,
    conversation: UseConversation,
    given: GivenParts | None = None,
    answers_secret: bytes = b"",
) -> WrappedPipeline:
    """Put the middleware around the pipeline. The first of the list is the outermost."""
    settings, given = context.settings, given or GivenParts()
    moderation = Moderation(moderator, settings.moderate, context.fallbacks)
    cache = AnswerCache(
        context.catalog,
        context.index,
        answers_repeat=_quotes_only(context, given),
        keeps_sampled=settings.data.cache_model_answers,
        max_entries=0 if _has_external_documents(settings, given) else settings.data.answer_cache,
        max_bytes=int(settings.data.answer_cache_mb * 1_000_000),
        query_log=settings.journal.query_log,
        shared=SharedAnswers(context.derived, answers_secret)
        if answers_secret and context.derived and _may_write_answers(settings)
        else None,
    )

    handle = apply_middleware(
        [
            ModerateQuestions(moderation),
            history,
            conversation,
            cache,
            ModerateAnswers(moderation),
        ],
        stream_answer(pipeline),
    )
    return WrappedPipeline(handle, moderation, history, conversation, cache)


def _may_write_answers(settings: Settings) -> bool:
    """Return True when questions and answers of everybody may be written to a file."""
    journal = settings.journal
    return journal.query_log == "full" and not journal.require_consent


def build_moderator(context: PartContext) -> Moderator | None:
    name = context.settings.moderate.name
    moderator: Moderator | None = find_part("moderator", name)(context) if name else None
    return moderator
