"""A person's path: upload, overview, question, citation, follow-up, export; and its manners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import SAMPLES, settings_in
from ..server.conftest import serve
from .conftest import ask, go
from .test_manners import violations


@pytest.fixture(scope="module")
def address(embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty server: everything comes through the page."""
    directory = tmp_path_factory.mktemp("journey") / "data"
    yield from serve(Engine(settings_in(directory), embedder=embedder))


def test_a_person_finds_the_way_from_upload_to_export(page: Page) -> None:
    page.get_by_role("link", name="Add documents").click()
    files = [SAMPLES / "contracts" / "lease-of-the-ridge.pdf", SAMPLES / "policies" / "safety.md"]
    page.locator("#files").set_input_files(files)
    expect(page.locator(".file.done")).to_have_count(2)
    go(page, "Ask")
    expect(page.get_by_role("list", name="Suggested questions")).to_contain_text("Summarize")
    ask(page, "When does the lease begin?")
    expect(page.locator(".short")).to_have_text("1 July 2009")
    page.locator(".answer .chip").first.click()
    expect(page.locator("#source .sheet")).to_have_attribute("data-rendered", "1")
    expect(page.locator("#source .line-mark").first).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Follow up").click()
    ask(page, "and when does it end?")
    last = page.locator(".turn").last
    expect(last.locator(".searched-as")).to_contain_text("lease")
    expect(last.locator(".short")).to_have_text("30 June 2039")
    title = "When does the lease begin?"
    page.get_by_role("button", name=f"Actions for {title}").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    text = Path(download.value.path()).read_text("utf-8")
    assert f"## {title}" in text
    assert "## and when does it end?" in text
    assert "- [1] lease-of-the-ridge.pdf, page 1: " in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_the_start_the_chooser_and_an_answer_have_no_violation(
    open_page: Callable[..., Page], address: str, scheme: str, width: int
) -> None:
    page = open_page(
        color_scheme=scheme, reduced_motion="reduce", viewport={"width": width, "height": 860}
    )
    page.goto(address)
    page.request.post(f"{address}/v1/samples", data={"collection": "default"})
    page.reload()
    expect(page.get_by_role("list", name="Topics")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Search in: all documents").click()
    expect(page.get_by_role("checkbox").first).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Done").click()
    ask(page, "Summarize the lease")
    assert violations(page) == []
    go(page, "Documents")
    expect(page.locator("tbody tr").first).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
