"""The Documents page shows the folder that the server watches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ragstone.engine import Engine
from ragstone.testing import HashEmbedder

from ..conftest import settings_in
from ..server.conftest import serve
from .conftest import go
from .test_manners import violations


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watched") / "inbox"
    folder.mkdir()
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "gate.txt").write_text("The gate is green.", "utf-8")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    settings = settings_in(folder.parent / "data", **{"ingest.watch": folder, "ingest.watch_s": 1})
    yield from serve(Engine(settings, embedder=HashEmbedder()))


def test_the_folder_its_last_look_and_its_failures_are_shown(page: Page, folder: Path) -> None:
    expect(page.locator(".welcome, .empty")).to_be_visible()
    go(page, "Documents")
    card = page.get_by_role("region", name="Watched folder")
    expect(card).to_contain_text(str(folder))
    expect(card).to_contain_text("New and changed files go to “default” by themselves")
    expect(card).to_contain_text("Files: 2.")
    card.get_by_text("1 could not be read").click()
    expect(card).to_contain_text("bad.pdf The PDF is damaged and cannot be opened.")
    assert violations(page) == []
    (folder / "dome.txt").write_text("The dome opens at nine.", "utf-8")
    expect(card).to_contain_text("Files: 3.")
    expect(page.locator("tbody")).to_contain_text("dome.txt")
    expect(card.locator("details")).to_have_attribute("open", "")


def test_a_folder_that_is_gone_is_told(page: Page, folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    go(page, "Documents")
    card = page.get_by_role("region", name="Watched folder")
    expect(card.locator(".notice")).to_contain_text("does not exist. Create it, or change")
