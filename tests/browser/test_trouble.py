"""Trouble: hostile documents and models, a stream that is stopped, a server that goes away."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest
import uvicorn
from playwright.sync_api import Page, expect

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.server.app import create_app
from ragstone.types import Prompt

from ..conftest import settings_in
from ..patience import LONG_S, until
from .conftest import Complaints, ask, go

HOSTILE = (
    "# Gate <img src=x onerror=\"window.hacked='heading'\">\n\n"
    "The code of the gate is 8812 <script>window.hacked='script'</script> and "
    "<img src=x onerror=\"window.hacked='image'\"> it was set in 2020. "
    "[Read more](javascript:window.hacked='link') about the gate.\n"
)
HOSTILE_NAME = "<img src=x onerror=alert(1)> gate.md"
ANSWER = (
    "The code of the gate is 8812 [Source 1]. ",
    "<script>window.hacked='model'</script><b onmouseover=\"window.hacked='hover'\">It</b> ",
    "was set in 2020 [Source 1]. ",
    "[Click](javascript:window.hacked='model-link') ",
    "The gate is made of gold. ",
    "The end.",
)


class PatientProvider:
    """Writes a hostile answer piece by piece, and the last piece only when `go` is set."""

    name = "patient"
    model = "script"

    def __init__(self) -> None:
        self.go = threading.Event()

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        for piece in ANSWER[:-1]:
            yield piece
            await asyncio.sleep(0)
        await until(self.go.is_set)
        yield ANSWER[-1]


class Running:
    """A server that can be made to vanish and to come back at the same address."""

    def __init__(self, directory: object, embedder: OnnxEmbedder) -> None:
        self.provider = PatientProvider()
        self._directory = directory
        self._embedder = embedder
        self._port = 0
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        engine = Engine(
            settings_in(self._directory),  # type: ignore[arg-type]
            embedder=self._embedder,
            provider=self.provider,
        )
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        # Since Python 3.12 a server that closes waits for its connections, however it is told to.
        config = uvicorn.Config(
            create_app(engine), log_level="critical", ws="none", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]})
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def vanish(self) -> None:
        """Without a word to those who are being served."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()


@pytest.fixture(scope="module")
def server(embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("trouble") / "data", embedder)
    reply = httpx.post(
        f"{running.address}/v1/documents",
        json={"name": HOSTILE_NAME, "text": HOSTILE},
        timeout=LONG_S,
    )
    assert reply.status_code == 201
    yield running
    running.vanish()


@pytest.fixture(scope="module")
def address(server: Running) -> str:
    return server.address


@pytest.fixture(autouse=True)
def _at_once(server: Running) -> None:
    server.provider.go.set()


def is_unharmed(page: Page) -> bool:
    inside = page.evaluate(
        """() => ({
            hacked: window.hacked ?? null,
            scripts: document.querySelectorAll("script:not([src^='/ui/'])").length,
            handlers: document.querySelectorAll("[onerror], [onmouseover]").length,
            images: document.querySelectorAll("img[src='x']").length,
            links: document.querySelectorAll("a[href^='javascript']").length,
        })"""
    )
    return inside == {"hacked": None, "scripts": 0, "handlers": 0, "images": 0, "links": 0}


def test_a_hostile_answer_is_shown_as_text(page: Page) -> None:
    ask(page, "What is the code of the gate?")
    answer = page.locator(".answer")
    expect(answer).to_contain_text("window.hacked='model'<b onmouseover=")
    expect(answer).to_contain_text("Click ‹link removed›")
    answer.hover()
    assert is_unharmed(page)


def test_a_claim_without_support_is_marked(page: Page) -> None:
    ask(page, "What is the code of the gate?")
    gold = page.locator(".claim").filter(has_text="made of gold")
    expect(gold).not_to_have_attribute("data-verdict", "supported")
    expect(page.locator(".claim").first).to_have_attribute("data-verdict", "supported")


def test_a_hostile_document_is_shown_as_text_everywhere(page: Page) -> None:
    ask(page, "What is the code of the gate?")
    page.locator(".answer .chip").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("8812")
    page.locator(".answer .chip").first.click()
    expect(page.locator("#source mark")).to_contain_text("8812")
    expect(page.locator("#source .text")).to_contain_text("<script>window.hacked='script'</script>")
    expect(page.locator("#source .text")).to_contain_text("(javascript:window.hacked='link')")
    assert is_unharmed(page)
    for area in ("Documents", "Why", "Insight"):
        go(page, area)
        expect(page.locator("main section:not([hidden]) table").first).to_be_visible()
        assert is_unharmed(page)
    go(page, "Documents")
    expect(page.get_by_role("button", name=HOSTILE_NAME).first).to_be_visible()


def test_the_answer_appears_while_it_is_written_and_is_checked_at_the_end(
    page: Page, server: Running
) -> None:
    server.provider.go.clear()
    page.get_by_role("combobox", name="Your question").fill("What is the code of the gate?")
    page.keyboard.press("Enter")
    turn = page.locator(".turn")
    expect(turn.locator(".answer.unverified")).to_contain_text("The code of the gate is 8812")
    expect(turn).to_have_attribute("aria-busy", "true")
    expect(turn.locator(".answer.unverified .chip").first).to_be_visible()
    expect(turn.locator(".answer")).not_to_contain_text("The end.")
    expect(turn.locator(".answer.unverified .claim").first).to_be_visible()
    server.provider.go.set()
    expect(turn).to_have_attribute("aria-busy", "false")
    expect(turn.locator(".answer")).to_contain_text("The end.")
    assert turn.locator(".claim").count() >= 3


def test_an_answer_can_be_stopped_and_asked_for_again(page: Page, server: Running) -> None:
    server.provider.go.clear()
    page.get_by_role("combobox", name="Your question").fill("What is the code of the gate?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer.unverified")).to_contain_text("8812")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".progress")).to_contain_text("Stopped")
    expect(page.locator(".turn")).to_have_attribute("aria-busy", "false")
    server.provider.go.set()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".answer")).to_contain_text("The end.")


def test_a_server_that_goes_away_in_the_middle_loses_nothing_and_may_come_back(
    open_page: Callable[..., Page], server: Running, complaints: Complaints
) -> None:
    complaints.expect("net::")  # the browser itself notes the failed requests
    page = open_page()
    page.goto(server.address)
    server.provider.go.clear()
    page.get_by_role("combobox", name="Your question").fill("What is the code of the gate?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer.unverified")).to_contain_text("8812")
    server.vanish()
    notice = page.locator(".turn .notice.bad")
    expect(notice).to_contain_text("was lost before the answer was complete")
    expect(page.locator(".answer")).to_contain_text("8812")
    expect(page.locator(".progress")).to_contain_text("not checked")
    page.get_by_role("button", name="Retry").click()
    expect(notice).to_contain_text("The server cannot be reached.")
    server.start()
    server.provider.go.set()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".claim").first).to_be_visible()
    expect(notice).to_have_count(0)
