"""The public stand-ins keep the promises of the parts they stand in for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstone.testing import HashEmbedder, ScriptedProvider
from ragstone.types import Prompt


@given(st.lists(st.text(), max_size=5))
def test_hash_vectors_are_unit_vectors_and_do_not_depend_on_their_neighbours(
    texts: list[str],
) -> None:
    embedder = HashEmbedder()
    vectors = embedder.embed(texts)
    assert vectors.shape == (len(texts), 64)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for row, text in zip(vectors, texts, strict=True):
        assert np.array_equal(row, embedder.embed([text])[0])


def test_texts_that_share_words_are_similar() -> None:
    gate, same, other = HashEmbedder().embed(["the green gate", "a green gate", "it rains"])
    assert gate @ same > gate @ other


def test_token_starts_are_the_places_of_words_and_signs() -> None:
    assert HashEmbedder().token_starts("It rains, 🙂!") == [0, 3, 8, 10, 11]


async def test_a_scripted_provider_says_its_pieces_and_remembers_the_prompt() -> None:
    provider = ScriptedProvider(["Pa", "ris"])
    prompt = Prompt("Where?", (), ())
    assert [piece async for piece in provider.stream(prompt)] == ["Pa", "ris"]
    assert provider.prompts == [prompt]
