"""The model that writes: which one it is, a test of it, and a banner when it fails."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import settings_in
from ..patience import LONG_S
from ..providers.stand_in import StandIn, application
from ..server.conftest import serve, serve_application
from .conftest import ask, go


@pytest.fixture(scope="module")
def working_model() -> Iterator[StandIn]:
    stand_in = StandIn()
    for url in serve_application(application(stand_in)):
        stand_in.url = url
        yield stand_in


@pytest.fixture(scope="module")
def address(
    embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory, working_model: StandIn
) -> Iterator[str]:
    """A server whose model is behind a port where nothing listens; another one works."""
    settings = settings_in(
        tmp_path_factory.mktemp("models") / "data",
        **{"provider.name": "openai", "provider.base_url": "http://127.0.0.1:9/v1",
           "provider.max_retries": 0, "understand.intent_enabled": False,
           "ollama.base_url": working_model.url, "ollama.model": "llama3"},
    )  # fmt: skip
    for url in serve(Engine(settings, embedder=embedder)):
        body = {"name": "gate.txt", "text": "The gate is green."}
        assert httpx.post(f"{url}/v1/documents", json=body, timeout=LONG_S).status_code == 201
        yield url


def test_a_model_that_fails_is_announced_with_its_reason(page: Page) -> None:
    ask(page, "What colour is the gate?")
    expect(page.locator(".answer")).to_contain_text("green")
    banner = page.locator("#model-banner")
    expect(banner).to_contain_text("does not answer.")
    expect(banner).to_contain_text("Until then answers quote the documents.")
    page.reload()
    expect(banner).to_be_visible()


def test_the_model_is_tested_by_a_button(page: Page) -> None:
    go(page, "Settings")
    card = page.locator(".model-card")
    expect(card).to_contain_text("openai")
    card.get_by_role("button", name="Test the model").click()
    expect(card).to_contain_text("It does not answer.")
    expect(page.locator("#model-banner")).to_be_visible()


def test_another_model_is_chosen_for_one_conversation(page: Page) -> None:
    chooser = page.get_by_label("Model of this conversation")
    expect(chooser.locator("option")).to_have_text(
        ["gpt-6-luna (openai)", "ollama", "No model: quote the documents"]
    )
    chooser.select_option("ollama")
    ask(page, "What colour is the gate?")
    turn = page.locator(".turn").last
    expect(turn.locator(".actions")).to_contain_text("written by llama3 (ollama)")
    expect(turn.locator(".degraded")).to_have_count(0)
    page.reload()
    expect(page.locator(".turn .actions")).to_contain_text("written by llama3 (ollama)")
    expect(chooser).to_have_value("ollama")
    page.get_by_role("button", name="New conversation").first.click()
    expect(chooser).to_have_value("openai")
    chooser.select_option("extractive")
    ask(page, "What colour is the gate?")
    expect(page.locator(".turn .actions")).to_contain_text("quoted, no model")
