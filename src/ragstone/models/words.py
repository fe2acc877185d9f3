"""What single words mean: a table of vectors, made once by the shipped embedder.

A word of one token is looked up, a longer one is the mean of its pieces: microseconds, where the
model itself takes half a millisecond a word and an answer looks at two hundred of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from ragstone.models.embedder import OnnxEmbedder
from ragstone.protocols import Vectors

# Ids of words seen lately: a few tokens each, so this is 10 MB at most.
_MOST_WORDS = 50_000
_UNKNOWN = (100,)


class WordVectors:
    """Unit vectors of words, from the table beside the shipped embedder."""

    def __init__(self, embedder: OnnxEmbedder | None = None) -> None:
        self._embedder = embedder or OnnxEmbedder()
        self._ids: dict[str, tuple[int, ...]] = {}

    @cached_property
    def _table(self) -> NDArray[np.int8]:
        """Mapped, not read: the workers of a server share one copy."""
        table: NDArray[np.int8] = np.load(self._embedder.words_file, mmap_mode="r")
        return table

    def __call__(self, words: Sequence[str]) -> Vectors:
        """One row per word."""
        if not words:
            return np.zeros((0, self._table.shape[1]), dtype=np.float32)
        pieces = self._pieces(words)
        flat = [piece for row in pieces for piece in row]
        rows = _unit(self._table[flat].astype(np.float32))
        starts = np.cumsum([0, *(len(row) for row in pieces[:-1])])
        return _unit(np.add.reduceat(rows, starts))

    def _pieces(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        # Held on to: another thread may begin anew meanwhile.
        ids = self._ids
        new = [word for word in dict.fromkeys(words) if word not in ids]
        if len(ids) + len(new) > _MOST_WORDS:
            ids = self._ids = {}
            new = list(dict.fromkeys(words))
        if new:
            encoded = self._embedder.tokenizer.encode_batch_fast(new, add_special_tokens=False)
            ids.update(
                (word, tuple(one.ids) or _UNKNOWN) for word, one in zip(new, encoded, strict=True)
            )
        return [ids[word] for word in words]


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(lengths, 1e-6)).astype(np.float32, copy=False)
    return unit


@cache
def shipped_words() -> WordVectors:
    return WordVectors()
