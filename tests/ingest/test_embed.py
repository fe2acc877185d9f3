"""Documents take turns at the embedder; what is said when it does not read them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragstone.ingest.embed import EmbeddingQueue, explain_unread_languages
from ragstone.models.embedder import MULTILINGUAL
from ragstone.protocols import Vectors
from ragstone.testing import HashEmbedder

from ..patience import LONG_S


def embedder(languages: frozenset[str] | None) -> Any:
    return SimpleNamespace(name="model-1", languages=languages)


ENGLISH = embedder(frozenset({"english"}))


@pytest.mark.parametrize("codes", [{}, {"en": 3}, {"en": 2, "de": 2}])
def test_nothing_is_said_when_half_of_the_documents_are_read(codes: dict[str, int]) -> None:
    assert explain_unread_languages(codes, ENGLISH) == ""


def test_the_multilingual_model_is_offered_for_a_language_that_it_reads() -> None:
    hint = explain_unread_languages({"de": 3, "en": 1, "zh": 1}, ENGLISH)
    assert "model-1 does not read (German, Chinese)" in hint
    assert "ragstone models pull multilingual" in hint


def test_it_is_not_offered_for_one_that_it_does_not_read() -> None:
    hint = explain_unread_languages({"hi": 3}, ENGLISH)
    assert "Hindi" in hint
    assert "pull" not in hint
    assert "pull" not in explain_unread_languages({"hi": 3}, embedder(MULTILINGUAL))


def test_an_embedder_that_says_nothing_is_taken_to_read_everything() -> None:
    assert explain_unread_languages({"hi": 3}, embedder(None)) == ""


class GatedEmbedder(HashEmbedder):
    """Embeds nothing but the first text before it is opened, and notes the texts in order."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        if texts != ["."]:
            self.opened.wait(LONG_S)
            self.texts += texts
        return super().embed(texts)


def test_a_short_document_does_not_wait_for_the_end_of_a_long_one() -> None:
    embedder = GatedEmbedder()
    texts = [f"Shelf {number} is full." for number in range(500)]
    with EmbeddingQueue(embedder, 1) as queue:
        long = queue.put(texts, {texts[7]: np.ones(embedder.dimension, np.float32)})
        short = queue.put(["The gate is green."], {})
        assert (long.done_count, long.is_done) == (1, False)
        embedder.opened.set()
        vectors = long.result()
        assert short.is_done
        assert embedder.texts.index("The gate is green.") < 100
        assert (queue.embedded_count, long.done_count) == (500, 500)
    assert np.array_equal(vectors[8:], embedder.embed(texts[8:]))
    assert vectors[7].sum() == embedder.dimension


def test_what_an_embedder_raises_is_raised_where_the_vectors_are_wanted() -> None:
    with EmbeddingQueue(HashEmbedder(), 2) as queue, pytest.raises(AttributeError):
        queue.put([None] * 100, {}).result()  # type: ignore[list-item]
