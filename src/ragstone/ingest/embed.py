"""Embed texts in threads, batch by batch: the texts of one document in, its vectors out.

Each document is embedded by itself: the shipped model gains next to nothing from larger batches
(60-token texts: 6.8 CPU ms each in batches over many documents, 6.8 in groups of five, 7.2 alone).
The documents take turns: a long one has only one batch per thread in the queue, so that short ones
never wait for its end, and only the texts of these batches are built.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from ragstone.index.analyze import get_language_name
from ragstone.models.embedder import MULTILINGUAL
from ragstone.protocols import Embedder, Vectors
from ragstone.system import lower_thread_priority
from ragstone.types import Chunk

_BATCH_CHUNKS = 32


class Texts(Protocol):
    """A list of texts, or what builds them one by one."""

    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> str: ...


@dataclass(frozen=True, slots=True)
class ChunkTexts:
    """The texts by which chunks are embedded, built when they are needed."""

    chunks: Sequence[Chunk]

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, at: int, /) -> str:
        return self.chunks[at].contextual_text


class PendingVectors:
    """The vectors of one document, some of them perhaps still being computed."""

    def __init__(self, texts: Texts, known: Mapping[str, Vectors], embedder: Embedder) -> None:
        self._texts = texts
        self._embedder = embedder
        self._vectors = np.zeros((len(texts), embedder.dimension), dtype=np.float32)
        self._missing: Sequence[int] = range(len(texts))
        if known:
            self._missing = [at for at in range(len(texts)) if not self._copy(at, known)]
        self._batches = self._cut_batches()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._computed = 0
        if not self._missing:
            self._ended.set()

    def _copy(self, at: int, known: Mapping[str, Vectors]) -> bool:
        vector = known.get(self._texts[at])
        if vector is not None:
            self._vectors[at] = vector
        return vector is not None

    def _cut_batches(self) -> Iterator[Sequence[int]]:
        for begin in range(0, len(self._missing), _BATCH_CHUNKS):
            yield self._missing[begin : begin + _BATCH_CHUNKS]

    @property
    def embedder(self) -> str:
        return self._embedder.name

    @property
    def missing_count(self) -> int:
        return len(self._missing)

    @property
    def done_count(self) -> int:
        """The number of texts that have their vectors."""
        return len(self._texts) - len(self._missing) + self._computed

    @property
    def is_done(self) -> bool:
        return self._ended.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the last vector; return False if the time is over before."""
        return self._ended.wait(timeout_s)

    def cancel(self) -> None:
        """Leave out what is not computed yet: it is not needed any more."""
        with self._lock:
            self._batches = iter(())

    def result(self) -> Vectors:
        """Return all vectors when the last one is computed, or raise what prevented it."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        return self._vectors

    def take_batch(self) -> Sequence[int]:
        """Return the positions of the next texts to embed."""
        with self._lock:
            return next(self._batches, ())

    def compute(self, positions: Sequence[int]) -> None:
        try:
            texts = [self._texts[at] for at in positions]
            self._vectors[positions] = self._embedder.embed(texts)
        except BaseException as error:  # noqa: BLE001  whoever wants the vectors gets it
            self.cancel()
            self._error = error
            self._ended.set()
        with self._lock:
            self._computed += len(positions)
            if self._computed == len(self._missing):
                self._ended.set()


class EmbeddingQueue:
    """Embed texts in threads; `embedded_count` counts those that were not known."""

    def __init__(self, embedder: Embedder, threads: int, *, niceness: int = 0) -> None:
        self._embedder = embedder
        self._thread_count = threads
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

    def put(self, texts: Texts, known: Mapping[str, Vectors]) -> PendingVectors:
        """Compute the vectors of `texts`, except those in `known`."""
        pending = PendingVectors(texts, known, self._embedder)
        if pending.missing_count and not self._is_warm:
            # Load the model once, here, so that the threads do not all load it.
            self._embedder.embed(["."])
            self._is_warm = True
        self.embedded_count += pending.missing_count
        for _ in range(self._thread_count):
            self._submit_next(pending)
        return pending

    def _submit_next(self, pending: PendingVectors) -> None:
        if positions := pending.take_batch():
            self._threads.submit(self._compute, pending, positions)

    def _compute(self, pending: PendingVectors, positions: Sequence[int]) -> None:
        pending.compute(positions)
        with suppress(RuntimeError):  # the run was stopped
            self._submit_next(pending)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A run that ends has nothing left to compute; one that is stopped does not wait.
        self._threads.shutdown(wait=False, cancel_futures=True)


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
