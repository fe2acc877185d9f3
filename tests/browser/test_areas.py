"""Compare, Why, Insight and Settings on the sample documents."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from .conftest import ask, go
from .test_manners import violations

DOME = "At which outside temperatures may the dome be opened?"
NOTICE = "How can we terminate the catering agreement?"


def test_two_presets_stand_side_by_side_with_their_differences(page: Page) -> None:
    go(page, "Compare")
    page.get_by_label("Question", exact=True).fill(DOME)
    page.get_by_label("Left").select_option("classic")
    page.get_by_label("Right").select_option("balanced")
    page.get_by_role("button", name="Compare").click()
    sides = page.locator(".side")
    expect(sides).to_have_count(2)
    for side, preset in zip(sides.all(), ("classic", "balanced"), strict=True):
        expect(side).to_have_attribute("data-preset", preset)
        expect(side.locator(".claim").first).to_be_visible()
        expect(side.locator(".ranking li").first).to_contain_text("dome-operation.md")
        expect(side.locator(".changes")).to_contain_text("Similarity filter")
        expect(side.locator(".changes")).to_contain_text(re.compile(r"\d+ → \d+"))
    # λ 0.5 against 1 reads other passages: they are marked on both sides.
    assert page.locator(".ranking .move-only").count() >= 2
    page.get_by_text(re.compile(r"\d+ settings differ")).click()
    expect(page.get_by_role("row").filter(has_text="retrieve.fusion")).to_contain_text("rrf")


def test_a_preset_that_had_to_do_without_says_so(page: Page) -> None:
    go(page, "Compare")
    page.get_by_label("Question", exact=True).fill(DOME)
    page.get_by_label("Right").select_option("careful")
    page.get_by_role("button", name="Compare").click()
    careful = page.locator(".side[data-preset=careful]")
    expect(careful.locator(".degraded")).to_contain_text("The reranker is not available")


def test_the_waterfall_shows_stages_with_times_and_each_chunks_way(page: Page) -> None:
    ask(page, NOTICE)
    page.get_by_role("link", name="Why this answer?").click()
    expect(page.get_by_role("heading", name=NOTICE)).to_be_visible()
    stages = page.locator(".timeline li")
    for name in ("Search by meaning", "Search by keyword", "Similarity filter", "Write the answer"):
        expect(stages.filter(has_text=name).first).to_contain_text("ms")
    first = page.locator(".ways tbody tr").first
    expect(first).to_contain_text("catering-agreement.txt")
    expect(first.locator(".way.kept").first).to_be_visible()
    assert page.locator(".way.dropped").count() > 0
    first.get_by_role("button").first.click()
    expect(page.locator(".verdict-text")).to_contain_text("Read for the answer, as source 1.")


def test_a_repeated_answer_shows_how_it_was_made_the_first_time(page: Page) -> None:
    ask(page, DOME)
    page.get_by_role("button", name="New conversation").click()
    ask(page, DOME)
    page.get_by_role("link", name="Why this answer?").click()
    expect(page.get_by_text("the answer came from the cache")).to_be_visible()
    expect(
        page.locator(".timeline li").filter(has_text="Answer from the cache").first
    ).to_be_visible()
    expect(page.get_by_role("columnheader", name="Search by meaning")).to_be_visible()


def test_why_not_this_one_is_answered_for_any_chunk(page: Page) -> None:
    ask(page, NOTICE)
    page.get_by_role("link", name="Why this answer?").click()
    page.get_by_label("Document", exact=True).select_option("wiki/history.md")
    expect(page.get_by_label("Chunk", exact=True)).to_be_enabled()
    page.get_by_label("Chunk", exact=True).select_option(index=3)
    expect(page.locator(".document-verdict")).to_contain_text("The closest one:")
    page.get_by_role("button", name="Why not this chunk?").click()
    expect(page.locator(".verdict-text")).to_contain_text(
        re.compile("Dropped at|No search listed it|Read for the answer")
    )
    assert page.locator(".step").count() >= 2


def test_a_document_that_is_missing_from_an_answer_is_explained(page: Page) -> None:
    ask(page, NOTICE)
    page.get_by_text("Is a document missing?").click()
    chooser = page.locator(".turn").get_by_label("Document", exact=True)
    expect(chooser).to_be_focused()
    chooser.select_option("contracts/catering-agreement.txt")
    verdict = page.locator(".document-verdict")
    expect(verdict).to_contain_text("This document is cited.")
    chooser.select_option("manuals/dome-operation.md")
    expect(verdict).to_contain_text(re.compile("of its .* found|None of its"))
    expect(verdict).to_contain_text(
        re.compile("Dropped at|No search listed it|Read for the answer")
    )


def test_without_a_source_one_can_ask_for_a_document_too(page: Page) -> None:
    ask(page, "Who won the world cup in 1998?")
    turn = page.locator(".turn").last
    expect(turn).to_have_attribute("data-status", "abstained")
    turn.get_by_text("Is a document missing?").click()
    turn.get_by_label("Document", exact=True).select_option("wiki/history.md")
    expect(turn.locator(".document-verdict")).to_contain_text("The closest one:")
    assert violations(page) == []


def test_the_history_leads_back_to_a_query(page: Page) -> None:
    ask(page, DOME)
    go(page, "Insight")
    entry = page.locator(".history tbody tr").first
    expect(entry).to_contain_text(DOME)
    entry.get_by_role("link", name="Why?").click()
    expect(page.get_by_role("heading", name=DOME)).to_be_visible()


def test_the_figures_of_what_was_asked_are_plotted(page: Page) -> None:
    ask(page, "What does a glass of wine cost in the café?")
    ask(page, DOME)
    go(page, "Insight")
    expect(page.locator(".stat").first).to_contain_text("Questions")
    expect(page.get_by_role("figure").filter(has_text="Questions per day")).to_be_visible()
    assert page.locator(".plot .bar-abstained").count() == 1
    stages = page.get_by_role("figure").filter(has_text="Time per stage")
    expect(stages).to_contain_text("Fill the context")
    unanswered = page.locator(".card").filter(has_text="Unanswered questions")
    expect(unanswered.get_by_role("link", name="What does a glass of wine cost")).to_be_visible()


def test_the_threshold_slider_shows_at_once_what_stays(page: Page) -> None:
    go(page, "Insight")
    page.get_by_label("Question", exact=True).fill(DOME)
    page.get_by_role("button", name="Search", exact=True).click()
    rows = page.locator(".candidate")
    expect(rows.first).to_be_visible()
    total = rows.count()
    scores = [float(text) for text in page.locator(".candidate .number").all_inner_texts()]
    slider = page.get_by_role("slider", name="Similarity threshold")
    for threshold in (0.0, 0.3, 0.45):
        slider.fill(str(threshold))
        staying = sum(score >= threshold for score in scores)
        expect(page.locator(".candidate.stays")).to_have_count(staying)
        expect(page.locator(".dot.stays")).to_have_count(staying)
        expect(page.get_by_text(f"{staying} of {total} candidates")).to_be_visible()
    slider.fill("1")
    expect(page.locator(".candidate.floor")).to_have_count(2)
    expect(page.get_by_text("the best 2 are kept")).to_be_visible()


def test_every_setting_is_shown_with_its_origin(page: Page) -> None:
    go(page, "Settings")
    threshold = page.locator("[data-setting='refine.min_similarity']")
    expect(threshold).to_contain_text("0.1")
    expect(threshold).to_contain_text("preset balanced")
    expect(threshold).to_contain_text("RAG_MIN_SIMILARITY")
    expect(page.locator("[data-setting='retrieve.bm25_k1']")).to_contain_text("default")
    page.get_by_label("Find a setting").fill("BM25_B")
    expect(page.locator("[data-setting]")).to_have_count(1)


def test_the_key_stays_in_the_tab_and_goes_along(page: Page) -> None:
    go(page, "Settings")
    page.get_by_label("Kept in this tab only").fill("a-key")
    with page.expect_request(lambda request: request.url.endswith("/v1/settings")) as sent:
        page.get_by_role("button", name="Use").click()
    assert sent.value.headers["authorization"] == "Bearer a-key"
    assert page.evaluate("sessionStorage.getItem('ragstone.key')") == "a-key"
    assert page.evaluate("JSON.stringify({...localStorage})").find("a-key") == -1
    assert "a-key" not in str(page.context.cookies())
    page.get_by_role("button", name="Remove").click()
    assert page.evaluate("sessionStorage.getItem('ragstone.key')") is None


def test_dark_can_be_chosen_and_is_kept(page: Page) -> None:
    go(page, "Settings")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("Dark").check()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Settings")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
