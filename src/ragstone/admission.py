"""Admit work for the processor: a few computations at once, first come, first served.

When everything runs at once, everybody finishes last. In order, the first ones finish early at the
same cost.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from ragstone.errors import OverloadedError

_arrivals = itertools.count()
# The time of one computation is estimated from the last ones; each new one counts a tenth.
_NEWEST_SHARE = 0.1
_FIRST_ESTIMATE_S = 0.1


def take_number() -> int:
    """Return a number that is higher for everyone who comes later."""
    return next(_arrivals)


class AdmissionQueue:
    """Let `places` computations run at once. Who came first goes first, also after a pause.

    Callers take turns: the second request of one waits behind the first of another.
    """

    def __init__(self, places: int, timeout_s: float) -> None:
        self._free = places
        self._places = places
        self._timeout_s = timeout_s
        self._waiting: list[tuple[int, int, int, asyncio.Future[None]]] = []
        self._of_caller: Counter[str] = Counter()
        self._mean_s = _FIRST_ESTIMATE_S

    @property
    def expected_wait_s(self) -> float:
        """Return how long somebody who comes now will probably wait."""
        return 0.0 if self._free else (len(self._waiting) + 1) * self._mean_s / self._places

    @property
    def is_full(self) -> bool:
        return self.expected_wait_s > self._timeout_s

    @asynccontextmanager
    async def hold_place(
        self, number: int | None = None, *, caller: str = "", may_refuse: bool = True
    ) -> AsyncIterator[None]:
        """Hold a place; refuse who would wait too long, unless their work has begun already."""
        if may_refuse and self.is_full:
            raise self._build_error()
        number = take_number() if number is None else number
        turn = self._of_caller[caller] if caller else 0
        self._of_caller[caller] += 1
        place = _Place(self, (turn, number))
        try:
            await place.acquire(self._timeout_s if may_refuse else None)
            token = _held.set(place)
            try:
                yield
            finally:
                _held.reset(token)
                place.release()
        finally:
            self._of_caller[caller] -= 1
            if not self._of_caller[caller]:
                del self._of_caller[caller]

    async def acquire(self, order: tuple[int, int], timeout_s: float | None) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (*order, take_number(), admitted))
        try:
            async with asyncio.timeout(timeout_s):
                await admitted
        except BaseException as error:
            if admitted.done() and not admitted.cancelled():
                self.release()  # the place came at the same moment
            admitted.cancel()
            if isinstance(error, TimeoutError):
                raise self._build_error() from error
            raise

    def release(self, held_s: float | None = None) -> None:
        if held_s is not None:
            self._mean_s += _NEWEST_SHARE * (held_s - self._mean_s)
        self._free += 1
        while self._free and self._waiting:
            admitted = heapq.heappop(self._waiting)[-1]
            if not admitted.done():  # else nobody waits any more
                self._free -= 1
                admitted.set_result(None)

    def _build_error(self) -> OverloadedError:
        wait_s = max(1, math.ceil(self.expected_wait_s))
        return OverloadedError(
            f"The queue is longer than the {self._timeout_s:g} s that a request may wait.",
            hint=f"Try again in {wait_s} s.",
            retry_after_s=wait_s,
        )


class _Place:
    """Hold a place that its owner may give back while it waits for somebody else."""

    def __init__(self, queue: AdmissionQueue, order: tuple[int, int]) -> None:
        self._queue = queue
        self._order = order
        self._since: float | None = None
        self._pauses = 0

    async def acquire(self, timeout_s: float | None = None) -> None:
        await self._queue.acquire(self._order, timeout_s)
        self._since = time.monotonic()

    def release(self) -> None:
        """Give the place back; one that was left and not taken again has none."""
        if self._since is not None:
            self._queue.release(time.monotonic() - self._since)
            self._since = None

    @asynccontextmanager
    async def pause(self) -> AsyncIterator[None]:
        """Give the place to others; of several that wait at once, the last one takes it back."""
        self._pauses += 1
        if self._pauses == 1:
            self.release()
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                await self.acquire()


_held: ContextVar[_Place | None] = ContextVar("held_place", default=None)


@asynccontextmanager
async def leave_place() -> AsyncIterator[None]:
    """Hold no place during a wait for a model or an engine behind a network."""
    place = _held.get()
    if place is None:
        yield
        return
    async with place.pause():
        yield
