"""What every embedder must do: subclass, say how to make one, run with pytest.

class TestMine(EmbedderConformance):
    @pytest.fixture
    def embedder(self): return MyEmbedder()
"""

from __future__ import annotations

import numpy as np

from ragstone.stages import Embedder

TEXTS = ["The gate is green.", "Soup is sold on weekdays.", "天文台 🔭", "a", "word " * 600]


class EmbedderConformance:
    """Unit vectors of one length, the same for the same text, in the order of the texts."""

    def test_every_text_has_a_unit_vector(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)

    def test_a_text_has_the_same_vector_wherever_it_stands(self, embedder: Embedder) -> None:
        together = embedder.embed(TEXTS)
        alone = np.concatenate([embedder.embed([text]) for text in reversed(TEXTS)])[::-1]
        assert float((together * alone).sum(axis=1).min()) > 0.98

    def test_no_text_has_no_vector(self, embedder: Embedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.dimension)

    def test_a_text_without_words_has_a_vector_too(self, embedder: Embedder) -> None:
        assert np.isfinite(embedder.embed(["", "  "])).all()

    def test_tokens_have_places_in_order(self, embedder: Embedder) -> None:
        starts = list(embedder.token_starts("The gate is green."))
        assert starts[0] == 0
        assert starts == sorted(starts)
        assert embedder.max_tokens > 0

    def test_its_name_says_which_model_it_is(self, embedder: Embedder) -> None:
        assert embedder.name.strip() == embedder.name != ""
