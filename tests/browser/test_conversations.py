"""Conversations: kept by the server, opened again, renamed, searched, exported, deleted, shared."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from .conftest import Complaints, ask, go

LEASE = "When does the lease end?"
NOTICE = "How can we terminate the catering agreement?"


def listed(page: Page) -> Locator:
    return page.get_by_role("region", name="Conversations").get_by_role("listitem")


def entry(page: Page, title: str) -> Locator:
    return listed(page).filter(has_text=title).first


def act(page: Page, title: str, action: str) -> None:
    """Use the actions of the open conversation; other tests may have left one with its title."""
    expect(entry(page, title).get_by_role("link")).to_have_attribute("aria-current", "true")
    entry(page, title).get_by_role("button", name=f"Actions for {title}").click()
    entry(page, title).get_by_role("button", name=action).click()


def test_a_reload_shows_the_conversation_as_it_was(page: Page) -> None:
    ask(page, LEASE)
    ask(page, "and when did it begin?")
    before = page.locator(".answer").all_inner_texts()
    verdicts = page.locator(".claim").count()
    page.reload()
    expect(page.locator(".turn")).to_have_count(2)
    assert page.locator(".answer").all_inner_texts() == before
    assert page.locator(".claim").count() == verdicts > 0
    expect(page.locator(".short").first).to_have_text("30 June 2039")
    expect(page.locator(".searched-as")).to_contain_text("Searched as")
    expect(page.locator(".source-link").first).to_contain_text("contracts/lease-of-the-ridge.pdf")


def test_another_device_goes_on_with_the_conversation(
    page: Page, open_page: Callable[..., Page], address: str
) -> None:
    ask(page, "When is the observatory open in summer?")
    other = open_page()
    other.goto(address)
    entry(other, "When is the observatory open in summer?").get_by_role("link").click()
    expect(other.locator(".turn")).to_have_count(1)
    ask(other, "and in winter?")
    expect(other.locator(".turn").last.locator(".answer")).to_contain_text("Friday to Sunday")
    page.reload()
    expect(page.locator(".turn")).to_have_count(2)


def test_a_conversation_is_renamed_and_found_again(page: Page) -> None:
    ask(page, NOTICE)
    act(page, NOTICE, "Rename")
    field = page.get_by_role("textbox", name="Title of the conversation")
    field.fill("Catering for the summer")
    field.press("Enter")
    expect(entry(page, "Catering for the summer")).to_be_visible()
    find = page.get_by_role("searchbox", name="Search conversations")
    find.fill("nothing like this")
    expect(listed(page)).to_have_count(0)
    expect(page.locator("#conversations [role=status]")).to_contain_text("0 conversations")
    find.fill("three months' written")
    expect(entry(page, "Catering for the summer")).to_be_visible()
    page.reload()
    expect(entry(page, "Catering for the summer")).to_be_visible()


def test_a_conversation_is_exported_with_its_sources(page: Page) -> None:
    ask(page, LEASE)
    with page.expect_download() as download:
        act(page, LEASE, "Export")
    assert download.value.suggested_filename == "When does the lease end.md"
    text = Path(download.value.path()).read_text("utf-8")
    assert text.startswith(f"# {LEASE}")
    assert "It ends on 30 June 2039 without notice being required. [1]" in text
    assert "- [1] contracts/lease-of-the-ridge.pdf, page 1: " in text


def test_a_new_question_leaves_the_open_actions_and_a_half_typed_title_alone(page: Page) -> None:
    title = "Which lease is it?"  # no other test asks this, so that one row has the name
    ask(page, title)
    entry(page, title).get_by_role("button", name=f"Actions for {title}").click()
    ask(page, "and when did it begin?")
    link = entry(page, title).get_by_role("link")
    expect(link).to_have_attribute("title", re.compile("2 questions"))
    expect(entry(page, title).get_by_role("button", name="Export")).to_be_visible()
    entry(page, title).get_by_role("button", name="Rename").click()
    field = page.get_by_role("textbox", name="Title of the conversation")
    field.fill("Half a tit")
    with page.expect_response(lambda reply: "/v1/sessions?" in reply.url):
        ask(page, "and who signed it?")
    expect(field).to_have_value("Half a tit")


def test_a_conversation_is_deleted_after_a_question(page: Page) -> None:
    ask(page, "What does the dome weigh?")
    act(page, "What does the dome weigh?", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".turn")).to_have_count(0)
    expect(entry(page, "What does the dome weigh?")).to_have_count(0)
    assert page.url.endswith("#/ask")


def test_a_conversation_that_is_gone_leads_to_a_new_one(
    page: Page, address: str, complaints: Complaints
) -> None:
    complaints.expect("404")  # the browser itself notes it
    page.goto(f"{address}/#/chat/nothing-of-the-kind")
    expect(page.locator(".toast")).to_contain_text("does not exist any more")
    ask(page, LEASE)


def test_the_way_back_from_another_area_keeps_the_conversation(page: Page) -> None:
    ask(page, LEASE)
    go(page, "Documents")
    go(page, "Ask")
    expect(page.locator(".turn")).to_have_count(1)
    assert "#/chat/" in page.url
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".welcome")).to_be_visible()


def test_one_answer_is_shared_by_a_link_and_taken_back(
    page: Page, open_page: Callable[..., Page], complaints: Complaints
) -> None:
    ask(page, LEASE)
    page.get_by_role("button", name="Share").click()
    link = page.get_by_label("Link").input_value()
    other = open_page()
    other.goto(link)
    expect(other.get_by_role("heading", name="Shared answer")).to_be_visible()
    expect(other.get_by_role("heading", name=LEASE)).to_be_visible()
    expect(other.locator(".short")).to_have_text("30 June 2039")
    expect(other.locator(".claim").first).to_have_attribute("data-verdict", "supported")
    other.locator(".source-link").first.click()
    expect(other.locator("#source .sheet")).to_have_attribute("data-rendered", "1")
    assert other.get_by_role("button", name="Retry").count() == 0
    complaints.expect("404")  # the browser itself notes it
    page.get_by_role("button", name="Stop sharing").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    other.reload()
    expect(other.locator(".shared .notice")).to_contain_text("This link shows nothing any more")


def test_on_a_phone_the_conversations_are_a_button_away(
    open_page: Callable[..., Page], address: str
) -> None:
    page = open_page(viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True)
    page.goto(address)
    ask(page, LEASE)
    page.get_by_role("button", name="New conversation").tap()
    page.get_by_role("button", name="Conversations", exact=True).tap()
    entry(page, LEASE).get_by_role("link").tap()
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.get_by_role("region", name="Conversations")).to_be_hidden()
