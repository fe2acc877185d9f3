"""Cache the vectors of recent texts and embed questions in batches.

Questions and sentences come back often. Every cache is bounded in bytes: a server that runs for
weeks must not grow with what it reads.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from ragstone.derived import DerivedStore, build_key
from ragstone.protocols import Embedder, Vectors
from ragstone.threads import PerLoop, run_in_thread

_MAX_TEXT_BYTES = 32_000_000
_MAX_START_BYTES = 32_000_000
# 40,000 vectors of the shipped embedder; fewer of one whose vectors are longer.
_MAX_VECTOR_BYTES = 40_000 * 384 * 4


class CachedEmbedder:
    """Wrap an embedder and cache its `max_vectors` most recent vectors."""

    def __init__(
        self, embedder: Embedder, *, max_vectors: int = 40_000, derived: DerivedStore | None = None
    ) -> None:
        self._embedder = embedder
        self._derived = derived
        self._max_vectors = max_vectors
        # One array for all: a row on its own would keep its whole batch in memory. The memory is
        # taken as the array fills.
        self._rows: Vectors | None = None
        self._places: OrderedDict[str, int] = OrderedDict()
        self._text_bytes = 0
        self._free: list[int] = []
        self._starts: OrderedDict[str, Sequence[int]] = OrderedDict()
        self._start_bytes = 0
        # Several threads use the cache; the model itself runs outside the lock.
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def waits(self) -> bool:
        """Tell whether embedding blocks, and must be done off the event loop."""
        return bool(getattr(self._embedder, "waits", False))

    @property
    def languages(self) -> frozenset[str] | None:
        return getattr(self._embedder, "languages", None)

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self._embedder.max_tokens

    def token_starts(self, text: str) -> Sequence[int]:
        """Tokenize each passage once: every prompt counts the tokens of its passages."""
        starts = self._starts.get(text)
        if starts is None:
            starts = array("I", self._embedder.token_starts(text))
            with self._lock:
                if text not in self._starts:
                    self._start_bytes += _count_bytes(text, starts)
                self._starts[text] = starts
                while self._start_bytes > _MAX_START_BYTES:
                    self._start_bytes -= _count_bytes(*self._starts.popitem(last=False))
        return starts

    def has_vector(self, text: str) -> bool:
        return text in self._places

    def embed(self, texts: Sequence[str], owners: Sequence[str] = ()) -> Vectors:
        """Return one unit vector per text.

        `owners` are the documents that the texts stand in: their vectors are kept for all
        processes. A text without a document has an empty one.
        """
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
                positions, places = zip(*known, strict=True)
                found[list(positions)] = self._rows[list(places)]
        if missing:
            computed = self._compute(missing, owners)
            for row, positions_of_text in zip(computed, missing.values(), strict=True):
                found[positions_of_text] = row
            with self._lock:
                for text, row in zip(missing, computed, strict=True):
                    self._store(text, row)
        return found

    def _compute(self, missing: Mapping[str, Sequence[int]], owners: Sequence[str]) -> Vectors:
        """Read the vectors that are kept, and compute the others."""
        texts = list(missing)
        derived = self._derived
        if derived is None or not owners:
            return self._embedder.embed(texts)
        of = {text: owners[places[0]] for text, places in missing.items()}
        keys = {text: build_key("vector", self.name, text) for text in texts if of[text]}
        kept = derived.get_many(list(keys.values()))
        size = 4 * self.dimension
        known = {t: kept[key] for t, key in keys.items() if len(kept.get(key, b"")) == size}
        new = [text for text in texts if text not in known]
        rows = dict(zip(new, self._embedder.embed(new), strict=True)) if new else {}
        values = [(keys[text], of[text], rows[text].tobytes()) for text in new if text in keys]
        if values:
            derived.put_later(lambda: values)
        return np.array(
            [rows[t] if t in rows else np.frombuffer(known[t], np.float32) for t in texts],
            dtype=np.float32,
        )

    def _store(self, text: str, vector: Vectors) -> None:
        if text in self._places:  # another thread was faster
            return
        if self._rows is None:
            count = max(1, min(self._max_vectors, _MAX_VECTOR_BYTES // (4 * self.dimension)))
            self._rows = np.empty((count, self.dimension), dtype=np.float32)
            self._free = list(range(count))[::-1]
        size = sys.getsizeof(text)
        while self._places and (not self._free or self._text_bytes + size > _MAX_TEXT_BYTES):
            oldest, place = self._places.popitem(last=False)
            self._text_bytes -= sys.getsizeof(oldest)
            self._free.append(place)
        place = self._free.pop()
        self._rows[place] = vector
        self._places[text] = place
        self._text_bytes += size


def _count_bytes(text: str, starts: Sequence[int]) -> int:
    return sys.getsizeof(text) + sys.getsizeof(starts)


def add_vector_cache(embedder: Embedder, derived: DerivedStore | None = None) -> CachedEmbedder:
    """Wrap an embedder in a cache, unless it has one: all parts of a pipeline share one cache."""
    if isinstance(embedder, CachedEmbedder):
        return embedder
    return CachedEmbedder(embedder, derived=derived)


def embed_sentences(embedder: Embedder, texts: Sequence[str], owners: Sequence[str]) -> Vectors:
    """Embed sentences of documents; the vectors of earlier questions are used again."""
    if isinstance(embedder, CachedEmbedder):
        return embedder.embed(texts, owners)
    return embedder.embed(texts)


# A larger batch would delay other questions for longer than it saves.
_MAX_BATCH = 16


class QuestionBatcher:
    """Embed the questions of one turn of the event loop together."""

    def __init__(self, embedder: CachedEmbedder) -> None:
        self._embedder = embedder
        self._waiting: PerLoop[dict[str, asyncio.Future[None]]] = PerLoop(dict)
        self.batches = 0

    async def embed(self, text: str) -> None:
        """Return when the vector of `text` is in the cache, or cannot be computed."""
        if self._embedder.has_vector(text):
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
        now = {text: waiting.pop(text) for text in list(waiting)[:_MAX_BATCH]}
        if waiting:
            loop.call_soon(self._flush, loop)
        self.batches += 1
        embedding = asyncio.ensure_future(run_in_thread("models", self._embed, list(now)))
        embedding.add_done_callback(lambda _: _release(now.values()))

    def _embed(self, texts: list[str]) -> None:
        with suppress(Exception):  # the stage that needs the vector fails with the same error
            self._embedder.embed(texts)


def _release(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
