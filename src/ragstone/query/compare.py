"""Two answers to one question from one retrieval: its raw hits, and what refine made of them.

The search runs once; the answers are then written side by side, so that both take no longer than
the slower one.
"""

from __future__ import annotations

import asyncio

from ragstone.query.pipeline import Pipeline, answered_at_once
from ragstone.query.understand.understander import Understood
from ragstone.trace import Trace
from ragstone.types import Answer, Comparison, Finished, Hits, Query


async def compare(pipeline: Pipeline, query: Query, trace: Trace) -> Comparison:
    understood = await pipeline.understander.understand(query, trace)
    if understood.reply is not None:
        answer = answered_at_once(understood, understood.reply, trace)
        return Comparison(answer, answer)
    raw, refined = await _evidence(pipeline, understood.query, trace)
    tasks = [
        asyncio.create_task(_answer(pipeline, understood, hits, trace.branch()))
        for hits in (raw, refined)
    ]
    try:
        baseline, enhanced = await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # when one fails, or the client is gone, the other has no use
            task.cancel()
    return Comparison(baseline, enhanced)


async def _evidence(pipeline: Pipeline, query: Query, trace: Trace) -> tuple[Hits, Hits]:
    """The hits before and after refine; for a summary, which nothing refines, the same."""
    try:
        if query.route == "summarize":
            hits = await pipeline.sequential.retrieve(query, trace)
            return hits, hits
        raw = await pipeline.retriever.retrieve(query, trace)
        return raw[: query.top_k], await pipeline.refined(query, raw, trace)
    except Exception as error:  # noqa: BLE001  as in the pipeline: the answer goes on without
        with trace.span("retrieve") as span:
            pipeline.ladder.step_down("without_context", trace, span, error)
        return (), ()


async def _answer(pipeline: Pipeline, understood: Understood, hits: Hits, trace: Trace) -> Answer:
    answer: Answer | None = None
    evidence = await pipeline.graded(understood.query, hits, trace)
    async for event in pipeline.write(understood, evidence, trace):
        if isinstance(event, Finished):
            answer = event.answer
    assert answer is not None, "a stream always ends with Finished"
    return answer
