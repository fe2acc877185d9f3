"""Remembered vectors are those of the embedder behind them, and never more than they may be."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstone.models import cache as remember
from ragstone.models.cache import RememberedVectors, remembered
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
    memory = RememberedVectors(HashEmbedder(), most=5)
    for texts in calls:
        found = memory.embed(texts)
        assert found.shape == (len(texts), memory.dimension)
        assert not texts or np.array_equal(found, HashEmbedder().embed(texts))
        assert sum(memory.knows(f"text {number}") for number in range(12)) <= 5


def test_the_most_recent_are_known() -> None:
    inner = Counting()
    memory = RememberedVectors(inner, most=3)
    memory.embed(["a", "b", "c"])
    memory.embed(["a", "a"])
    memory.embed(["d"])
    assert [memory.knows(text) for text in "abcd"] == [True, False, True, True]
    assert inner.embedded == ["a", "b", "c", "d"]


def test_long_texts_are_bounded_by_their_bytes(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(remember, "_MOST_TEXT_BYTES", 10_000)
    monkeypatch.setattr(remember, "_MOST_START_BYTES", 10_000)
    memory = RememberedVectors(HashEmbedder(), most=1000)
    for number in range(50):
        text = f"{number} " + "x " * 1000
        memory.embed([text])
        memory.token_starts(text)
    assert memory._text_bytes <= 10_000
    assert memory._start_bytes <= 10_000
    assert memory.knows(text)


def test_threads_do_not_disturb_each_other() -> None:
    memory = RememberedVectors(HashEmbedder(), most=20)
    wrong: list[str] = []

    def work(seed: int) -> None:
        for turn in range(200):
            texts = [f"text {(seed * 7 + turn + step) % 60}" for step in range(5)]
            if not np.array_equal(memory.embed(texts), HashEmbedder().embed(texts)):
                wrong.extend(texts)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_one_memory_is_enough() -> None:
    memory = remembered(HashEmbedder())
    assert remembered(memory) is memory


def test_long_vectors_are_bounded_by_their_bytes(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    inner = HashEmbedder()
    monkeypatch.setattr(remember, "_MOST_VECTOR_BYTES", 10 * 4 * inner.dimension)
    memory = RememberedVectors(inner, most=1000)
    memory.embed([f"text {number}" for number in range(50)])
    assert memory._rows is not None
    assert memory._rows.nbytes <= 10 * 4 * inner.dimension
    assert memory.knows("text 49")
