"""Questions that arrive together are embedded together.

One question alone costs its own pass through the model; those that wait at the same moment share
passes. What comes out lies in the memory that the stages ask, so none of them needs to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

from ragstone.models.remember import RememberedVectors

# More at once would hold everybody else up for longer than it saves.
_MOST = 16


class QuestionBatcher:
    """Collects what is asked in one turn of the event loop."""

    def __init__(self, memory: RememberedVectors) -> None:
        self._memory = memory
        self._waiting: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[str, asyncio.Future[None]]
        ] = WeakKeyDictionary()
        self.batches = 0

    async def embed(self, text: str) -> None:
        """Return when the vector of `text` is in the memory, or cannot be made."""
        if self._memory.knows(text):
            return
        loop = asyncio.get_running_loop()
        waiting = self._waiting.setdefault(loop, {})
        if not waiting:
            loop.call_soon(self._flush, loop)
        if text not in waiting:
            waiting[text] = loop.create_future()
        await asyncio.shield(waiting[text])

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting[loop]
        now = {text: waiting.pop(text) for text in list(waiting)[:_MOST]}
        if waiting:
            loop.call_soon(self._flush, loop)
        self.batches += 1
        embedding = loop.run_in_executor(None, self._embed, list(now))
        embedding.add_done_callback(lambda _: _release(now.values()))

    def _embed(self, texts: list[str]) -> None:
        with suppress(Exception):  # the stage that needs the vector meets the failure again
            self._memory.embed(texts)


def _release(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
