"""The vectors of the last questions: the intent router and the search embed the same text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from ragstone.stages import Embedder, Vectors

_KEPT = 512


class RecentVectors:
    """An embedder in front of another that remembers what it was asked last."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: OrderedDict[str, Vectors] = OrderedDict()

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self._embedder.max_tokens

    def token_starts(self, text: str) -> Sequence[int]:
        return self._embedder.token_starts(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._embedder.embed(missing), strict=True))
        for text in texts:
            self._known.move_to_end(text)
        found = np.stack([self._known[text] for text in texts])
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return found
