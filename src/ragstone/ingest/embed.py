"""Embed chunks in threads: the texts of one document in, its vectors out.

Each document is embedded by itself: the shipped model gains next to nothing from larger batches
(60-token texts: 6.8 CPU ms each in batches over many documents, 6.8 in groups of five, 7.2 alone).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import numpy as np

from ragstone.index.analyze import get_language_name
from ragstone.models.embedder import MULTILINGUAL
from ragstone.protocols import Embedder, Vectors
from ragstone.system import lower_thread_priority

# A long document is spread over the threads in batches of this many chunks.
_BATCH_CHUNKS = 32


class PendingVectors:
    """Hold the vectors of one document, some of them perhaps still being computed."""

    def __init__(
        self,
        vectors: Vectors,
        missing: Sequence[int],
        batches: Sequence[Future[Vectors]],
        embedder: str,
    ) -> None:
        self.embedder = embedder
        self._vectors = vectors
        self._missing = missing
        self._batches = batches

    @property
    def is_done(self) -> bool:
        return all(batch.done() for batch in self._batches)

    def cancel(self) -> None:
        """Leave out what is not computed yet: it is not needed any more."""
        for batch in self._batches:
            batch.cancel()

    def result(self) -> Vectors:
        """Wait for the last vector and return all."""
        if self._batches:
            self._vectors[self._missing] = np.concatenate([b.result() for b in self._batches])
        return self._vectors


class EmbeddingQueue:
    """Embed texts in threads, in order; `embedded_count` counts the texts that were not known."""

    def __init__(self, embedder: Embedder, threads: int, *, niceness: int = 0) -> None:
        self._embedder = embedder
        self._threads = ThreadPoolExecutor(
            threads, "embed", initializer=lower_thread_priority, initargs=(niceness,)
        )
        self._is_warm = False
        self.embedded_count = 0

    def change_embedder(self, embedder: Embedder) -> None:
        """Embed what is put from now on with another embedder."""
        self._embedder, self._is_warm = embedder, False

    @property
    def embedder(self) -> str:
        return self._embedder.name

    def put(self, texts: Sequence[str], known: Mapping[str, Vectors]) -> PendingVectors:
        """Compute the vectors of `texts`, except those in `known`."""
        vectors = np.zeros((len(texts), self._embedder.dimension), dtype=np.float32)
        missing: list[int] = []
        for i, text in enumerate(texts):
            if text in known:
                vectors[i] = known[text]
            else:
                missing.append(i)
        if missing and not self._is_warm:
            # Load the model once, here, so that the threads do not all load it.
            self._embedder.embed(["."])
            self._is_warm = True
        self.embedded_count += len(missing)
        batches = [
            self._threads.submit(
                self._embedder.embed, [texts[i] for i in missing[begin : begin + _BATCH_CHUNKS]]
            )
            for begin in range(0, len(missing), _BATCH_CHUNKS)
        ]
        return PendingVectors(vectors, missing, batches, self._embedder.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)


def explain_unread_languages(codes: Mapping[str, int], embedder: Embedder) -> str:
    """Say what to do if most documents are in languages that the embedder does not read.

    `codes` are the numbers of documents by their language. Empty if there is nothing to say.
    """
    read: frozenset[str] | None = getattr(embedder, "languages", None)
    counts = Counter({get_language_name(code): count for code, count in codes.items()})
    if read is None or not counts:
        return ""
    unread = Counter({name: count for name, count in counts.items() if name not in read})
    if unread.total() * 2 <= counts.total():
        return ""
    named = ", ".join(name.capitalize() for name, _ in unread.most_common(2))
    if "english" not in read or len(read) > 1 or not unread.keys() & MULTILINGUAL:
        return (
            "Most of these documents are in a language that the embedding model "
            f"{embedder.name} does not read ({named}): they are found by their words, hardly by "
            "their meaning."
        )
    # One whole sentence each: the catalogues translate it by its text.
    return (
        f"Most of these documents are in a language that the embedding model {embedder.name} does "
        f"not read ({named}): they are found by their words, hardly by their meaning. "
        "To change that: ragstone models pull multilingual, then ragstone reindex --embed "
        "--preset multilingual, and RAGSTONE_PRESET=multilingual from then on."
    )
