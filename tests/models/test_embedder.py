"""The shipped embedder: its vectors are pinned, and do not depend on who else is in the batch."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from ragstone.errors import StoreError
from ragstone.models.embedder import SHIPPED_MODEL, OnnxEmbedder

MODEL = Path(str(resources.files("ragstone.models") / "data" / SHIPPED_MODEL))
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


def test_vectors_are_those_of_the_export(embedder: OnnxEmbedder) -> None:
    golden = json.loads((MODEL / "golden.json").read_text("utf-8"))
    vectors = embedder.embed([row["text"] for row in golden])
    cosines = (vectors * np.array([row["vector"] for row in golden])).sum(axis=1)
    assert len(golden) >= 8
    assert cosines.min() > 0.999


def test_the_card_names_the_model_and_its_bytes(embedder: OnnxEmbedder) -> None:
    card = json.loads((MODEL / "card.json").read_text("utf-8"))
    assert embedder.name == f"{card['name']}-v{card['version']}"
    assert embedder.dimension == card["dimension"]
    assert embedder.max_tokens == card["max_tokens"]
    model = (MODEL / "model.onnx").read_bytes()
    assert hashlib.sha256(model).hexdigest() == card["sha256"]


def test_no_text_and_empty_text_are_embedded(embedder: OnnxEmbedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimension)
    assert np.isfinite(embedder.embed([""])).all()


def test_what_is_beyond_the_limit_does_not_count(embedder: OnnxEmbedder) -> None:
    long = "word " * 600
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
