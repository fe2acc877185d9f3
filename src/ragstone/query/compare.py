"""Two answers to one question from one retrieval: its raw hits, and what refine made of them.

The search runs once; the answers are then written side by side, so that both take no longer than
the slower one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragstone.errors import InputError
from ragstone.query.answer import Pipeline, reply_events
from ragstone.trace import Trace
from ragstone.types import Event, Hits, Query

SideName: TypeAlias = Literal["baseline", "enhanced"]
SIDES: tuple[SideName, SideName] = ("baseline", "enhanced")


@dataclass(frozen=True, slots=True)
class SideEvent:
    """An event of one of the two answers."""

    side: SideName
    event: Event


async def compare(
    pipeline: Pipeline, query: Query, trace: Trace
) -> AsyncGenerator[SideEvent, None]:
    """The events of both answers as they happen; each side ends with its Finished."""
    understood = await pipeline.understander.understand(query, trace)
    if understood.reply is not None:
        events = tuple(reply_events(understood, understood.reply, trace))
        for side in SIDES:
            for event in events:
                yield SideEvent(side, event)
        return
    found = await _evidence(pipeline, understood.query, trace)
    arriving: asyncio.Queue[SideEvent | asyncio.Task[None]] = asyncio.Queue()

    async def write(side: SideName, hits: Hits, branch: Trace) -> None:
        evidence = await pipeline.graded(understood.query, hits, branch)
        async for event in pipeline.write(understood, evidence, branch):
            arriving.put_nowait(SideEvent(side, event))

    running = {
        asyncio.create_task(write(side, hits, trace.branch()))
        for side, hits in zip(SIDES, found, strict=True)
    }
    tasks = tuple(running)
    for task in tasks:
        task.add_done_callback(arriving.put_nowait)
    try:
        while running:
            one = await arriving.get()
            if isinstance(one, SideEvent):
                yield one
            else:
                running.discard(one)
                one.result()
    finally:
        for task in tasks:  # when one fails, or the client is gone, the other has no use
            task.cancel()


async def _evidence(pipeline: Pipeline, query: Query, trace: Trace) -> tuple[Hits, Hits]:
    """The hits before and after refine; for a summary, which nothing refines, the same."""
    try:
        if query.route == "summarize":
            hits = await pipeline.sequential.retrieve(query, trace)
            return hits, hits
        raw = await pipeline.retriever.retrieve(query, trace)
        return raw[: query.top_k], await pipeline.refined(query, raw, trace)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  as in the pipeline: the answer goes on without
        with trace.span("retrieve") as span:
            pipeline.ladder.step_down("without_context", trace, span, error)
        return (), ()
