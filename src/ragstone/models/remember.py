"""Vectors that were asked for before: questions, words and sentences come back often."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from ragstone.stages import Embedder, Vectors


class RememberedVectors:
    """An embedder in front of another that keeps the `most` recent vectors."""

    def __init__(self, embedder: Embedder, *, most: int = 20_000) -> None:
        self._embedder = embedder
        self._most = most
        self._vectors: OrderedDict[str, Vectors] = OrderedDict()

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
        return self._embedder.token_starts(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        known = {text: self._vectors[text] for text in texts if text in self._vectors}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, self._embedder.embed(new), strict=True))
        for text in dict.fromkeys(texts):
            self._vectors[text] = known[text]
            self._vectors.move_to_end(text)
        while len(self._vectors) > self._most:
            self._vectors.popitem(last=False)
        return np.array([known[text] for text in texts], dtype=np.float32)
