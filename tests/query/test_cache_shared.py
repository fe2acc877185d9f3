"""The same question at the same moment: one piece of work, as long as anybody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import ProviderError, StoreError
from ragstone.events import Event, Finished, SourcesFound, Token
from ragstone.query.middleware import EventStream
from ragstone.testing import HashEmbedder
from ragstone.trace import QueryRun
from ragstone.types import Prompt, Query

from ..conftest import settings_in
from ..patience import LONG_S, until

QUESTION = "What colour is the gate?"


class SlowProvider:
    """Writes when it is told to; notes what it was asked and whether it came to an end."""

    name = "slow"
    model = "slow"

    def __init__(self) -> None:
        self.asked = self.ended = self.stopped = 0
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.fails = False

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        self.asked += 1
        try:
            self.begun.set()
            yield "The gate is green "
            await self.go.wait()
            if self.fails:
                raise ProviderError("The model is gone.")
            yield "[Source 1]."
            self.ended += 1
        except asyncio.CancelledError:
            self.stopped += 1
            raise


@pytest.fixture
async def provider() -> SlowProvider:
    return SlowProvider()


@pytest.fixture
async def engine(tmp_path: Path, provider: SlowProvider) -> AsyncIterator[Engine]:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    settings = settings_in(
        tmp_path / "data", **{"data.answer_cache": 100, "ground.temperature": 0.0}
    )
    engine = Engine(settings, embedder=HashEmbedder(), provider=provider)
    await engine.ingest([tmp_path / "gate.txt"])
    yield engine
    engine.close()


async def asking(engine: Engine, provider: SlowProvider, count: int) -> list[asyncio.Task]:
    """So many ask, and the model has begun to write."""
    tasks = [asyncio.create_task(engine.ask(QUESTION)) for _ in range(count)]
    async with asyncio.timeout(LONG_S):
        await provider.begun.wait()
    return tasks


async def test_a_hundred_who_ask_the_same_share_one_piece_of_work(
    engine: Engine, provider: SlowProvider
) -> None:
    tasks = await asking(engine, provider, 100)
    provider.go.set()
    answers = await asyncio.gather(*tasks)
    assert provider.asked == 1
    assert {answer.text for answer in answers} == {"The gate is green [Source 1]."}
    ids = {answer.query_id for answer in answers}
    assert len(ids) == 100
    assert ids <= {entry["query_id"] for entry in engine.history.queries(limit=200)}


async def test_whoever_asked_first_may_leave(engine: Engine, provider: SlowProvider) -> None:
    first, *others = await asking(engine, provider, 3)
    first.cancel()
    await asyncio.wait({first})
    provider.go.set()
    assert [answer.status for answer in await asyncio.gather(*others)] == ["answered"] * 2
    assert (provider.asked, provider.stopped) == (1, 0)


async def test_when_all_have_left_the_work_stops_and_the_next_begins_anew(
    engine: Engine, provider: SlowProvider
) -> None:
    tasks = await asking(engine, provider, 3)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert (provider.stopped, provider.ended) == (1, 0)
    provider.go.set()
    assert (await engine.ask(QUESTION)).status == "answered"
    assert provider.asked == 2


async def test_work_that_is_slow_to_stop_does_not_hide_what_began_after_it(engine: Engine) -> None:
    asked, stopping, heard = 0, 0, 0
    stop, go = asyncio.Event(), asyncio.Event()

    async def anew(query: Query, run: QueryRun) -> AsyncGenerator[Event, None]:
        nonlocal asked, stopping
        asked += 1
        try:
            yield SourcesFound(())
            await go.wait()
            raise StoreError("The disk is full.")
        finally:
            stopping += 1
            await stop.wait()

    async def begin(query: Query, run: QueryRun) -> EventStream:
        return EventStream(anew(query, run))

    async def hearing(number: int) -> None:
        nonlocal heard
        query = Query(str(number), QUESTION, temperature=0.0)
        stream = await engine.wrapped.cache.handle(query, QueryRun("r"), begin)
        async with aclosing(stream) as events:
            async for _ in events:
                heard += 1

    first = asyncio.create_task(hearing(1))
    await until(lambda: heard == 1)
    first.cancel()
    await until(lambda: stopping == 1)
    second = asyncio.create_task(hearing(2))
    await until(lambda: heard == 2)
    stop.set()
    await asyncio.wait({first})
    third = asyncio.create_task(hearing(3))
    await until(lambda: heard == 3)
    go.set()
    await asyncio.wait({second, third})
    assert isinstance(third.exception(), StoreError)
    assert asked == 2
    assert second.exception() is third.exception()


async def test_a_degraded_answer_is_for_all_who_wait_and_for_nobody_after_them(
    engine: Engine, provider: SlowProvider
) -> None:
    tasks = await asking(engine, provider, 5)
    provider.fails = True
    provider.go.set()
    for answer in await asyncio.gather(*tasks):
        assert answer.degraded
        assert answer.trace["degraded"] == list(answer.degraded)
    assert provider.asked == 1
    provider.fails = False
    again = await engine.ask(QUESTION)
    assert (again.status, again.degraded, provider.asked) == ("answered", (), 2)


async def test_an_error_is_raised_for_all_who_wait_and_for_nobody_after_them(
    engine: Engine, provider: SlowProvider
) -> None:
    asked = heard = 0

    async def anew(query: Query, run: QueryRun) -> AsyncGenerator[Event, None]:
        nonlocal asked
        asked += 1
        yield SourcesFound(())
        await provider.go.wait()
        raise StoreError("The disk is full.")

    async def begin(query: Query, run: QueryRun) -> EventStream:
        return EventStream(anew(query, run))

    async def hearing(number: int) -> None:
        nonlocal heard
        query = Query(str(number), QUESTION, temperature=0.0)
        stream = await engine.wrapped.cache.handle(query, QueryRun("r"), begin)
        async with aclosing(stream) as events:
            async for _ in events:
                heard += 1

    tasks = [asyncio.create_task(hearing(number)) for number in range(5)]
    await until(lambda: heard == 5)
    provider.go.set()
    failed = await asyncio.gather(*tasks, return_exceptions=True)
    assert ({type(one) for one in failed}, asked) == ({StoreError}, 1)
    with pytest.raises(StoreError):
        await hearing(6)
    assert asked == 2


async def test_a_second_listener_hears_the_words_while_they_are_written(
    engine: Engine, provider: SlowProvider
) -> None:
    (first,) = await asking(engine, provider, 1)
    async with asyncio.timeout(LONG_S), aclosing(engine.stream(QUESTION)) as events:
        async for event in events:
            if isinstance(event, Token):
                break
        assert not first.done()
        provider.go.set()
        rest = [event async for event in events]
    assert isinstance(rest[-1], Finished)
    assert rest[-1].answer.query_id != (await first).query_id
    assert provider.asked == 1


async def test_answers_of_a_model_that_may_vary_are_not_shared(
    engine: Engine, provider: SlowProvider
) -> None:
    provider.go.set()
    await asyncio.gather(*(engine.ask(QUESTION, temperature=0.7) for _ in range(3)))
    assert provider.asked == 3
