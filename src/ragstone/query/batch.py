"""Answer many questions in order, and prepare the context of a question for another model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from ragstone.errors import InputError, RagstoneError
from ragstone.protocols import Embedder
from ragstone.query.answer import Pipeline
from ragstone.query.ground.context import BudgetContextBuilder, format_source_header
from ragstone.trace import QueryRun
from ragstone.types import Answer, Query, Source


@dataclass(frozen=True, slots=True)
class BatchItem:
    """Hold the answer to one question of a batch, or the error that it met."""

    index: int
    question: str
    answer: Answer | None = None
    error: RagstoneError | None = None


async def answer_in_order(
    questions: Sequence[str], ask: Callable[[str], Awaitable[Answer]], *, concurrency: int
) -> AsyncGenerator[BatchItem, None]:
    """Answer some questions at the same time and yield them in their order.

    A question that fails yields its error; the others go on.
    """
    if concurrency < 1:
        raise InputError(
            f"Invalid concurrency {concurrency}.", hint="Use a whole number from 1 upwards."
        )
    slots = asyncio.Semaphore(concurrency)

    async def answer_one(index: int, question: str) -> BatchItem:
        async with slots:
            try:
                return BatchItem(index, question, await ask(question))
            except RagstoneError as error:
                return BatchItem(index, question, error=error)

    tasks = [asyncio.create_task(answer_one(*one)) for one in enumerate(questions)]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class QuestionContext:
    """Hold the finished context of a question: numbered sources within a budget."""

    question: str
    text: str
    """The sources as they go into a prompt, each under its header `[Source N]`."""
    sources: tuple[Source, ...]
    tokens: int
    """The tokens of `text`, counted with the tokenizer of the embedder."""
    notes: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()


async def build_context(
    pipeline: Pipeline, query: Query, run: QueryRun, embedder: Embedder, max_tokens: int | None
) -> QuestionContext:
    """Search and refine, and put what was found into a budget; no model writes."""
    if max_tokens is not None and max_tokens < 16:
        raise InputError(
            f"Invalid max_tokens {max_tokens}.", hint="Use a whole number from 16 upwards."
        )
    builder = pipeline.context
    if max_tokens is not None and isinstance(builder, BudgetContextBuilder):
        options = builder.options.model_copy(update={"max_context_tokens": max_tokens})
        builder = replace(builder, options=options)
    found = await pipeline.search(query, run)
    with run.span("ground.context") as span:
        sources = await span.run_in_background(builder.build, query, found.hits, span)

    def count(some: Sequence[Source]) -> int:
        return len(embedder.token_starts(format_context(some)))

    # The separators between the sources, and the builder of a plug-in, may exceed the budget.
    while max_tokens is not None and sources and count(sources) > max_tokens:
        sources = sources[:-1]
    return QuestionContext(
        query.text,
        format_context(sources),
        sources,
        count(sources) if sources else 0,
        tuple(run.notes),
        tuple(run.degraded),
    )


def format_context(sources: Sequence[Source]) -> str:
    return "\n\n".join(
        f"{format_source_header(source.number, source.hit)}\n{source.prompt_text}"
        for source in sources
    )
