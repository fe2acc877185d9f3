"""Take the pictures of docs/guides/page.md: a server on the sample documents, a browser, six areas.

.venv/bin/python scripts/screenshots.py
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from playwright.sync_api import Page, sync_playwright

from ragstone.engine import Engine
from ragstone.server.app import create_app
from ragstone.settings import load_settings

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "guides" / "images"
SAMPLES = ROOT / "src" / "ragstone" / "samples" / "documents"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUESTIONS = (
    "When does the lease end?",
    "What does a glass of wine cost in the café?",
    "How long do the batteries keep the telescope running in a power cut?",
    "When does the dome open?",
    "How many visitors may be in the dome at the same time?",
    "Which bank does the observatory use?",
    "What interest is charged on rent that arrives late?",
)


def main() -> int:
    chromium = next((path for path in map(shutil.which, NAMES) if path), None)
    if chromium is None:
        print("error: no Chromium is installed", file=sys.stderr)
        return 1
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_settings(flags={"data.directory": Path(folder) / "data"}, environ={})
        engine = Engine(loaded.settings)
        asyncio.run(engine.ingest([SAMPLES], metadata={"tags": ["sample"]}))
        for question in QUESTIONS:
            engine.ask_sync(question)
        app = create_app(engine, loaded=loaded)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", ws="none"))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                size = {"width": 1280, "height": 800}
                page = browser.new_page(viewport=size, locale="en-GB", reduced_motion="reduce")
                take_screenshots(page, f"http://127.0.0.1:{port}/")
                dark = browser.new_page(
                    viewport=size, locale="en-GB", color_scheme="dark", reduced_motion="reduce"
                )
                dark.goto(f"http://127.0.0.1:{port}/")
                ask_question(dark)
                dark.screenshot(path=TARGET / "ask-dark.png")
                phone = browser.new_page(
                    viewport={"width": 390, "height": 780},
                    locale="en-GB",
                    is_mobile=True,
                    has_touch=True,
                    reduced_motion="reduce",
                )
                phone.goto(f"http://127.0.0.1:{port}/")
                ask_question(phone)
                phone.screenshot(path=TARGET / "ask-phone.png")
                tablet = browser.new_page(
                    viewport={"width": 820, "height": 900}, locale="en-GB", reduced_motion="reduce"
                )
                tablet.goto(f"http://127.0.0.1:{port}/")
                tablet.wait_for_selector(".overview")
                tablet.screenshot(path=TARGET / "start-light.png")
                browser.close()
        finally:
            server.should_exit = True
            thread.join()
    return 0


def ask_question(page: Page) -> None:
    page.fill("#question", QUESTIONS[-1])
    page.keyboard.press("Enter")
    page.wait_for_selector(".appraisal")
    page.wait_for_selector("#toasts:empty", state="attached")


def take_screenshots(page: Page, address: str) -> None:
    page.goto(address)
    ask_question(page)
    page.locator(".answer .chip").last.click()
    page.wait_for_selector("#source .sheet[data-rendered]")
    take_screenshot(page, "ask", scroll=".ask")
    page.goto(f"{address}#/documents")
    page.wait_for_selector(".documents tbody tr")
    take_screenshot(page, "documents")
    page.goto(f"{address}#/compare")
    page.fill("#compare-question", QUESTIONS[-1])
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".side")
    take_screenshot(page, "compare", scroll=".sides")
    page.goto(f"{address}#/why")
    page.wait_for_selector(".ways tbody tr")
    page.locator(".ways tbody tr button").first.click()
    page.set_viewport_size({"width": 1280, "height": 1500})
    page.wait_for_selector(".step")
    take_screenshot(page, "why", scroll=".why .card:nth-child(2)")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{address}#/insight")
    page.wait_for_selector(".history tbody tr")
    page.fill("#threshold-question", "When does the dome open?")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".candidate")
    page.get_by_role("slider").fill("0.4")
    page.evaluate("window.scrollTo(0, 0)")
    page.set_viewport_size({"width": 1280, "height": 1500})
    take_screenshot(page, "insight")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{address}#/settings")
    page.wait_for_selector("[data-setting]")
    take_screenshot(page, "settings", scroll=".change-settings")


def take_screenshot(page: Page, name: str, *, scroll: str = "") -> None:
    if scroll:
        page.locator(scroll).first.evaluate(
            "node => window.scrollTo(0, node.getBoundingClientRect().top + scrollY - 24)"
        )
    page.wait_for_timeout(300)
    page.screenshot(path=TARGET / f"{name}.png")
    print(f"wrote {(TARGET / name).relative_to(ROOT)}.png")


if __name__ == "__main__":
    sys.exit(main())
