"""Vectors that were asked for before: questions and sentences come back often.

Everything here is bounded in bytes: a server that runs for weeks must not grow with what it reads.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np

from ragstone.protocols import Embedder, Vectors
from ragstone.threads import PerLoop

_MOST_TEXT_BYTES = 32_000_000
_MOST_START_BYTES = 32_000_000
# 40,000 vectors of the shipped embedder; fewer of one whose vectors are longer.
_MOST_VECTOR_BYTES = 40_000 * 384 * 4


class RememberedVectors:
    """An embedder in front of another that keeps the `most` recent vectors."""

    def __init__(self, embedder: Embedder, *, most: int = 40_000) -> None:
        self._embedder = embedder
        self._most = most
        # One array for all: rows of their own would each keep the whole batch alive in which they
        # were made, as long as any of them is in use. The memory is taken as it fills.
        self._rows: Vectors | None = None
        self._places: OrderedDict[str, int] = OrderedDict()
        self._text_bytes = 0
        self._free: list[int] = []
        self._starts: OrderedDict[str, Sequence[int]] = OrderedDict()
        self._start_bytes = 0
        # Answers are worked on in several threads; the model itself runs outside of it.
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def waits(self) -> bool:
        """Whether embedding is to be done off the event loop."""
        return bool(getattr(self._embedder, "waits", False))

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self._embedder.max_tokens

    def token_starts(self, text: str) -> Sequence[int]:
        """Counted once for each passage: every prompt measures the passages it holds."""
        starts = self._starts.get(text)
        if starts is None:
            starts = array("I", self._embedder.token_starts(text))
            with self._lock:
                if text not in self._starts:
                    self._start_bytes += _size(text, starts)
                self._starts[text] = starts
                while self._start_bytes > _MOST_START_BYTES:
                    self._start_bytes -= _size(*self._starts.popitem(last=False))
        return starts

    def knows(self, text: str) -> bool:
        return text in self._places

    def embed(self, texts: Sequence[str]) -> Vectors:
        found = np.empty((len(texts), self.dimension), dtype=np.float32)
        missing: dict[str, list[int]] = {}
        with self._lock:
            known: list[tuple[int, int]] = []
            for at, text in enumerate(texts):
                place = self._places.get(text)
                if place is None:
                    missing.setdefault(text, []).append(at)
                else:
                    self._places.move_to_end(text)
                    known.append((at, place))
            if known and self._rows is not None:
                at_, places = zip(*known, strict=True)
                found[list(at_)] = self._rows[list(places)]
        if missing:
            made = self._embedder.embed(list(missing))
            for row, wanted in zip(made, missing.values(), strict=True):
                found[wanted] = row
            with self._lock:
                for text, row in zip(missing, made, strict=True):
                    self._keep(text, row)
        return found

    def _keep(self, text: str, vector: Vectors) -> None:
        if text in self._places:  # another thread was faster
            return
        if self._rows is None:
            most = max(1, min(self._most, _MOST_VECTOR_BYTES // (4 * self.dimension)))
            self._rows = np.empty((most, self.dimension), dtype=np.float32)
            self._free = list(range(most))[::-1]
        size = sys.getsizeof(text)
        while self._places and (not self._free or self._text_bytes + size > _MOST_TEXT_BYTES):
            oldest, place = self._places.popitem(last=False)
            self._text_bytes -= sys.getsizeof(oldest)
            self._free.append(place)
        place = self._free.pop()
        self._rows[place] = vector
        self._places[text] = place
        self._text_bytes += size


def _size(text: str, starts: Sequence[int]) -> int:
    return sys.getsizeof(text) + sys.getsizeof(starts)


def remembered(embedder: Embedder) -> RememberedVectors:
    """The embedder itself if it remembers already: one memory serves all parts of a pipeline."""
    return embedder if isinstance(embedder, RememberedVectors) else RememberedVectors(embedder)


# More at once would hold everybody else up for longer than it saves.
_MOST = 16


class QuestionBatcher:
    """Collects what is asked in one turn of the event loop."""

    def __init__(self, memory: RememberedVectors) -> None:
        self._memory = memory
        self._waiting: PerLoop[dict[str, asyncio.Future[None]]] = PerLoop(dict)
        self.batches = 0

    async def embed(self, text: str) -> None:
        """Return when the vector of `text` is in the memory, or cannot be made."""
        if self._memory.knows(text):
            return
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get()
        if not waiting:
            loop.call_soon(self._flush, loop)
        if text not in waiting:
            waiting[text] = loop.create_future()
        await asyncio.shield(waiting[text])

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting.get()
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
