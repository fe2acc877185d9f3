"""The table of words says what the embedder says of a word alone."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.models.embedder import OnnxEmbedder, WordVectors, load_word_vectors


@pytest.mark.parametrize("word", ["wine", "lease", "telescope", "café"])
def test_a_word_of_one_token_has_the_vector_that_the_model_gives_it(
    embedder: OnnxEmbedder, word: str
) -> None:
    assert float(load_word_vectors().embed([word])[0] @ embedder.embed([word])[0]) > 0.999


def test_words_of_like_meaning_are_nearer_than_others() -> None:
    vectors = load_word_vectors().embed(["wine", "beer", "telescope"])
    near = vectors @ vectors.T
    assert near[0, 1] > near[0, 2] + 0.2


def test_every_word_has_a_unit_vector_whatever_it_is_made_of() -> None:
    vectors = load_word_vectors().embed(
        ["kubectl", "Donaudampfschiff", "望遠鏡", "\x00", "naïve", "2039"]
    )
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert load_word_vectors().embed([]).shape == (0, 384)


def test_words_seen_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.models.embedder._MAX_WORDS", 10)
    words = WordVectors()
    first = words.embed(["wine"])
    for begin in range(0, 100, 5):
        words.embed([f"word{number}" for number in range(begin, begin + 5)])
    assert len(words._ids) <= 10
    assert np.array_equal(words.embed(["wine"]), first)


def test_a_word_that_is_known_stays_known_when_the_others_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ragstone.models.embedder._MAX_WORDS", 3)
    words = WordVectors()
    first = words.embed(["wine", "beer", "tea"])
    assert np.array_equal(words.embed(["wine", "water"])[0], first[0])
