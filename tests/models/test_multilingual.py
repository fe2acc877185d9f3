"""The multilingual embedder: how it is found, what it needs, and its vectors where it is there."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ragstone.errors import SettingsError
from ragstone.models.embedder import TextEmbedder, build_embedder
from ragstone.models.registry import find_model, is_installed

from ..conftest import settings_in


def test_the_model_is_pulled_by_what_it_is_for() -> None:
    card = find_model("multilingual")
    assert card.name == "use-multilingual"
    assert card is find_model("use-multilingual")


@pytest.mark.parametrize("name", ["multilingual", "use-multilingual"])
def test_without_its_file_the_way_to_it_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="use-multilingual is not installed") as refused:
        build_embedder(settings_in(tmp_path, **{"embed.model": name}))
    assert refused.value.hint == "Install it with: ragstone models pull multilingual"


def test_the_preset_uses_it(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, preset="multilingual")
    assert settings.embed.model == "use-multilingual"


def test_without_its_operators_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)
    with pytest.raises(SettingsError, match="onnxruntime-extensions") as refused:
        TextEmbedder(find_model("multilingual"), tmp_path).embed(["text"])
    assert "ragstone[multilingual]" in refused.value.hint


def test_the_estimate_of_tokens_follows_words_and_characters(tmp_path: Path) -> None:
    embedder = TextEmbedder(find_model("multilingual"), tmp_path)
    text = "The observatory opens. 天文台開門"
    assert "".join(text[at] for at in embedder.token_starts(text)) == "Toao.天台門"
    assert embedder.token_starts("天文台開") == [0, 2]
    assert embedder.token_starts("a word") == [0, 2]


def test_a_translation_is_near_and_another_sentence_is_not() -> None:
    """Runs where the model was pulled into the default place."""
    pytest.importorskip("onnxruntime_extensions")
    from ragstone.settings import load_settings

    models = load_settings().settings.data.models
    card = find_model("multilingual")
    if not is_installed(card, models):
        pytest.skip("the model is not pulled")
    embedder = TextEmbedder(card, models)
    english, german, chinese, other = embedder.embed([
        "How long is the notice period of the lease?",
        "Wie lang ist die Kündigungsfrist des Mietvertrags?",
        "租约的通知期是多长时间？",
        "The café serves soup.",
    ])  # fmt: skip
    assert np.isclose(np.linalg.norm(english), 1, atol=1e-3)
    assert english @ german > 0.7
    assert english @ other < 0.3
    assert english @ chinese > 0.6
