"""The page in German and Chinese: its texts, its numbers, the choice, and nothing that overlaps."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ..page_texts import read_catalogue
from .conftest import Complaints, ask
from .test_manners import violations

AREAS = ("ask", "documents", "compare", "why", "insight", "settings")
REMOVAL = "How long do we get to take the telescopes away once the lease is over?"
# English words that follow each other in a Chinese page. What the documents, the history and the
# server say stays as it is: answers, names, the reasons of a stage, the descriptions of settings.
SAID = (
    "noscript, code, option, .answer, .short, .snippet, .markdown, .turn h2, .path, q, .examples, "
    ".topics, .recent, .conversation-list, tbody th, .settings-table td, .change-settings .stack, "
    ".counts, .history td, .questions, .lanes, .source-link, .candidates, .facts, .origin"
)
SHOWN = """(said) => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    if (!holder.closest(said) && holder.checkVisibility()) found.push(walker.currentNode.data);
  }
  for (const node of document.querySelectorAll("[aria-label], [placeholder], [title]")) {
    if (node.closest(said) || !node.checkVisibility()) continue;
    found.push(...["aria-label", "placeholder", "title"].map((name) => node.getAttribute(name)));
  }
  return found.filter((text) => text?.trim());
}"""
# A text that is cut off, or two controls that cover each other.
CROWDED = """() => {
  const isShown = (node) => node.checkVisibility() && !node.closest(".unseen, .skip, thead");
  const cut = [...document.querySelectorAll("h1, h2, label, button, nav a, legend, .button")]
    .filter((node) => isShown(node) && node.clientWidth && node.scrollWidth > node.clientWidth + 1)
    .map((node) => `cut: ${node.textContent}`);
  const box = (node) => node.getBoundingClientRect();
  const fixed = (node) => node.closest("nav, form.composer"); // the rest scrolls behind these
  const area = document.querySelector("main > :not([hidden])");
  const controls = "h1, h2, button, a.button, select, input:not([type=file]), label:not(.unseen)";
  const all = [...document.querySelectorAll("nav a"), ...area.querySelectorAll(controls)]
    .filter((node) => isShown(node) && box(node).width > 2);
  const over = [];
  all.forEach((one, at) => all.slice(at + 1).forEach((other) => {
    if (fixed(one) !== fixed(other) || one.contains(other) || other.contains(one)) return;
    const [a, b] = [box(one), box(other)];
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 2 && high > 2) over.push(`over: ${one.textContent} / ${other.textContent}`);
  }));
  return [...cut, ...over];
}"""


def find_english(page: Page, code: str) -> list[str]:
    """Return the texts of the page that are not translated."""
    catalogue = read_catalogue(code)
    english = {text for text, translated in catalogue.items() if text != translated}
    words = re.compile(r"[ -~–“”…·]*[A-Za-z]{2,}[,.:]? [a-z]{2,}[ -~–“”…·]*")
    return [
        text for text in page.evaluate(SHOWN, SAID)
        if text in english or (code == "zh" and words.fullmatch(text))
    ]  # fmt: skip


def open_area(page: Page, area: str) -> None:
    """Open an area by its address: the names of the links are in another language."""
    page.locator(f"[data-area={area}]").click()
    expect(page.locator(f".area.{area} h1")).to_be_visible()
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize(
    ("locale", "title", "question", "share", "price"),
    [
        ("de-DE", "Fragen", "Ihre Frage", "Mit Zitaten kopieren", "0,"),
        ("zh-CN", "提问", "您的问题", "连同引用复制", "0."),
    ],
)
def test_a_browser_gets_the_page_in_its_language(
    open_page: Callable[..., Page], address: str, locale: str, title: str, question: str,
    share: str, price: str,
) -> None:  # fmt: skip
    page = open_page(locale=locale, viewport={"width": 1280, "height": 860})
    page.goto(address)
    expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", locale[:2])
    expect(page).to_have_title(f"{title} · Ragstone")
    page.get_by_role("combobox", name=question).fill(REMOVAL)
    page.keyboard.press("Enter")
    expect(page.locator(".turn")).to_have_attribute("aria-busy", "false")
    expect(page.get_by_role("button", name=share)).to_be_visible()
    assert find_english(page, locale[:2]) == []
    for area in AREAS[1:]:
        open_area(page, area)
        assert find_english(page, locale[:2]) == [], area
        if area == "documents":
            expect(page.locator("tbody tr").first).to_be_visible()
            table = "(one => one.scrollWidth - one.clientWidth)"
            assert page.locator(".documents .scroll").evaluate(table) <= 0
    open_area(page, "insight")
    page.locator("#threshold-question").fill(REMOVAL)
    page.keyboard.press("Enter")
    expect(page.locator(".candidate .number").first).to_contain_text(price)


@pytest.mark.parametrize(
    ("locale", "reason"),
    [
        ("en-GB", "Dropped at fuse: 3 (of 4) isn't in the source."),
        ("de-DE", "Ausgeschieden bei fuse: 3 (of 4) steht nicht in der Quelle."),
        ("zh-CN", "在 fuse 被舍弃：3 (of 4)不在来源中。"),
    ],
)
def test_a_reason_of_the_server_is_translated_with_its_values(
    open_page: Callable[..., Page], address: str, locale: str, reason: str
) -> None:
    page = open_page(locale=locale)
    page.goto(address)
    expect(page.locator(".welcome")).to_be_visible()
    said = "async (text) => (await import('/ui/text.js')).said(text)"
    assert page.evaluate(said, "Dropped at fuse: 3 (of 4) isn't in the source.") == reason


@pytest.mark.parametrize("locale", ["en-GB", "de-DE", "zh-CN"])
def test_nothing_is_cut_or_covered_on_a_phone(
    open_page: Callable[..., Page], address: str, locale: str
) -> None:
    page = open_page(locale=locale, viewport={"width": 375, "height": 740}, reduced_motion="reduce")
    page.goto(address)
    expect(page.locator(".welcome")).to_be_visible()
    shots = os.environ.get("RAGSTONE_SHOTS")
    for area in AREAS:
        open_area(page, area)
        if area == "ask":
            page.locator("#question").fill(REMOVAL)
            page.keyboard.press("Enter")
            expect(page.locator(".turn")).to_have_attribute("aria-busy", "false")
        if shots:
            page.screenshot(path=Path(shots) / f"{locale}-{area}.png", full_page=True)
        assert page.evaluate(CROWDED) == [], area
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, area


def test_the_chosen_language_is_remembered_and_goes_to_the_server(
    open_page: Callable[..., Page], address: str, complaints: Complaints
) -> None:
    page = open_page()
    page.goto(f"{address}/#/settings")
    page.get_by_label("Of this page.").select_option("de")
    expect(page.get_by_role("heading", level=1, name="Einstellungen")).to_be_visible()
    assert violations(page) == []
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Einstellungen")).to_be_visible()
    complaints.expect("404")  # the browser itself notes it
    page.goto(f"{address}/#/why/none")
    expect(page.get_by_text("Es gibt keine Anfrage mit der Kennung „none“.")).to_be_visible()
    open_area(page, "settings")
    page.locator("#language").select_option("")
    expect(page.get_by_role("heading", level=1, name="Settings")).to_be_visible()


def test_a_language_without_a_catalogue_is_english(
    open_page: Callable[..., Page], address: str
) -> None:
    page = open_page(locale="fr-FR")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    ask(page, REMOVAL)
    expect(page.locator("html")).to_have_attribute("lang", "en")
    assert not any("/texts/" in url for url in asked)
