"""Keep slow work off the event loop: blocking I/O, and work for the processor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ragstone.admission import leave_place
from ragstone.system import (
    call_in_forked_children,
    count_usable_cores,
    lower_thread_priority,
)

P = ParamSpec("P")
T = TypeVar("T")


PoolName = Literal["store", "journal", "models", "intake", "network"]
# Every kind of work has its own threads: what is slow delays only its own kind. asyncio's default
# pool has six on two cores, and six uploads that wait for each other stopped every endpoint.
_POOL_THREADS: dict[PoolName, int] = {
    "store": 12,  # short reads of the catalog; SQLAlchemy has 15 connections
    "journal": 2,
    "models": max(2, count_usable_cores()),  # a model on the processor
    "intake": 64,  # uploads and deletions: most of them wait for each other
    "network": 64,
}


async def run_in_thread(
    pool: PoolName, work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> T:
    """Call `work` in a thread of a pool, with the context of this call."""
    call = partial(copy_context().run, work, *given, **named)
    return await asyncio.get_running_loop().run_in_executor(_get_pool(pool), call)


def _get_pool(name: PoolName) -> ThreadPoolExecutor:
    with _first_use:
        return _make_pool(name)


@cache
def _make_pool(name: PoolName) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_POOL_THREADS[name], name)


async def run_in_thread_if_blocking(
    part: object, work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> T:
    """Call `work`, in a thread if `part` does blocking network I/O (`part.waits`).

    All other parts are called in place: a hop to a thread costs more than their work (848 against
    134 requests/s measured).
    """
    if getattr(part, "waits", False):
        async with leave_place():
            return await run_in_thread("network", work, *given, **named)
    return work(*given, **named)


# Two threads that ask for the first time at once must get the same object.
_first_use = threading.RLock()


def background_thread() -> ThreadPoolExecutor:
    with _first_use:
        return _make_background_thread()


@cache
def _make_background_thread() -> ThreadPoolExecutor:
    """Return one thread of low priority: several would take the event loop's turns away, and with
    them the tokens of the answers that are being written."""
    return ThreadPoolExecutor(1, "aside", initializer=lower_thread_priority, initargs=(5,))


class BackgroundLoop:
    """Run coroutines for code without an event loop, all on one loop in one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ragstone", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and return its result. An interrupt stops the work."""
        if threading.current_thread() is self._thread:
            # A part on this loop calls an engine, too: the loop would wait for itself.
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(asyncio.run, work).result()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


def background_loop() -> BackgroundLoop:
    with _first_use:
        return _make_background_loop()


@cache
def _make_background_loop() -> BackgroundLoop:
    return BackgroundLoop()


def _forget_threads() -> None:
    """Start anew in a forked process: threads do not survive a fork."""
    global _first_use  # noqa: PLW0603  the lock may be held by a thread that is gone
    _first_use = threading.RLock()
    _make_pool.cache_clear()
    _make_background_thread.cache_clear()
    _make_background_loop.cache_clear()


call_in_forked_children(_forget_threads)


class PerLoop(Generic[T]):
    """Keep one value per event loop: futures and connections belong to the loop that made them."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._values:
            self._values[loop] = self._make()
        return self._values[loop]

    def pop(self) -> T | None:
        return self._values.pop(asyncio.get_running_loop(), None)


if TYPE_CHECKING:
    opened_once = cached_property
else:

    class opened_once(cached_property):  # noqa: N801  used like `cached_property`
        """Compute a property once, also when several threads ask for it at the same time.

        `cached_property` has no lock since Python 3.12. The instance holds it as `opening`.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            with instance.opening:
                return super().__get__(instance, owner)
