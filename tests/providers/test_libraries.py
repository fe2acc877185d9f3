"""The libraries that run models of one's own, as far as they can without a hub."""

from __future__ import annotations

import importlib.util
import json
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragstone.errors import SettingsError
from ragstone.models.embedder import SHIPPED_MODEL, OnnxEmbedder
from ragstone.plugins import find_part
from ragstone.protocols import Embedder
from ragstone.testing.conformance import EmbedderConformance

from ..conftest import settings_in


def has(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def model_folder(directory: Path) -> Path:
    """The shipped model with the files beside it that libraries look for."""
    shipped = Path(str(resources.files("ragstone.models") / "data" / SHIPPED_MODEL))
    folder = directory / "shipped-model"
    shutil.copytree(shipped, folder)
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 256, "pad_token": "[PAD]"})
    )
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    return folder


@pytest.mark.skipif(not has("fastembed"), reason="fastembed is not installed")
class TestFastembed(EmbedderConformance):
    @pytest.fixture
    def embedder(self, tmp_path_factory: pytest.TempPathFactory) -> Embedder:
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        directory = tmp_path_factory.mktemp("fastembed")
        name = "ragstone/shipped-model"
        known = {row["model"] for row in TextEmbedding.list_supported_models()}
        if name not in known:
            TextEmbedding.add_custom_model(
                name, pooling=PoolingType.DISABLED, normalization=False,
                sources=ModelSource(hf=name), dim=384, model_file="model.onnx",
            )  # fmt: skip
        folder = model_folder(directory)
        flags: dict[str, Any] = {"embed.name": "fastembed", "embed.model": str(folder)}
        embedder: Embedder = find_part("embedder", "fastembed")(settings_in(directory, **flags))
        return embedder

    def test_the_shipped_model_has_the_same_vectors_there(self, embedder: Embedder) -> None:
        texts = ["The gate is green.", "Soup is sold on weekdays."]
        same = (embedder.embed(texts) * OnnxEmbedder().embed(texts)).sum(axis=1)
        assert np.all(same > 0.98)


@pytest.mark.skipif(not has("fastembed"), reason="fastembed is not installed")
def test_a_folder_that_the_library_does_not_know_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nobodys-model").mkdir()
    flags: dict[str, Any] = {"embed.model": str(tmp_path / "nobodys-model")}
    embedder = find_part("embedder", "fastembed")(settings_in(tmp_path, **flags))
    with pytest.raises(SettingsError, match="cannot be loaded"):
        embedder.embed(["one"])


@pytest.mark.parametrize(
    ("name", "library"),
    [("fastembed", "fastembed"), ("sentence-transformers", "sentence_transformers")],
)
def test_a_library_that_is_not_installed_is_named_with_its_extra(name: str, library: str) -> None:
    if has(library):
        pytest.skip(f"{library} is installed")
    with pytest.raises(SettingsError) as refused:
        find_part("embedder", name)
    assert f"pip install 'ragstone[{name}]'" in refused.value.hint
