"""Embedding in threads: the texts of one document in, its vectors out, unchanged ones not computed.

Each document is embedded by itself: the shipped model gains next to nothing from larger batches
(60-token texts: 6.8 CPU ms each in batches over many documents, 6.8 in groups of five, 7.2 alone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import numpy as np

from ragstone.stages import Embedder, Vectors
from ragstone.system import lower_thread_priority

# A long document is spread over the threads in pieces of this many chunks.
_PIECE = 32


class Pending:
    """The vectors of one document, some perhaps still being computed."""

    def __init__(
        self, vectors: Vectors, missing: Sequence[int], pieces: Sequence[Future[Vectors]]
    ) -> None:
        self._vectors = vectors
        self._missing = missing
        self._pieces = pieces

    @property
    def is_done(self) -> bool:
        return all(piece.done() for piece in self._pieces)

    def result(self) -> Vectors:
        """Wait for the rest."""
        if self._pieces:
            self._vectors[self._missing] = np.concatenate([p.result() for p in self._pieces])
        return self._vectors


class EmbeddingQueue:
    """Threads that embed what is put in, in order; `embedded` counts the texts they were given."""

    def __init__(self, embedder: Embedder, threads: int, *, niceness: int = 0) -> None:
        self._embedder = embedder
        self._threads = ThreadPoolExecutor(
            threads, "embed", initializer=lower_thread_priority, initargs=(niceness,)
        )
        self._is_warm = False
        self.embedded = 0

    def put(self, texts: Sequence[str], known: Mapping[str, Vectors]) -> Pending:
        """The vectors of `texts`; those in `known` are taken from there."""
        vectors = np.zeros((len(texts), self._embedder.dimension), dtype=np.float32)
        missing = [i for i, text in enumerate(texts) if text not in known]
        for i, text in enumerate(texts):
            if text in known:
                vectors[i] = known[text]
        if missing and not self._is_warm:
            # Loaded here once, so that the threads do not all load it.
            self._embedder.embed(["."])
            self._is_warm = True
        self.embedded += len(missing)
        pieces = [
            self._threads.submit(
                self._embedder.embed, [texts[i] for i in missing[begin : begin + _PIECE]]
            )
            for begin in range(0, len(missing), _PIECE)
        ]
        return Pending(vectors, missing, pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self._threads.shutdown(cancel_futures=True)
