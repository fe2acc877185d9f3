"""Thumbs and a comment below each answer, kept over a reload, listed in Insight, downloaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import ask, go
from .test_manners import reach, violations

LEASE = "When does the lease end?"
NOTICE = "How can we terminate the catering agreement?"


def thumb(page: Page, label: str) -> Locator:
    group = page.locator(".turn").last.get_by_role("group", name="Rate this answer")
    return group.get_by_role("button", name=label)


def test_a_vote_and_its_comment_are_shown_again_after_a_reload(page: Page) -> None:
    ask(page, LEASE)
    thumb(page, "Bad answer").click()
    expect(thumb(page, "Bad answer")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#announcer")).to_have_text("Rated: bad answer.")
    page.get_by_label("What is wrong or missing?").fill("It was extended.")
    page.get_by_role("button", name="Save the comment").click()
    expect(page.locator(".comment q")).to_have_text("It was extended.")
    page.reload()
    expect(thumb(page, "Bad answer")).to_have_attribute("aria-pressed", "true")
    expect(thumb(page, "Good answer")).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".comment q")).to_have_text("It was extended.")
    thumb(page, "Good answer").click()
    expect(thumb(page, "Bad answer")).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".comment q")).to_have_text("It was extended.")
    page.get_by_role("button", name="Edit your comment").click()
    page.get_by_label("What is good about it?").fill("")
    page.get_by_role("button", name="Save the comment").click()
    expect(page.get_by_role("button", name="Add a comment")).to_be_visible()
    thumb(page, "Good answer").click()
    expect(thumb(page, "Good answer")).to_have_attribute("aria-pressed", "false")
    page.reload()
    expect(thumb(page, "Good answer")).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".comment")).to_be_hidden()


def test_an_answer_is_rated_by_keyboard_alone(page: Page) -> None:
    ask(page, NOTICE)
    expect(thumb(page, "Good answer")).to_be_visible()
    reach(page, ".thumb.up", backwards=True)
    page.keyboard.press("Space")
    field = page.get_by_label("What is good about it?")
    expect(field).to_be_visible()
    expect(thumb(page, "Good answer")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Add a comment")).to_be_focused()
    page.keyboard.press("Enter")
    expect(field).to_be_focused()
    page.keyboard.type("Short and right.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".comment q")).to_have_text("Short and right.")


def test_insight_lists_the_ratings_and_makes_an_evaluation_set(page: Page) -> None:
    ask(page, "When is the observatory open in summer?")
    thumb(page, "Good answer").click()
    page.get_by_label("What is good about it?").fill("Right hours.")
    page.get_by_role("button", name="Save the comment").click()
    expect(page.locator(".comment q")).to_be_visible()
    go(page, "Insight")
    row = page.locator(".ratings tbody tr").filter(has_text="When is the observatory open")
    expect(row).to_contain_text("good")
    expect(row).to_contain_text("Right hours.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as evaluation set").click()
    assert download.value.suggested_filename == "rated-questions.jsonl"
    text = Path(download.value.path()).read_text("utf-8")
    lines = {line["question"]: line for line in map(json.loads, text.splitlines())}
    line = lines["When is the observatory open in summer?"]
    assert line["vote"] == "up"
    assert line["answers"]
    assert line["documents"]
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1, name="Why")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_violations(
    open_page: Callable[..., Page], address: str, scheme: str
) -> None:
    page = open_page(
        viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True,
        color_scheme=scheme, reduced_motion="reduce",
    )  # fmt: skip
    page.goto(address)
    ask(page, LEASE)
    thumb(page, "Good answer").tap()
    expect(page.get_by_label("What is good about it?")).to_be_visible()
    assert violations(page) == []
    box = thumb(page, "Good answer").bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 24
    go(page, "Insight")
    expect(page.locator(".ratings tbody tr").first).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
