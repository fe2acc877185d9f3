"""Every request is one that the vendor's documentation allows, and thoughts are never shown.

The recorded requests are in `requests/`. After a wanted change write them again with:
WRITE_REQUESTS=1 python -m pytest tests/providers/test_vendors.py
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ragstone.calls import Usage
from ragstone.errors import ProviderError, SettingsError
from ragstone.plugins import PartContext
from ragstone.providers import anthropic, azure, google, ollama, openai
from ragstone.providers.chat import ChatProvider
from ragstone.testing import HashEmbedder
from ragstone.types import Message, Prompt

from ..conftest import settings_in
from ..patience import LONG_S
from .stand_in import StandIn, served

REQUESTS = Path(__file__).with_name("requests")
BUILDERS = {"openai": openai.build, "azure": azure.build, "anthropic": anthropic.build,
            "google": google.build, "ollama": ollama.build}  # fmt: skip
# provider, model, more settings. `kind` is what the address of the vendor would say.
MODELS: list[tuple[str, str, str]] = [
    ("openai", "gpt-4.1", "openai"),
    ("openai", "gpt-5-mini", "openai"),
    ("openai", "gpt-5.1", "openai"),
    ("openai", "o4-mini", "openai"),
    ("openai", "gpt-5-pro", "openai"),
    ("openai", "gpt-6-luna", "openai"),
    ("openai", "gpt-6.1-sol", "openai"),
    ("openai", "anthropic/claude-sonnet-5.5", "openrouter"),
    ("openai", "google/gemini-3.8-flash", "openrouter"),
    ("openai", "qwen3-8b", "compatible"),
    ("openai", "deepseek-r1", "compatible"),
    ("openai", "deepseek-reasoner", "deepseek"),
    ("azure", "gpt-5-mini", "azure"),
    ("anthropic", "claude-sonnet-4-5", "anthropic"),
    ("anthropic", "claude-opus-4-7", "anthropic"),
    ("anthropic", "claude-sonnet-5-5", "anthropic"),
    ("anthropic", "claude-opus-5-5", "anthropic"),
    ("anthropic", "claude-haiku-5-5", "anthropic"),
    ("google", "gemini-2.5-flash", "google"),
    ("google", "gemini-2.5-pro", "google"),
    ("google", "gemini-3.8-flash", "google"),
    ("google", "gemini-3.5-flash-lite", "google"),
    ("ollama", "deepseek-r1:7b", "ollama"),
    ("ollama", "qwen3:8b", "ollama"),
    ("ollama", "gpt-oss:20b", "ollama"),
    ("ollama", "llama3.2", "ollama"),
]
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
MESSAGES = (Message("system", "Answer from the documents."), Message("user", "What colour?"))


@pytest.fixture
async def vendor() -> AsyncIterator[StandIn]:
    async with served() as server:
        server.is_strict = True
        yield server


def build(
    name: str, vendor: StandIn, directory: Path, kind: str = "", **options: Any
) -> ChatProvider:
    """The provider at the stand-in, as it would be at the address of the vendor."""
    url = vendor.url + ("/v1" if name == "openai" else "")
    settings = settings_in(directory, **{
        "provider.name": name, f"{name}.base_url": url, f"{name}.api_key": "secret",
        "provider.timeout_s": LONG_S, **options,
    })  # fmt: skip
    context = PartContext(settings, HashEmbedder(), None, None, None, None)  # type: ignore[arg-type]
    made = BUILDERS[name](context)
    if kind:
        object.__setattr__(made.wire, "kind", kind)
    return made


async def drain(made: ChatProvider, temperature: float = 0.1) -> tuple[str, Usage]:
    pieces = [piece async for piece in made.stream(Prompt("?", (), MESSAGES, temperature))]
    (usage,) = [piece for piece in pieces if isinstance(piece, Usage)]
    return "".join(piece for piece in pieces if isinstance(piece, str)), usage


@pytest.mark.parametrize(("name", "model", "kind"), MODELS)
async def test_every_request_is_accepted_and_recorded(
    name: str, model: str, kind: str, vendor: StandIn, tmp_path: Path
) -> None:
    made = build(name, vendor, tmp_path, kind, **{f"{name}.model": model})
    text, usage = await drain(made)
    assert (text, usage.model) == ("The gate is green [Source 1].", model)
    vendor.words = ['{"score": 7}']
    assert await made.complete(MESSAGES, schema=SCHEMA) == '{"score": 7}'
    await made.probe()
    await made.aclose()
    assert vendor.refused == []
    recorded = [{"path": call["path"], "body": call["body"]} for call in vendor.calls]
    file = REQUESTS / f"{kind}-{model.replace(':', '-').replace('/', '-')}.json"
    if os.environ.get("WRITE_REQUESTS"):
        file.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert recorded == json.loads(file.read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "model", "where"),
    [
        ("openai", "deepseek-r1", "inline"),
        ("openai", "deepseek-r1", "reasoning_content"),
        ("openai", "qwen3-8b", "inline"),
        ("openai", "qwen3-8b", "reasoning"),
        ("openai", "any-other-model", "reasoning_content"),
        ("ollama", "qwen3:8b", "thinking"),
        ("ollama", "deepseek-r1:7b", "inline"),
        ("anthropic", "claude-sonnet-4-5", "thinking"),
        ("google", "gemini-2.5-pro", "thought"),
    ],
)
async def test_thoughts_are_not_shown(
    name: str, model: str, where: str, vendor: StandIn, tmp_path: Path
) -> None:
    vendor.thoughts, vendor.thinks_in = "The user wants [Source 3] to lie.", where
    text, _ = await drain(build(name, vendor, tmp_path, **{f"{name}.model": model}))
    assert text == "The gate is green [Source 1]."


@pytest.mark.slow
async def test_thinking_is_not_silence(vendor: StandIn, tmp_path: Path) -> None:
    vendor.thoughts, vendor.thinks_in = "well " * 16, "reasoning_content"
    # 0.3 s for each piece: more than the limit in all, and each far below it on a slow machine too.
    vendor.behaviours = ["drip"]
    made = build("openai", vendor, tmp_path, **{"provider.timeout_s": 5.0, "openai.model": "m"})
    text, _ = await drain(made)
    assert text == "The gate is green [Source 1]."


@pytest.mark.parametrize("name", ["openai", "anthropic", "google", "ollama"])
async def test_an_answer_that_is_cut_off_says_so(
    name: str, vendor: StandIn, tmp_path: Path
) -> None:
    vendor.behaviours = ["length"]
    _, usage = await drain(build(name, vendor, tmp_path))
    assert usage.stop_reason == "length"


async def test_a_blocked_prompt_is_not_sent_again(vendor: StandIn, tmp_path: Path) -> None:
    vendor.behaviours = ["blocked"]
    made = build("google", vendor, tmp_path)
    with pytest.raises(ProviderError) as refused:
        await drain(made)
    assert refused.value.reason == "blocked"
    assert "PROHIBITED_CONTENT" in refused.value.detail
    assert "PROHIBITED_CONTENT" not in refused.value.summary
    assert len(vendor.calls) == 1
    assert made.health.report.state == "unknown"  # that was the prompt, not the provider


async def test_an_unknown_model_learns_from_refusals(
    vendor: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = build("openai", vendor, tmp_path, **{"openai.model": "o9-preview"})
    with caplog.at_level(logging.WARNING, "ragstone"):
        assert (await drain(made))[0] == "The gate is green [Source 1]."
    assert [sorted(one.changed) for one in caplog.records] == [["token_field"], ["temperature"]]
    assert len(vendor.calls) == 3
    await drain(made)
    assert len(vendor.calls) == 4  # remembered


async def test_a_server_without_schemas_is_asked_in_plain_words(
    vendor: StandIn, tmp_path: Path
) -> None:
    made = build("openai", vendor, tmp_path, **{"openai.model": "deepseek-chat"})
    vendor.words = ['{"score": 7}']
    assert await made.complete(MESSAGES, schema=SCHEMA) == '{"score": 7}'
    assert len(vendor.refused) == 1
    last = vendor.calls[-1]["body"]
    assert last["response_format"] == {"type": "json_object"}
    assert '"score"' in last["messages"][-1]["content"]


async def test_a_reply_that_is_not_json_is_repaired_once(vendor: StandIn, tmp_path: Path) -> None:
    replies = [["Seven, I think."], ['{"score": 7}']]
    vendor.say = lambda body: replies.pop(0)
    counted: list[Usage] = []
    made = build("anthropic", vendor, tmp_path)
    assert await made.complete(MESSAGES, schema=SCHEMA, count=counted.append) == '{"score": 7}'
    assert len(counted) == 2


async def test_gemini_has_room_for_its_thoughts(vendor: StandIn, tmp_path: Path) -> None:
    made = build("google", vendor, tmp_path,
                 **{"google.reasoning": "medium", "google.max_tokens": 500,
                    "google.model": "gemini-2.5-flash"})  # fmt: skip
    await drain(made)
    options = vendor.calls[0]["body"]["generationConfig"]
    assert options["maxOutputTokens"] == 500 + options["thinkingConfig"]["thinkingBudget"]


async def test_ollama_gets_a_context_that_the_prompt_fits_into(
    vendor: StandIn, tmp_path: Path
) -> None:
    made = build("ollama", vendor, tmp_path)
    sizes = []
    for text in ("short", "word " * 6000, "short"):
        prompt = Prompt("?", (), (Message("user", text),))
        assert [piece async for piece in made.stream(prompt)]
        sizes.append(vendor.calls[-1]["body"]["options"]["num_ctx"])
    assert sizes == [4096, 16384, 16384]  # another size would load the model again


async def test_azure_calls_its_deployment(vendor: StandIn, tmp_path: Path) -> None:
    more = {"azure.model": "my-gpt", "azure.azure_api_version": "2024-10-21",
            "azure.capabilities": "family=gpt-5-mini"}  # fmt: skip
    made = build("azure", vendor, tmp_path, **more)
    await drain(made)
    call = vendor.calls[0]
    assert call["path"] == "/openai/deployments/my-gpt/chat/completions"
    assert call["headers"]["api-key"] == "secret"
    assert "temperature" not in call["body"]


async def test_the_documents_of_anthropic_are_marked_for_its_cache(
    vendor: StandIn, tmp_path: Path
) -> None:
    vendor.counts_tokens = True
    _, usage = await drain(build("anthropic", vendor, tmp_path))
    assert vendor.calls[0]["body"]["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == vendor.counted[0]
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0


@pytest.mark.parametrize("wrong", ["colour=red", "json=maybe", "temperature=warm", "json"])
def test_a_wrong_capability_is_an_error(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=wrong.partition("=")[0]):
        build("openai", StandIn(url="http://127.0.0.1:9"), tmp_path,
              **{"openai.capabilities": wrong})  # fmt: skip


def test_inner_calls_use_the_small_model_of_the_same_provider(tmp_path: Path) -> None:
    context = PartContext(
        settings_in(tmp_path, **{"provider.name": "openai", "provider.model": "gpt-5"}),
        HashEmbedder(), None, None, None, None,  # type: ignore[arg-type]
    )  # fmt: skip
    assert openai.build(context).fast_model == "gpt-5.6-luna"
    own = build("openai", StandIn(url="http://127.0.0.1:9"), tmp_path, **{"openai.model": "mine"})
    assert own.fast_model == "mine"
