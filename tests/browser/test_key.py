"""A server that asks for a key: the page says so, takes it, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from ragstone.catalog.keys import KeyRing
from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..server.conftest import serve
from .conftest import Complaints, go


@pytest.fixture(scope="module")
def engine_with_keys(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(settings_in(tmp_path_factory.mktemp("keys") / "data"), embedder=HashEmbedder())


@pytest.fixture(scope="module")
def key(engine_with_keys: Engine) -> str:
    ring = KeyRing(engine_with_keys.catalog)
    return ring.create("ann", role="writer", collections=["notes"], expires_in_s=None)[0]


@pytest.fixture(scope="module")
def address(engine_with_keys: Engine, key: str) -> Iterator[str]:
    yield from serve(engine_with_keys)


def test_the_page_asks_for_the_key_and_works_with_it(
    page: Page, key: str, complaints: Complaints
) -> None:
    complaints.expect("401")  # the browser itself notes each refusal
    complaints.expect("403")
    banner = page.get_by_role("alert").filter(has_text="This server requires a key.")
    expect(banner).to_be_visible()
    banner.get_by_role("link", name="Enter a key").click()
    page.get_by_label("Kept in this tab only").fill(key)
    page.get_by_role("button", name="Use").click()
    expect(banner).to_be_hidden()
    expect(page.locator("[data-setting='refine.top_k']")).to_be_visible()
    assert page.locator("[data-setting='data.directory']").count() == 0
    go(page, "Documents")
    page.get_by_label("Into collection").fill("notes")
    content = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"The gate is green."}
    page.locator("#files").set_input_files([content])
    expect(page.get_by_role("row").filter(has_text="a.txt")).to_be_visible()
    page.get_by_label("Into collection").fill("others")
    page.locator("#files").set_input_files([content])
    expect(page.locator(".file.failed")).to_contain_text("cannot write to the collection 'others'")
