"""Keep slow work off the event loop: blocking I/O, and work for the processor."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ragstone.system import lower_thread_priority

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread_if_blocking(
    part: object, work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> T:
    """Call `work`, in a thread if `part` does blocking network I/O (`part.waits`).

    All other parts are called in place: a hop to a thread costs more than their work (848 against
    134 requests/s measured).
    """
    if getattr(part, "waits", False):
        return await asyncio.to_thread(work, *given, **named)
    return work(*given, **named)


@cache
def background_thread() -> ThreadPoolExecutor:
    """Return one thread of low priority: several would take the event loop's turns away, and with
    them the tokens of the answers that are being written."""
    return ThreadPoolExecutor(1, "aside", initializer=lower_thread_priority, initargs=(5,))


class BackgroundLoop:
    """Run coroutines for code without an event loop, all on one loop in one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="ragstone", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and return its result. An interrupt stops the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


@cache
def background_loop() -> BackgroundLoop:
    return BackgroundLoop()


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
