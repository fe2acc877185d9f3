"""A prompt is cut to the context window of the model; the reply says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.errors import ProviderError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.ground.prompt import build_prompt, fit_prompt
from ragstone.testing import ScriptedProvider
from ragstone.types import Chunk, Hit, Message, Prompt, Query, Source

from ...conftest import settings_in
from ...patience import LONG_S
from ...providers.stand_in import StandIn, served

SENTENCE = "The gate of the observatory was painted green in the year {n}. "


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    async with served() as server:
        yield server


def flags(name: str, model: StandIn, **more: Any) -> dict[str, Any]:
    url = model.url + ("/v1" if name == "openai" else "")
    return {"provider.name": name, f"{name}.base_url": url, f"{name}.model": "m",
            "provider.timeout_s": LONG_S, "provider.strict": True, "provider.max_tokens": 200,
            "refine.top_k": 10, **more}  # fmt: skip


def write_files(directory: Path) -> list[Path]:
    files = [directory / f"gate{number}.txt" for number in range(10)]
    for number, file in enumerate(files):
        years = range(2000 + number * 20, 2014 + number * 20)
        file.write_text("".join(SENTENCE.format(n=year) for year in years))
    return files


async def ask(directory: Path, embedder: OnnxEmbedder, given: dict[str, Any]) -> Any:
    files = write_files(directory)
    settings = settings_in(directory / "data", **given)
    async with Engine(settings, embedder=embedder) as engine:
        await engine.ingest(files)
        return await engine.ask("When was the gate of the observatory painted green?")


async def test_a_known_window_cuts_the_prompt_before_it_is_sent(
    model: StandIn, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    model.window = 2000
    given = flags("openai", model, **{"openai.capabilities": "context_window=2000"})
    answer = await ask(tmp_path, embedder, given)
    assert model.refused == []
    assert answer.provider == "openai"
    assert any("context window" in note for note in answer.notes), answer.notes


async def test_a_window_that_is_not_known_is_learned_and_the_prompt_sent_again(
    model: StandIn, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    model.window = 1200
    answer = await ask(tmp_path, embedder, flags("openai", model))
    assert 1 <= len(model.refused) <= 2
    assert answer.provider == "openai"
    assert answer.status != "degraded"
    assert any("sources are left out" in note for note in answer.notes), answer.notes


async def test_ollama_gets_the_whole_prompt_in_its_window(
    model: StandIn, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    given = flags("ollama", model, **{"ollama.capabilities": "context_window=1024"})
    answer = await ask(tmp_path, embedder, given)
    body = model.calls[-1]["body"]
    sent = sum(len(message["content"]) for message in body["messages"]) / 4
    assert body["options"]["num_ctx"] == 1024
    assert sent + body["options"]["num_predict"] <= 1024
    assert any("context window" in note for note in answer.notes)


def make_sources(count: int) -> list[Source]:
    text = "".join(SENTENCE.format(n=2000 + n) for n in range(5))
    chunks = [Chunk(f"d{n}", n, text, 0, len(text), f"d{n}.txt") for n in range(count)]
    return [Source(n + 1, Hit(chunk, 0.5, "hybrid"), text) for n, chunk in enumerate(chunks)]


def fit(query: Query, sources: Sequence[Source], limit: int) -> tuple[Prompt, str]:
    def measure_excess(prompt: Prompt) -> int:
        return max(0, sum(len(message.content) for message in prompt.messages) - limit)

    return fit_prompt(build_prompt, query, sources, measure_excess)


def length(prompt: Prompt) -> int:
    return sum(len(message.content) for message in prompt.messages)


def test_what_fits_is_not_changed() -> None:
    query, sources = Query("i", "When?"), make_sources(3)
    assert fit(query, sources, 100_000) == (build_prompt(query, sources), "")


def test_old_turns_go_before_sources() -> None:
    turns = tuple(
        Message(role, f"{role} {n} " + "talk " * 100)
        for n in range(3)
        for role in ("user", "assistant")
    )
    query, sources = Query("i", "When?", history=turns), make_sources(2)
    whole = build_prompt(query, sources)
    prompt, note = fit(query, sources, length(whole) - 100)
    assert len(prompt.sources) == 2
    assert [one.role for one in prompt.messages[1:]] == [
        "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert "shortened" in note


def test_the_first_source_that_does_not_fit_is_cut_after_a_sentence() -> None:
    query, sources = Query("i", "When?"), make_sources(3)
    limit = length(build_prompt(query, sources[:2])) + 150
    prompt, note = fit(query, sources, limit)
    assert length(prompt) <= limit
    assert [len(one.text) for one in prompt.sources[:2]] == [len(sources[0].text)] * 2
    if len(prompt.sources) == 3:
        assert sources[2].text.startswith(prompt.sources[2].text)
        assert prompt.sources[2].text.rstrip().endswith(".")
    assert "context window" in note


def test_a_question_that_is_too_long_itself_is_sent_as_it_is() -> None:
    query = Query("i", "When? " * 500)
    prompt, _ = fit(query, make_sources(2), 100)
    assert prompt.sources == ()
    assert prompt.messages[-1].content == query.text


def test_a_plain_chat_keeps_its_last_message() -> None:
    turns = (Message("user", "talk " * 100), Message("assistant", "yes"), Message("user", "When?"))
    query = Query("i", "When?", mode="plain", history=turns)
    prompt, _ = fit(query, (), 50)
    assert prompt.messages == (Message("user", "When?"),)


class Unreachable(ScriptedProvider):
    """A model that fails before its first token; its prompts can be measured until then."""

    def measure_excess(self, prompt: Prompt) -> int:
        assert not self.prompts, "the prompt is built again for a failure that it cannot help"
        return 0

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        async for piece in super().stream(prompt):
            yield piece
        raise ProviderError("The model is away.", hint="", reason="unreachable")


async def test_only_a_prompt_that_is_too_long_is_built_again(
    tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    settings = settings_in(tmp_path / "data", **{"provider.strict": True})
    async with Engine(settings, embedder=embedder, provider=Unreachable([])) as engine:
        await engine.ingest(write_files(tmp_path))
        with pytest.raises(ProviderError, match="The model is away"):
            await engine.ask("When was the gate of the observatory painted green?")
