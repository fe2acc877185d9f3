"""Where REQUIRE_CONSENT is set the page asks once, stores nothing before, and lets one withdraw."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import settings_in
from ..server.conftest import serve
from .conftest import ask, go
from .test_manners import violations

LEASE = "When does the lease end?"


@pytest.fixture(scope="module")
def directory(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("asking") / "data"
    shutil.copytree(filled, directory)
    return directory


@pytest.fixture(scope="module")
def address(directory: Path, embedder: OnnxEmbedder) -> Iterator[str]:
    flags = {"journal.require_consent": True, "journal.retention_days": 30}
    yield from serve(Engine(settings_in(directory, **flags), embedder=embedder))


def count_stored(directory: Path) -> dict[str, int]:
    with closing(sqlite3.connect(directory / "catalog.db")) as connection:
        return {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in ("queries", "sessions", "turns", "evidence", "feedback", "consents")
        }


def question(page: Page) -> Locator:
    return page.get_by_role("region", name="May this server store what you ask?")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_question_is_calm_and_can_be_put_off(
    open_page: Callable[..., Page], address: str, directory: Path, scheme: str
) -> None:
    page = open_page(color_scheme=scheme, viewport={"width": 375, "height": 740})
    page.goto(address)
    expect(question(page)).to_contain_text("are stored for 30 days")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    question(page).get_by_role("button", name="Not now").click()
    expect(question(page)).to_have_count(0)
    expect(page.locator("#question")).to_be_focused()
    ask(page, LEASE)
    expect(page.locator(".short")).to_have_text("30 June 2039")
    expect(page.get_by_role("group", name="Rate this answer")).to_have_count(0)
    expect(page.get_by_role("button", name="Share")).to_have_count(0)
    assert not any(count_stored(directory).values())
    page.reload()
    expect(page.locator(".welcome")).to_be_visible()
    expect(question(page)).to_have_count(0)


def test_who_agrees_is_remembered_and_who_withdraws_is_forgotten(
    page: Page, directory: Path
) -> None:
    ask(page, LEASE)
    question(page).get_by_role("button", name="Agree").click()
    expect(question(page)).to_have_count(0)
    expect(page.locator("#question")).to_be_focused()
    page.get_by_role("button", name="New conversation").click()
    ask(page, LEASE)
    page.get_by_role("button", name="Good answer").click()
    expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    stored = {"queries": 1, "sessions": 1, "turns": 1, "evidence": 1, "feedback": 1, "consents": 1}
    assert count_stored(directory) == stored
    page.reload()
    expect(page.locator(".turn")).to_have_count(1)
    expect(question(page)).to_have_count(0)
    go(page, "Settings")
    card = page.locator(".storage-card")
    expect(card).to_contain_text("You agreed on")
    assert violations(page) == []
    card.get_by_role("button", name="Withdraw and delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Withdraw and delete").click()
    expect(card).to_contain_text("Nothing, because you have not agreed.")
    assert not any(count_stored(directory).values())
    expect(page.locator(".conversation-list li")).to_have_count(0)
    go(page, "Ask")
    expect(page.locator(".turn")).to_have_count(0)
