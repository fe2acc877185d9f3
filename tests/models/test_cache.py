"""Cached vectors are those of the embedder behind the cache; the cache stays within its bounds."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstone.models import cache
from ragstone.models.cache import CachedEmbedder, add_vector_cache
from ragstone.protocols import Vectors
from ragstone.testing import HashEmbedder

TEXTS = st.lists(st.sampled_from([f"text {number}" for number in range(12)]), max_size=8)


class Counting(HashEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded += texts
        return super().embed(texts)


@given(st.lists(TEXTS, max_size=12))
def test_what_comes_out_is_what_the_embedder_says(calls: list[list[str]]) -> None:
    embedder = CachedEmbedder(HashEmbedder(), max_vectors=5)
    for texts in calls:
        found = embedder.embed(texts)
        assert found.shape == (len(texts), embedder.dimension)
        assert not texts or np.array_equal(found, HashEmbedder().embed(texts))
        assert sum(embedder.has_vector(f"text {number}") for number in range(12)) <= 5


def test_the_most_recent_are_known() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner, max_vectors=3)
    embedder.embed(["a", "b", "c"])
    embedder.embed(["a", "a"])
    embedder.embed(["d"])
    assert [embedder.has_vector(text) for text in "abcd"] == [True, False, True, True]
    assert inner.embedded == ["a", "b", "c", "d"]


def test_long_texts_are_bounded_by_their_bytes(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(cache, "_MAX_TEXT_BYTES", 10_000)
    monkeypatch.setattr(cache, "_MAX_START_BYTES", 10_000)
    embedder = CachedEmbedder(HashEmbedder(), max_vectors=1000)
    for number in range(50):
        text = f"{number} " + "x " * 1000
        embedder.embed([text])
        embedder.token_starts(text)
    assert embedder._text_bytes <= 10_000
    assert embedder._start_bytes <= 10_000
    assert embedder.has_vector(text)


def test_threads_do_not_disturb_each_other() -> None:
    embedder = CachedEmbedder(HashEmbedder(), max_vectors=20)
    wrong: list[str] = []

    def work(seed: int) -> None:
        for turn in range(200):
            texts = [f"text {(seed * 7 + turn + step) % 60}" for step in range(5)]
            if not np.array_equal(embedder.embed(texts), HashEmbedder().embed(texts)):
                wrong.extend(texts)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_cached_embedder_is_not_wrapped_again() -> None:
    embedder = add_vector_cache(HashEmbedder())
    assert add_vector_cache(embedder) is embedder


def test_long_vectors_are_bounded_by_their_bytes(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    inner = HashEmbedder()
    monkeypatch.setattr(cache, "_MAX_VECTOR_BYTES", 10 * 4 * inner.dimension)
    embedder = CachedEmbedder(inner, max_vectors=1000)
    embedder.embed([f"text {number}" for number in range(50)])
    assert embedder._rows is not None
    assert embedder._rows.nbytes <= 10 * 4 * inner.dimension
    assert embedder.has_vector("text 49")
