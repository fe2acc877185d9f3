"""Vectors that were asked for before: questions, words and sentences come back often."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from ragstone.stages import Embedder, Vectors

_MOST_TEXTS = 8_192


class RememberedVectors:
    """An embedder in front of another that keeps the `most` recent vectors."""

    def __init__(self, embedder: Embedder, *, most: int = 40_000) -> None:
        self._embedder = embedder
        self._most = most
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()
        self._starts: OrderedDict[str, Sequence[int]] = OrderedDict()
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
                self._starts[text] = starts
                if len(self._starts) > _MOST_TEXTS:
                    self._starts.popitem(last=False)
        return starts

    def knows(self, text: str) -> bool:
        return text in self._vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            known = {text: self._vectors[text] for text in texts if text in self._vectors}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, self._embedder.embed(new), strict=True))
        with self._lock:
            for text in dict.fromkeys(texts):
                self._vectors[text] = known[text]
                self._vectors.move_to_end(text)
            while len(self._vectors) > self._most:
                self._vectors.popitem(last=False)
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.array([known[text] for text in texts], dtype=np.float32)


def remembered(embedder: Embedder) -> RememberedVectors:
    """The embedder itself if it remembers already: one memory serves all parts of a pipeline."""
    return embedder if isinstance(embedder, RememberedVectors) else RememberedVectors(embedder)
