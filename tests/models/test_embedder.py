"""The shipped embedder: its vectors are pinned, and do not depend on who else is in the batch."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from ragstone.errors import SettingsError, StoreError
from ragstone.models.embedder import (
    SHIPPED_MODEL,
    OnnxEmbedder,
    PulledEmbedder,
    build_embedder,
    load_tokenizer,
)
from ragstone.models.registry import find_model

from ..cli.run import call
from ..conftest import settings_in

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


class PooledByHand(PulledEmbedder):
    """A pulled model without its file: a token's hidden state is its id, its place and 1."""

    @property
    def tokenizer(self) -> Tokenizer:  # type: ignore[override]
        return load_tokenizer(MODEL)

    @property
    def _session(self) -> PooledByHand:
        return self

    def run(self, _: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        ids = inputs["input_ids"]
        places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return [np.stack([ids, places, np.ones_like(ids)], axis=2).astype(np.float32)]


def test_the_first_token_stands_for_the_text_of_bge(tmp_path: Path) -> None:
    vectors = PooledByHand(find_model("bge-small-en-v1.5"), tmp_path)._run([[101, 7], [101, 8, 9]])
    first = np.array([101, 0, 1]) / np.linalg.norm([101, 0, 1])
    assert np.allclose(vectors, [first, first])


def test_padding_does_not_count_in_the_mean_of_gte(tmp_path: Path) -> None:
    embedder = PooledByHand(find_model("gte-small"), tmp_path)
    together = embedder._run([[101, 7], [101, 8, 9]])
    assert np.allclose(together[0], embedder._run([[101, 7]])[0])
    assert np.allclose(together[0], np.array([108, 1, 2]) / np.linalg.norm([108, 1, 2]))


def test_a_setting_names_the_pulled_model(tmp_path: Path) -> None:
    assert build_embedder(settings_in(tmp_path)).name == "ragstone-embed-l6-v1"
    shipped = settings_in(tmp_path, **{"embed.model": "ragstone-embed-l6"})
    assert build_embedder(shipped).name == "ragstone-embed-l6-v1"
    with pytest.raises(SettingsError, match="gte-small is not installed") as refused:
        build_embedder(settings_in(tmp_path, **{"embed.model": "gte-small"}))
    assert "ragstone models pull gte-small" in refused.value.hint
    with pytest.raises(SettingsError, match="does not know the model 'smollm2-135m'") as refused:
        build_embedder(settings_in(tmp_path, **{"embed.model": "smollm2-135m"}))
    assert "bge-small-en-v1.5" in refused.value.hint


def write_zeros(models: Path) -> Path:
    """Write files of gte-small that have the right sizes and nothing but zeros in them."""
    folder = models / "gte-small"
    folder.mkdir(parents=True)
    for file in find_model("gte-small").files:
        with (folder / file.path).open("wb") as stored:
            stored.truncate(file.bytes)
    return folder


def test_a_damaged_pulled_model_is_explained(tmp_path: Path) -> None:
    folder = write_zeros(tmp_path)
    (folder / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    embedder = PulledEmbedder(find_model("gte-small"), tmp_path)
    with pytest.raises(StoreError, match="of the model gte-small is damaged") as raised:
        embedder.embed(["A text."])
    assert "model.onnx" in raised.value.message
    assert raised.value.hint == "Download it again with: ragstone models pull gte-small"


def test_the_doctor_explains_a_damaged_pulled_model(tmp_path: Path) -> None:
    write_zeros(tmp_path / "models")
    (tmp_path / "data").mkdir()
    done = call(
        "doctor", "-d", "data", cwd=tmp_path,
        EMBEDDING_MODEL="gte-small", RAGSTONE_DATA_MODELS="models",
    )  # fmt: skip
    assert done.returncode == 1
    assert "The file tokenizer.json of the model gte-small is damaged." in done.stdout
    assert "ragstone models pull gte-small" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
