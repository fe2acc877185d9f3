"""Few computations at once, in the order in which they came."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.admission import AdmissionQueue, leave_place, take_number
from ragstone.errors import OverloadedError

from .patience import LONG_S, until


async def test_who_came_first_goes_first() -> None:
    queue, order = AdmissionQueue(1, LONG_S), []
    numbers = [take_number() for _ in range(5)]

    async def compute(number: int) -> None:
        async with queue.hold_place(number):
            order.append(number)
            await asyncio.sleep(0)

    async with queue.hold_place():
        tasks = [asyncio.create_task(compute(number)) for number in reversed(numbers)]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == numbers


async def test_no_more_run_at_once_than_there_are_places() -> None:
    queue, now, most = AdmissionQueue(2, LONG_S), 0, 0

    async def compute() -> None:
        nonlocal now, most
        async with queue.hold_place():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1

    await asyncio.gather(*(compute() for _ in range(20)))
    assert most == 2


async def test_a_wait_for_a_model_holds_no_place_and_goes_on_before_those_who_came_later() -> None:
    queue, order = AdmissionQueue(1, LONG_S), []
    model, is_asked = asyncio.Event(), asyncio.Event()

    async def ask_model() -> None:
        async with queue.hold_place():
            async with leave_place():
                is_asked.set()
                await model.wait()
            order.append("first")

    async def compute(name: str) -> None:
        async with queue.hold_place():
            model.set()
            await asyncio.sleep(0.01)  # the model has answered, but the place is taken
            order.append(name)

    first = asyncio.create_task(ask_model())
    await is_asked.wait()
    await asyncio.gather(first, compute("second"), compute("third"))
    assert order == ["second", "first", "third"]


async def test_callers_take_turns() -> None:
    queue, order = AdmissionQueue(1, LONG_S), []

    async def compute(caller: str) -> None:
        async with queue.hold_place(caller=caller):
            order.append(caller)

    async with queue.hold_place():
        names = ["greedy"] * 3 + ["modest"]
        tasks = [asyncio.create_task(compute(name)) for name in names]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["greedy", "modest", "greedy", "greedy"]


async def test_who_would_wait_too_long_is_refused_and_told_when_to_come_back() -> None:
    queue = AdmissionQueue(1, LONG_S)
    async with queue.hold_place():
        # So many that the last one is expected to wait too long: 0.1 s for each before it.
        waiting = [asyncio.create_task(hold(queue)) for _ in range(10 * int(LONG_S))]
        await asyncio.sleep(0)
        assert queue.is_full
        with pytest.raises(OverloadedError, match=r"longer than the 300 s") as refused:
            await hold(queue)
        assert refused.value.retry_after_s == LONG_S + 1
        begun = asyncio.create_task(hold(queue, may_refuse=False))
        await asyncio.sleep(0)
        assert not begun.done()
    await asyncio.gather(*waiting, begun)
    assert not queue.is_full


async def test_a_place_that_never_comes_is_not_waited_for() -> None:
    queue = AdmissionQueue(1, 0.11)
    async with queue.hold_place():
        with pytest.raises(OverloadedError):
            await hold(queue)
    await hold(queue)


async def test_who_leaves_the_queue_takes_no_place() -> None:
    queue = AdmissionQueue(1, LONG_S)
    async with queue.hold_place():
        gone = [asyncio.create_task(hold(queue)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
    await hold(queue)
    paused = asyncio.create_task(pause_for_ever(queue))
    await until(lambda: queue.expected_wait_s == 0)
    paused.cancel()
    await asyncio.gather(paused, return_exceptions=True)
    async with queue.hold_place():
        assert queue.expected_wait_s > 0  # one place, not two


async def hold(queue: AdmissionQueue, *, may_refuse: bool = True) -> None:
    async with queue.hold_place(may_refuse=may_refuse):
        pass


async def pause_for_ever(queue: AdmissionQueue) -> None:
    async with queue.hold_place(), leave_place():
        await asyncio.Event().wait()
