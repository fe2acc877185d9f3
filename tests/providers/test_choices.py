"""The models that a conversation may choose follow from the settings, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.errors import InputError
from ragstone.providers.choices import ModelChoice, apply_choice, list_choices
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from .stand_in import served


def names(tmp_path: Path, **flags: object) -> list[str]:
    return [one.name for one in list_choices(settings_in(tmp_path, **flags))]


def test_without_a_model_there_is_nothing_to_choose(tmp_path: Path) -> None:
    assert names(tmp_path) == ["extractive"]


def test_services_with_a_section_of_their_own_can_be_chosen(tmp_path: Path) -> None:
    flags = {"provider.name": "openai", "provider.api_key": "k", "anthropic.api_key": "a",
             "ollama.model": "llama3"}  # fmt: skip
    assert names(tmp_path, **flags) == ["openai", "anthropic", "ollama", "extractive"]


def test_a_list_in_the_settings_takes_their_place(tmp_path: Path) -> None:
    flags = {"provider.name": "openai", "anthropic.api_key": "a",
             "provider.choices": "openai:gpt-4.1, ollama:llama3"}  # fmt: skip
    assert names(tmp_path, **flags) == ["openai", "openai:gpt-4.1", "ollama:llama3", "extractive"]


def test_the_key_of_the_configured_provider_goes_to_no_other(tmp_path: Path) -> None:
    flags = {"provider.name": "openai", "provider.api_key": "secret", "anthropic.api_key": "own",
             "provider.base_url": "http://127.0.0.1:9/v1", "provider.timeout_s": 7}  # fmt: skip
    settings = apply_choice(settings_in(tmp_path, **flags), ModelChoice("anthropic"))
    service = settings.service("anthropic")
    assert (service.key, service.base_url) == ("own", "")
    assert settings.provider.timeout_s == 7
    same = apply_choice(settings_in(tmp_path, **flags), ModelChoice("openai", "gpt-4.1"))
    assert (same.service("openai").key, same.service("openai").model) == ("secret", "gpt-4.1")


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        (None, ("openai", "gpt-6-luna")),
        ("openai:other", ("openai", "other")),
        ("ollama", ("ollama", "llama3")),
        ("extractive", ("extractive", "ragstone-reading")),
    ],
)
async def test_the_chosen_model_writes(
    tmp_path: Path, choice: str | None, wanted: tuple[str, str]
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green.")
    async with served() as stand_in:
        settings = settings_in(
            tmp_path / "data",
            **{"provider.name": "openai", "provider.base_url": f"{stand_in.url}/v1",
               "provider.choices": "ollama:small,openai:other,ollama",
               "ollama.base_url": stand_in.url, "ollama.model": "llama3",
               "understand.intent_enabled": False, "check.max_iterations": 0},
        )  # fmt: skip
        async with Engine(settings, embedder=HashEmbedder()) as engine:
            await engine.ingest([tmp_path / "gate.txt"])
            answer = await engine.ask("What colour is the gate?", choice=choice)
            assert "green" in answer.text
            assert (answer.provider, answer.model) == wanted
            assert bool(stand_in.calls) == (choice != "extractive")


async def test_a_model_that_was_not_configured_is_refused(tmp_path: Path) -> None:
    engine = Engine(settings_in(tmp_path), embedder=HashEmbedder())
    with pytest.raises(InputError, match="'openai:gpt-9' cannot be chosen") as refused:
        await engine.ask("What colour is the gate?", choice="openai:gpt-9")
    assert "Use one of: extractive." in refused.value.hint
    engine.close()
