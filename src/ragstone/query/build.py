"""The parts of the pipeline put into their slots, as the settings say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ragstone.models.cache import RememberedVectors, remembered
from ragstone.plugins import PartContext, find
from ragstone.protocols import Catalog, Chat, Provider, Refiner, Retriever
from ragstone.query.answer import CorrectiveLoop, Pipeline
from ragstone.query.cache import FoundBefore
from ragstone.query.check.conclude import Concluder
from ragstone.query.fallback import Ladder
from ragstone.query.ground.context import ContextBuilder
from ragstone.query.ground.generate import Generator
from ragstone.query.refine.filter import SimilarityFilter
from ragstone.query.refine.passages import PassageMerger, PassageReader
from ragstone.query.refine.select import Deduplicator, MmrSelector
from ragstone.query.retrieve.chunkenizer import ChunkenizerRetriever
from ragstone.query.retrieve.hybrid import HybridRetriever
from ragstone.query.retrieve.sequential import SequentialRetriever
from ragstone.query.understand.intent import Exemplars, load_exemplars
from ragstone.query.understand.understander import Understander
from ragstone.reading.choose import SentenceChooser
from ragstone.settings import Settings


def assemble(
    context: PartContext, catalog: Catalog, provider: Provider, ladder: Ladder
) -> CorrectiveLoop:
    """The straight line, and the corrective loop around it."""
    line = _line(context, catalog, provider, ladder)
    iterations = context.settings.check.max_iterations
    found = _found_before(context, catalog, provider)
    return CorrectiveLoop(line, iterations, _chat(provider), ladder, found)


def _found_before(context: PartContext, catalog: Catalog, provider: Provider) -> FoundBefore | None:
    """Where whole answers are kept, what they rest on need not be kept a second time."""
    data = context.settings.data
    # What another service holds may change at any time, and nobody tells us.
    changes_unseen = bool(context.settings.retrieve.chunkenizer_url)
    if provider.name == "extractive" or changes_unseen or not data.answer_cache:
        return None
    most_bytes = int(data.answer_cache_mb * 1_000_000)
    return FoundBefore(catalog, context.index, most=data.answer_cache, most_bytes=most_bytes)


def _line(context: PartContext, catalog: Catalog, provider: Provider, ladder: Ladder) -> Pipeline:
    settings = context.settings
    recent = remembered(context.embedder)
    reading = recent if context.reader is None else remembered(context.reader)
    quoting: Provider = (
        provider if provider.name == "extractive" else find("provider", "extractive")(context)
    )
    hybrid = HybridRetriever(
        catalog, context.index, recent, settings.retrieve, ladder, reads_all=_reorders(settings)
    )
    thorough = replace(hybrid, reads_all=True)
    service = _service(context)
    ground = settings.ground
    return Pipeline(
        understander=_understander(context, reading, provider, ladder),
        retriever=service or hybrid,
        sequential=SequentialRetriever(
            # The document that a question names may be that of the last candidate.
            catalog,
            context.embedder,
            thorough,
            ground.max_context_tokens,
        ),
        refiners=_refiners(replace(context, provider=provider), catalog),
        context=ContextBuilder(reading, ground, catalog),
        # One chooser for both: what was chosen when the evidence was graded is quoted.
        chooser=getattr(quoting, "chooser", None) or SentenceChooser(reading),
        generator=Generator(provider, None if quoting is provider else quoting, ladder, reading),
        concluder=Concluder(reading, _chat(provider), ladder, settings.provider.timeout_s),
        ladder=ladder,
        conflict_notice=settings.check.conflict_notice,
        hold_unverified=settings.check.hold_unverified,
        reads_all=None if service else thorough,
    )


def _chat(provider: Provider) -> Chat | None:
    return provider if isinstance(provider, Chat) else None


def _service(context: PartContext) -> Retriever | None:
    """The external service that takes the search's place, where one is named."""
    options = context.settings.retrieve
    if not options.chunkenizer_url:
        return None
    return ChunkenizerRetriever(
        options.chunkenizer_url,
        options.chunkenizer_timeout_s,
        options.chunkenizer_api_key.get_secret_value(),
    )


def _refiners(context: PartContext, catalog: Catalog) -> list[Refiner]:
    refine = context.settings.refine
    refiners: list[Refiner] = [SimilarityFilter(refine.min_similarity, refine.min_chunks)]
    if refine.reranker_enabled:
        refiners.append(find("reranker", refine.reranker)(context))
    if refine.duplicate_similarity < 1:
        refiners.append(Deduplicator(context.index, refine.duplicate_similarity))
    if context.settings.ingest.chunking == "structure":
        return [*refiners, MmrSelector(context.index)]
    return [*refiners, PassageMerger(), MmrSelector(context.index), PassageReader(catalog)]


def _reorders(settings: Settings) -> bool:
    """Whether a refiner changes the order, or drops many hits because others hold their text."""
    return settings.refine.reranker_enabled or settings.ingest.chunking != "structure"


def _understander(
    context: PartContext, recent: RememberedVectors, provider: Provider, ladder: Ladder
) -> Understander:
    settings = context.settings

    @cache
    def exemplars() -> Exemplars:
        return load_exemplars(
            context.reads_with,
            own_file=settings.understand.exemplars,
            cache=settings.data.directory / "cache",
        )

    return Understander(recent, exemplars, settings.understand, _chat(provider), ladder)
