"""Every provider over real HTTP: well behaved, refused, cut, slow, empty, talking nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ragstone.calls import Usage
from ragstone.engine import Engine
from ragstone.errors import ProviderError, SettingsError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.plugins import PartContext, find_part
from ragstone.providers.chat import ChatProvider, add_price, extract_json
from ragstone.providers.llamacpp import find_gguf_file
from ragstone.testing import HashEmbedder
from ragstone.types import Message, Prompt

from ..conftest import settings_in
from ..patience import LONG_S, until
from .stand_in import StandIn, served

pytestmark = pytest.mark.slow

PROVIDERS = ["openai", "anthropic", "google", "ollama"]
PROMPT = Prompt("?", (), (Message("system", "Be brief."), Message("user", "What colour?")))


@pytest.fixture
async def stand_in() -> AsyncIterator[StandIn]:
    async with served() as server:
        yield server


def provider(name: str, stand_in: StandIn, tmp_path: Path, **options: object) -> ChatProvider:
    suffix = "/v1" if name == "openai" else ""
    flags = {"provider.base_url": stand_in.url + suffix, "provider.api_key": "secret",
             "provider.name": name, "provider.timeout_s": LONG_S, **options}  # fmt: skip
    settings = settings_in(tmp_path, **flags)
    embedder = HashEmbedder()
    made: ChatProvider = find_part("provider", name)(
        PartContext(settings, embedder, None, None, None, None)
    )  # type: ignore[arg-type]
    return made


async def said(made: ChatProvider) -> tuple[str, list[Usage]]:
    try:
        pieces = [piece async for piece in made.stream(PROMPT)]
    finally:
        await made.aclose()
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    return text, [piece for piece in pieces if isinstance(piece, Usage)]


@pytest.mark.parametrize("name", PROVIDERS)
async def test_it_streams_and_counts_tokens(name: str, stand_in: StandIn, tmp_path: Path) -> None:
    text, usage = await said(provider(name, stand_in, tmp_path))
    assert text == "The gate is green [Source 1]."
    assert (usage[-1].input_tokens, usage[-1].output_tokens) == (100, 20)
    assert "Be brief." in str(stand_in.calls[0]["body"])


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("behaviour", ["429", "500", "503", "empty", "invalid"])
async def test_what_may_pass_is_tried_again(
    name: str, behaviour: str, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.behaviours = [behaviour]
    made = provider(name, stand_in, tmp_path)
    known = made.find_capabilities(made.model)
    text, _ = await said(made)
    assert text == "The gate is green [Source 1]."
    assert len(stand_in.calls) == 2
    assert made.find_capabilities(made.model) == known


@pytest.mark.parametrize("name", PROVIDERS)
async def test_calls_one_after_the_other_share_a_connection(
    name: str, stand_in: StandIn, tmp_path: Path
) -> None:
    made = provider(name, stand_in, tmp_path)
    for _ in range(3):
        assert [piece async for piece in made.stream(PROMPT)]
    await made.aclose()
    assert len({call["client"] for call in stand_in.calls}) == 1


async def test_many_calls_at_once_do_not_wait_for_each_other(
    stand_in: StandIn, tmp_path: Path
) -> None:
    count = 130  # a client of httpx opens at most 100 connections, unless it is told otherwise
    stand_in.behaviours = ["drip"] * count
    made = provider("openai", stand_in, tmp_path, **{"provider.timeout_s": LONG_S})

    async def call() -> str:
        return "".join([piece async for piece in made.stream(PROMPT) if isinstance(piece, str)])

    texts = await asyncio.gather(*(call() for _ in range(count)))
    await made.aclose()
    assert set(texts) == {"The gate is green [Source 1]."}
    assert len({call["client"] for call in stand_in.calls}) == count


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("behaviour", ["400", "401", "404"])
async def test_what_cannot_pass_is_not_tried_again(
    name: str, behaviour: str, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.behaviours = [behaviour] * 4
    with pytest.raises(ProviderError, match=behaviour):
        await said(provider(name, stand_in, tmp_path))
    assert len(stand_in.calls) == 1


@pytest.mark.parametrize("name", PROVIDERS)
async def test_tries_end(name: str, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.behaviours = ["500"] * 9
    with pytest.raises(ProviderError, match="500"):
        await said(provider(name, stand_in, tmp_path, **{"provider.max_retries": 1}))
    assert len(stand_in.calls) == 2


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_cut_stream_is_a_failure_and_not_an_answer(
    name: str, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.behaviours = ["cut"]
    with pytest.raises(ProviderError):
        await said(provider(name, stand_in, tmp_path))
    assert len(stand_in.calls) == 1


@pytest.mark.parametrize("name", PROVIDERS)
async def test_silence_ends_at_the_time_out(name: str, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.behaviours = ["slow"]
    with pytest.raises(ProviderError, match="sent nothing"):
        await said(provider(name, stand_in, tmp_path, **{"provider.timeout_s": 0.5}))


async def test_a_long_retry_after_is_not_waited_for(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.behaviours = ["long wait"]
    with pytest.raises(ProviderError, match="429"):
        await said(provider("openai", stand_in, tmp_path))
    assert len(stand_in.calls) == 1


@pytest.mark.parametrize("name", PROVIDERS)
async def test_who_goes_away_stops_the_model(name: str, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.behaviours = ["drip"]
    stand_in.words = ["word "] * 100
    made = provider(name, stand_in, tmp_path)
    stream = made.stream(PROMPT)
    assert await anext(stream) == "word "
    await stream.aclose()  # type: ignore[attr-defined]
    await made.aclose()
    await until(lambda: stand_in.cancelled == 1)


@pytest.mark.parametrize("name", PROVIDERS)
async def test_the_small_model_replies_in_json(
    name: str, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in.words = ["Sure:\n```json\n", '{"score": 7}', "\n```"]
    made = provider(name, stand_in, tmp_path, **{"provider.fast_model": "small"})
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}}
    assert await made.complete([Message("user", "Score it.")], schema=schema) == '{"score": 7}'
    await made.aclose()
    call = stand_in.calls[0]
    assert "small" in str(call["body"]) + call["path"]
    assert "score" in str(call["body"])


def test_json_is_found_in_talk_or_refused() -> None:
    assert extract_json('Here: {"a": [1, 2]} I hope so') == '{"a": [1, 2]}'
    assert extract_json('[{"a": "é"}') == '{"a": "é"}'
    with pytest.raises(ProviderError):
        extract_json("no json {here")


def test_the_price_is_that_of_the_longest_name() -> None:
    usage = Usage(1_000_000, 1_000_000)
    assert add_price(usage, "gpt-4o-mini-2024-07-18").cost_usd == pytest.approx(0.75)
    assert add_price(usage, "gpt-4o-2024").cost_usd == pytest.approx(12.5)
    assert add_price(usage, "my-own").cost_usd is None


def test_a_local_model_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    for name in ("smollm2-135m", str(tmp_path / "x.gguf")):
        with pytest.raises(SettingsError) as refused:
            find_gguf_file(name, tmp_path)
        assert "models pull" in refused.value.hint


@pytest.mark.parametrize("behaviour", ["down", "500", "slow", "cut", "empty", "invalid"])
async def test_where_the_model_fails_the_next_rung_answers(
    behaviour: str, stand_in: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    url = "http://127.0.0.1:9/v1" if behaviour == "down" else f"{stand_in.url}/v1"
    stand_in.behaviours = [behaviour] * 9
    stand_in.words = ["Bananas grow ", "in Ecuador."]
    # Only silence shall reach the limit: the others fail in a way of their own.
    timeout_s = 1.0 if behaviour == "slow" else LONG_S
    flags = {"provider.name": "openai", "provider.base_url": url, "provider.timeout_s": timeout_s}
    async with Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder()) as engine:
        await engine.ingest([tmp_path / "gate.txt"])
        answer = await engine.ask("What colour is the gate?")
    assert answer.degraded == ("extractive_answer",)
    assert "Bananas" not in answer.text
    if answer.status == "answered":
        assert answer.provider == "extractive"
        assert answer.is_grounded


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize(
    "talk",
    ["Bananas grow in Ecuador.", "qwer tzui opas dfgh jkly xcvb", '{"tool": "weather", "args": [',
     "the the the " * 40, "?!?! ---"],
)  # fmt: skip
async def test_who_talks_nonsense_loses_the_turn(
    name: str, talk: str, stand_in: StandIn, tmp_path: Path, embedder: OnnxEmbedder
) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    stand_in.words = [talk]
    made = provider(name, stand_in, tmp_path / "p")
    engine = Engine(settings_in(tmp_path / "data"), embedder=embedder, provider=made)
    async with engine:
        await engine.ingest([tmp_path / "gate.txt"])
        answer = await engine.ask("What colour is the gate?")
    assert answer.degraded == ("extractive_answer",)
    assert answer.provider == "extractive"
    assert answer.text == "The gate is green. [Source 1]"
    assert answer.is_grounded


async def test_a_good_provider_is_not_degraded(stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "gate.txt").write_text("The gate is green. It was painted in 2020.")
    flags = {"provider.name": "openai", "provider.base_url": f"{stand_in.url}/v1"}
    async with Engine(settings_in(tmp_path / "data", **flags), embedder=HashEmbedder()) as engine:
        await engine.ingest([tmp_path / "gate.txt"])
        answer = await engine.ask("What colour is the gate?")
    assert (answer.provider, answer.degraded) == ("openai", ())
    assert answer.text == "The gate is green [Source 1]."
    spans = {span["stage"]: span["counts"] for span in answer.trace["spans"]}
    assert spans["ground.generate"]["input_tokens"] == 100
