"""The shipped embedder: its vectors are pinned, and do not depend on who else is in the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragstone.errors import StoreError
from ragstone.models.embedder import OnnxEmbedder

TEXTS = ["How long is the notice period?", "The dome opens at nine.", "天文台 🙂", "x" * 3000]


def test_vectors_have_length_one_and_the_announced_dimension(embedder: OnnxEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)


def test_a_vector_does_not_depend_on_its_neighbours(embedder: OnnxEmbedder) -> None:
    together = embedder.embed(TEXTS * 3)
    for position, text in enumerate(TEXTS * 3):
        alone = embedder.embed([text])[0]
        assert float(together[position] @ alone) > 0.9999


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("How long is the notice period?", "Either side may end the contract with three months' "
         "notice.", "The café serves soup."),
        ("When does it open?", "The observatory is open from nine to five.", "The mirror weighs "
         "two tonnes."),
    ],
)  # fmt: skip
def test_an_answer_is_nearer_than_something_else(
    embedder: OnnxEmbedder, question: str, answer: str, other: str
) -> None:
    asked, near, far = embedder.embed([question, answer, other])
    assert asked @ near > asked @ far + 0.1


def test_vectors_agree_with_the_fp32_model(embedder: OnnxEmbedder) -> None:
    # Golden figures: `embed_with_numpy` of scripts/build_embedder.py on the published weights.
    person, dog, day, notice = embedder.embed(
        ["That is a happy person", "That is a happy dog", "Today is a sunny day", TEXTS[0]]
    )
    assert float(person @ dog) == pytest.approx(0.6946, abs=0.015)
    assert float(person @ day) == pytest.approx(0.2569, abs=0.015)
    assert float(dog @ notice) == pytest.approx(0.0655, abs=0.015)
    golden = [0.0171, 0.0490, 0.0545, 0.0498, 0.0516, 0.0030, -0.0668, -0.0317]
    assert notice[:8].tolist() == pytest.approx(golden, abs=0.01)


def test_no_text_and_empty_text_are_embedded(embedder: OnnxEmbedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimension)
    assert np.isfinite(embedder.embed([""])).all()


def test_what_is_beyond_the_limit_does_not_count(embedder: OnnxEmbedder) -> None:
    long = "word " * 400
    a, b = embedder.embed([long, long + "and something else entirely"])
    assert np.array_equal(a, b)


def test_token_starts_are_offsets_into_the_text(embedder: OnnxEmbedder) -> None:
    text = "The dômes open 🙂 天文"
    starts = list(embedder.token_starts(text))
    assert starts == sorted(starts)
    assert all(not text[start].isspace() for start in starts)
    assert [text[start] for start in starts][:1] == ["T"]


def test_a_missing_file_is_told_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="missing") as refused:
        OnnxEmbedder(tmp_path).embed(["text"])
    assert "again" in refused.value.hint
