"""One browser and one server per file of tests; a page that must not complain in its console."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect, sync_playwright

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import SAMPLES, settings_in
from ..patience import LONG_S
from ..server.conftest import serve

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

expect.set_options(timeout=1000 * LONG_S)


def is_for_firefox(path: Path) -> bool:
    return path.name.startswith("test_firefox")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        name, program = ("Chromium", CHROMIUM)
        if is_for_firefox(item.path):
            name, program = ("Firefox", FIREFOX)
        if program is None:
            item.add_marker(pytest.mark.skip(reason=f"no {name} is installed: make tools"))


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, embedder: OnnxEmbedder) -> Path:
    """A data directory with the sample documents, to be copied."""
    directory = tmp_path_factory.mktemp("filled") / "data"
    engine = Engine(settings_in(directory), embedder=embedder)
    asyncio.run(engine.ingest([SAMPLES], metadata={"tags": ["sample"]}))
    engine.close()
    return directory


@pytest.fixture(scope="module")
def address(
    filled: Path, embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server of this file's own on the sample documents."""
    directory = tmp_path_factory.mktemp("served") / "data"
    shutil.copytree(filled, directory)
    settings = settings_in(directory, **{"data.answer_cache": 100})
    yield from serve(Engine(settings, embedder=embedder))


@pytest.fixture(scope="module")
def launch(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Playwright], Browser]:
    """Start the browser of this file's tests: Firefox, if the file is named after it."""
    if not is_for_firefox(request.path):
        return lambda driver: driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
    # The program that Playwright starts is a script of ours, which starts Firefox.
    start = tmp_path_factory.mktemp("firefox") / "firefox"
    words = [sys.executable, str(Path(__file__).with_name("firefox.py")), str(FIREFOX)]
    start.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
    start.chmod(0o755)
    return lambda driver: driver.firefox.launch(channel="moz-firefox", executable_path=start)


# Module by module: while the driver runs, its event loop occupies the thread that other tests
# want for theirs. For the same reason the server is there before the browser.
@pytest.fixture(scope="module")
def browser(address: str, launch: Callable[[Playwright], Browser]) -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = launch(driver)
        yield browser
        browser.close()


class Complaints:
    """What a page says in its console or throws, but for what the test provokes itself."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.expected: list[str] = []

    def expect(self, part: str) -> None:
        """Accept every complaint with this part, also one that comes later."""
        self.expected.append(part)

    @property
    def unexpected(self) -> list[str]:
        return [one for one in self.texts if not any(part in one for part in self.expected)]


@pytest.fixture
def complaints() -> Complaints:
    """Must have nothing unexpected at the end of a test."""
    return Complaints()


@pytest.fixture
def open_page(browser: Browser, complaints: Complaints) -> Iterator[Callable[..., Page]]:
    contexts = []

    def opened(**options: object) -> Page:
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 860}, "locale": "en-GB", **options}  # type: ignore[arg-type]
        )
        contexts.append(context)
        context.set_default_timeout(1000 * LONG_S)
        page = context.new_page()

        def heard(message: ConsoleMessage) -> None:
            if message.type == "error":
                complaints.texts.append(message.text)

        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.texts.append(str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints.unexpected == []


@pytest.fixture
def page(open_page: Callable[..., Page], address: str) -> Page:
    """A fresh tab on the page."""
    page = open_page()
    page.goto(address)
    return page


def ask(page: Page, question: str) -> None:
    """Type a question and wait for the checked answer."""
    page.get_by_role("combobox", name="Your question").fill(question)
    page.keyboard.press("Enter")
    turn = page.locator(".turn").last
    expect(turn.get_by_role("heading", name=question)).to_be_visible()
    expect(turn).to_have_attribute("aria-busy", "false")


def go(page: Page, area: str) -> None:
    """Open an area by its link."""
    page.get_by_role("navigation", name="Areas").get_by_role("link", name=area).click()
    expect(page.get_by_role("heading", level=1, name=area)).to_be_visible()
