"""Verdicts while the answer is written; a sentence that is left out or replaced is announced."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from ragstone.engine import Engine
from ragstone.errors import ProviderError
from ragstone.models.embedder import OnnxEmbedder
from ragstone.types import Prompt

from ..conftest import settings_in
from ..patience import LONG_S, until
from ..server.conftest import serve
from .test_manners import violations

QUESTION = "What colour is the gate?"
FIRST = ("The gate is green. [Source 1] ", "It was painted in 2021. [Source 1] ", "It is")


class PausingProvider:
    """Writes two sentences, waits for `go`, then ends the third one, or breaks off."""

    name = "pausing"
    model = "script"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.breaks_off = False

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        for piece in FIRST:
            yield piece
        await until(self.go.is_set)
        if self.breaks_off:
            raise ProviderError("The model broke off.", hint="Ask again.")
        yield " open."


@pytest.fixture(scope="module")
def provider() -> PausingProvider:
    return PausingProvider()


def serve_gate(
    directory: Path, embedder: OnnxEmbedder, provider: PausingProvider, **flags: object
) -> Iterator[str]:
    settings = settings_in(
        directory, **{"understand.intent_enabled": False, "check.max_iterations": 0, **flags}
    )
    for url in serve(Engine(settings, embedder=embedder, provider=provider)):
        body = {"name": "gate.txt", "text": "The gate is green. It was painted in 2020."}
        assert httpx.post(f"{url}/v1/documents", json=body, timeout=LONG_S).status_code == 201
        yield url


@pytest.fixture(scope="module")
def address(
    embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory, provider: PausingProvider
) -> Iterator[str]:
    yield from serve_gate(tmp_path_factory.mktemp("verdicts") / "data", embedder, provider)


@pytest.fixture(scope="module")
def holding_address(
    embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory, provider: PausingProvider
) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("held") / "data"
    yield from serve_gate(directory, embedder, provider, HOLD_UNVERIFIED=True)


@pytest.fixture(autouse=True)
def _wait_for_go(provider: PausingProvider) -> Iterator[None]:
    provider.go.clear()
    provider.breaks_off = False
    yield
    provider.go.set()


def begin(page: Page) -> None:
    page.get_by_role("combobox", name="Your question").fill(QUESTION)
    page.keyboard.press("Enter")


def test_each_sentence_is_marked_while_the_rest_is_written(
    page: Page, provider: PausingProvider
) -> None:
    begin(page)
    turn = page.locator(".turn").last
    marks = turn.locator(".answer.unverified .claim")
    expect(marks).to_have_count(2)
    expect(marks.nth(0)).to_have_attribute("data-verdict", "supported")
    expect(marks.nth(1)).to_have_attribute("data-verdict", "contradicted")
    expect(marks.nth(1).get_by_role("img")).to_have_attribute(
        "aria-label",
        "Contradicted. The source says something else. 2021 isn't in the source.",
    )
    expect(turn).to_have_attribute("aria-busy", "true")
    assert violations(page) == []
    provider.go.set()
    expect(turn).to_have_attribute("aria-busy", "false")
    final = turn.locator(".answer:not(.unverified) .claim")
    expect(final.nth(1)).to_have_attribute("data-verdict", "contradicted")


def test_a_sentence_that_was_shown_and_is_gone_is_announced(
    page: Page, provider: PausingProvider
) -> None:
    provider.breaks_off = True
    begin(page)
    turn = page.locator(".turn").last
    expect(turn.locator(".answer .claim")).to_have_count(2)
    provider.go.set()
    expect(turn).to_have_attribute("aria-busy", "false")
    notice = turn.locator(".notice.replaced")
    expect(notice).to_contain_text("a sentence was replaced or left out")
    expect(notice.locator("del")).to_have_text("It was painted in 2021.")
    expect(page.locator("#announcer")).to_contain_text("a sentence was replaced or left out")
    assert violations(page) == []


def test_a_withheld_sentence_is_announced(
    open_page: Callable[..., Page], holding_address: str, provider: PausingProvider
) -> None:
    page = open_page()
    page.goto(holding_address)
    begin(page)
    turn = page.locator(".turn").last
    expect(turn.get_by_role("status")).to_have_text(
        "A sentence that no source supports was left out."
    )
    provider.go.set()
    expect(turn).to_have_attribute("aria-busy", "false")
    expect(turn.locator(".answer")).not_to_contain_text("2021")
    expect(turn.locator(".notice.replaced")).to_contain_text("left out")
    expect(page.locator("#announcer")).to_contain_text("left out")
