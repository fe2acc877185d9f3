"""The start page knows the documents: questions, topics, an overview, what was added last."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_suggested_questions_come_from_the_documents_and_are_answered(page: Page) -> None:
    questions = page.get_by_role("list", name="Suggested questions").get_by_role("button")
    expect(questions.first).to_be_visible()
    texts = questions.all_inner_texts()
    assert 3 <= len(texts) <= 6
    assert "Summarize Lease of the Ridge" in texts
    questions.filter(has_text="Summarize Lease of the Ridge").click()
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("aria-busy", "false")
    expect(turn.locator(".answer")).to_contain_text("Key sentences of Lease of the Ridge")


def test_a_topic_is_asked_about_by_a_click(page: Page) -> None:
    page.get_by_role("list", name="Topics").get_by_role("button", name="Safety Policy").click()
    turn = page.locator(".turn")
    expect(turn.get_by_role("heading", name="Summarize Safety Policy")).to_be_visible()
    expect(turn).to_have_attribute("data-status", "answered")
    expect(turn.locator(".sources")).to_contain_text("policies/safety.md")


def test_the_overview_quotes_the_documents(page: Page) -> None:
    page.get_by_text("What the documents are about, in their own words").click()
    about = page.locator(".about .answer")
    expect(about).to_contain_text("handbook: 3 documents")
    about.locator(".chip").first.click()
    expect(page.locator("#source mark").first).to_be_visible()


def test_what_was_added_last_can_be_opened(page: Page, address: str) -> None:
    body = {"name": "notes/bell.md", "text": "# Bell\n\nThe bell rings at noon."}
    assert page.request.post(f"{address}/v1/documents", data=body).status == 201
    page.reload()
    recent = page.locator(".recent li")
    expect(recent.first).to_contain_text("notes/bell.md")
    recent.first.get_by_role("button").click()
    expect(page.locator("#source")).to_contain_text("The bell rings at noon.")
