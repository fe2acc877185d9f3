"""What a server refused is left out from then on, by other workers and after a restart too."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import ProviderError
from ragstone.providers.capabilities import (
    FILE,
    Capabilities,
    Lessons,
    add_price,
    learn_from_refusal,
    look_up,
)
from ragstone.types import Message, Prompt

from .stand_in import StandIn, served
from .test_vendors import build, drain

MODEL = {"openai.model": "o9-preview"}
KNOWN = Capabilities()


@pytest.fixture
async def vendor() -> AsyncIterator[StandIn]:
    async with served() as server:
        server.is_strict = True
        yield server


async def test_another_process_knows_what_was_refused(vendor: StandIn, tmp_path: Path) -> None:
    await drain(build("openai", vendor, tmp_path, **MODEL))
    assert len(vendor.calls) == 3  # two refusals, and the answer
    await drain(build("openai", vendor, tmp_path, **MODEL))
    assert len(vendor.calls) == 4
    kept = json.loads((tmp_path / FILE).read_text("utf-8"))
    assert {name for entry in kept.values() for name in entry} == {"token_field", "temperature"}


async def test_the_lessons_of_one_address_are_not_those_of_another(
    vendor: StandIn, tmp_path: Path
) -> None:
    await drain(build("openai", vendor, tmp_path, **MODEL))
    other = Lessons("compatible", "http://127.0.0.1:1/v1", tmp_path / FILE)
    assert other.recall("o9-preview", KNOWN) == KNOWN


async def test_a_worker_that_runs_already_reads_the_lesson_of_another(tmp_path: Path) -> None:
    first, second = (Lessons("openai", "http://h/v1", tmp_path / FILE) for _ in range(2))
    assert second.recall("m", KNOWN).temperature
    assert first.learn("openai", "m", KNOWN, "'temperature' is not supported")
    assert not second.recall("m", KNOWN).temperature


def test_what_the_settings_say_is_never_changed(tmp_path: Path) -> None:
    lessons = Lessons(file=tmp_path / FILE, fixed=frozenset({"temperature"}))
    assert not lessons.learn("openai", "m", KNOWN, "'temperature' is not supported")
    assert lessons.recall("m", KNOWN).temperature


def write_file(file: Path, entry: dict[str, Any]) -> Lessons:
    lessons = Lessons("openai", "https://user:secret@host:8/v1?key=secret", file)
    file.write_text(json.dumps({"openai https://host:8/v1 m": entry}))
    return lessons


@pytest.mark.parametrize(
    "entry",
    [
        {"temperature": [False, 0]},  # years old
        {"context_window": [512, time.time() - 2 * 3600]},  # a window counts for an hour
        {"temperature": [False, time.time() + 1e9]},  # from the future
        {"token_field": ["messages", time.time()]},  # would spoil every request
        {"context_window": [True, time.time()]},
        {"reasoning_fields": [["x"], time.time()]},
        {"temperature": False},
        {"temperature": [False, "now"]},
    ],
)
def test_an_old_or_strange_entry_is_not_used(entry: dict[str, Any], tmp_path: Path) -> None:
    assert write_file(tmp_path / FILE, entry).recall("m", KNOWN) == KNOWN


def test_a_good_entry_is_used_and_an_address_has_no_secrets(tmp_path: Path) -> None:
    lessons = write_file(tmp_path / FILE, {"temperature": [False, time.time()]})
    assert not lessons.recall("m", KNOWN).temperature
    lessons.learn("openai", "m", KNOWN, "stream_options is unknown")
    assert "secret" not in (tmp_path / FILE).read_text("utf-8")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": {"json": 3}}'])
def test_a_damaged_file_teaches_nothing_and_is_replaced(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(content)
    lessons = Lessons("openai", "http://h", tmp_path / FILE)
    assert lessons.recall("m", KNOWN) == KNOWN
    assert lessons.learn("openai", "m", KNOWN, "stream_options is unknown")
    assert len(json.loads((tmp_path / FILE).read_text("utf-8"))) == 1


def test_a_directory_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    lessons = Lessons(file=tmp_path / "none" / FILE)
    assert lessons.learn("openai", "m", KNOWN, "stream_options is unknown")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("detail", "window"),
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 5000.", 4096),
        ("prompt is too long: 208310 tokens > 200000 maximum", 200_000),
        ("The input token count (9000) exceeds the maximum number of tokens allowed (8192).", 8192),
        ("the request exceeds the available context size. (n_ctx=2048)", 2048),
        ("request (1407 tokens) exceeds the available context size (512 tokens)", 512),
        ("input length exceeds the context length", 800),  # no number: below what was sent
    ],
)
def test_the_window_is_read_from_a_refusal(detail: str, window: int) -> None:
    learned = learn_from_refusal(KNOWN, detail, prompt_tokens=1000)
    assert learned is not None
    assert learned.context_window == window


def test_a_window_that_was_known_already_becomes_smaller() -> None:
    detail = "This model's maximum context length is 4096 tokens."
    learned = learn_from_refusal(replace(KNOWN, context_window=4096), detail, 3000)
    assert learned is not None
    assert learned.context_window < 4096


@pytest.mark.parametrize(
    ("name", "model"),
    [("openai", "m"), ("openai", "on-llama.cpp"), ("anthropic", "claude-sonnet-5-5"),
     ("google", "gemini-3.8-flash")],
)  # fmt: skip
async def test_a_prompt_that_is_too_long_teaches_the_window(
    name: str, model: str, vendor: StandIn, tmp_path: Path
) -> None:
    vendor.window = 3000
    made = build(name, vendor, tmp_path, **{f"{name}.model": model})
    prompt = Prompt("?", (), (Message("user", "word " * 9000),))
    with pytest.raises(ProviderError) as refused:
        assert [piece async for piece in made.stream(prompt)]
    assert refused.value.reason == "context_length"
    assert len(vendor.calls) == 1
    assert made.find_capabilities(model).context_window == 3000
    assert made.measure_excess(prompt) > 0
    assert made.health.report.state == "unknown"


def test_a_family_speaks_the_language_of_each_service() -> None:
    assert look_up("google", "gemini-3.8-flash").effort_field == "thinkingLevel"
    assert look_up("openrouter", "google/gemini-3.8-flash").effort_field == "reasoning"
    assert look_up("openrouter", "anthropic/claude-sonnet-5.5").family == "claude-sonnet-5.5"


def test_a_price_is_not_that_of_another_version() -> None:
    from ragstone.calls import Usage

    used = Usage(1_000_000, 0)
    assert add_price(used, "gpt-5-2025-08-07").cost_usd == pytest.approx(1.25)
    assert add_price(used, "gpt-5.5").cost_usd is None
    assert add_price(replace(used, cost_usd=0.5), "gpt-5").cost_usd == 0.5
