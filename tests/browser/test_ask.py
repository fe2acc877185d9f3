"""Ask: answers with marked claims, citations that open at their place, and what they are worth."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from .conftest import ask

REMOVAL = "How long do we get to take the telescopes away once the lease is over?"
NOTICE = "How can we terminate the catering agreement?"


def test_every_claim_carries_its_verdict_and_its_citation(page: Page) -> None:
    ask(page, NOTICE)
    claims = page.locator(".turn .claim")
    assert claims.count() >= 1
    for claim in claims.all():
        expect(claim).to_have_attribute("data-verdict", "supported")
        expect(claim.get_by_role("img", name="Supported")).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("three months' written notice")
    expect(page.locator(".answer")).not_to_contain_text("[Source")
    assert page.locator(".answer .chip").count() >= claims.count()
    expect(page.locator(".verdicts")).to_contain_text("supported")


def test_confidence_is_explained_in_a_sentence(page: Page) -> None:
    ask(page, NOTICE)
    said = page.locator(".confidence").inner_text()
    assert "confidence" in said
    assert "%" in said
    assert said.rstrip().endswith(".")


def test_hovering_a_citation_shows_the_snippet(page: Page) -> None:
    ask(page, NOTICE)
    page.locator(".answer .chip").first.hover()
    preview = page.get_by_role("tooltip")
    expect(preview).to_be_visible()
    expect(preview).to_contain_text("catering-agreement.txt")
    expect(preview).to_contain_text("agreement")
    page.keyboard.press("Escape")
    expect(preview).to_be_hidden()


def test_a_text_source_opens_beside_the_answer_with_the_span_marked(page: Page) -> None:
    ask(page, NOTICE)
    page.locator(".source-link").filter(has_text="three months").click()
    source = page.locator("#source")
    expect(source.get_by_role("heading", name="catering-agreement.txt")).to_be_focused()
    mark = source.locator("mark")
    expect(mark).to_be_in_viewport()
    assert " ".join(mark.inner_text().split()) == (
        "2.2 Either party may terminate this agreement by giving three months' written notice to"
        " the end of a calendar quarter, but not before 30 June 2025."
    )
    page.keyboard.press("Escape")
    expect(source).to_be_hidden()
    expect(page.locator(".source-link").filter(has_text="three months")).to_be_focused()


def test_a_pdf_source_opens_at_its_page_with_exactly_its_lines_marked(page: Page) -> None:
    ask(page, REMOVAL)
    link = page.locator(".source-link").filter(has_text="within 12 months")
    with page.expect_response(lambda reply: "/lines?" in reply.url) as lines:
        link.click()
    sheet = page.locator("#source .sheet")
    expect(sheet).to_have_attribute("data-rendered", "4")
    expect(page.locator("#source")).to_contain_text("Page 4 of 4")
    marks = page.locator("#source .line-mark")
    wanted = lines.value.json()
    assert marks.count() == len(wanted) == 2
    expect(marks.first).to_be_in_viewport()
    # The marks stand where the page's own ink is: A4 is 595.28 points wide and 841.89 high.
    scale = sheet.bounding_box()["width"] / 595.28
    for mark, line in zip(marks.all(), wanted, strict=True):
        box, paper = mark.bounding_box(), sheet.bounding_box()
        assert abs((box["x"] - paper["x"]) / scale - line["left"]) < 4
        assert abs((box["y"] - paper["y"]) / scale - (841.89 - line["top"])) < 4
    ink = page.evaluate(
        """() => [...document.querySelectorAll("#source .line-mark")].map((mark) => {
            const canvas = document.querySelector("#source canvas");
            const by = canvas.width / canvas.clientWidth;
            const { offsetLeft: x, offsetTop: y, offsetWidth: w, offsetHeight: h } = mark;
            const data = canvas.getContext("2d").getImageData(x * by, y * by, w * by, h * by).data;
            let dark = 0;
            for (let i = 0; i < data.length; i += 4) dark += data[i] < 128 ? 1 : 0;
            return dark / (data.length / 4);
        })"""
    )
    assert all(share > 0.04 for share in ink), ink


def test_the_pages_of_a_pdf_can_be_turned_and_its_text_read(page: Page) -> None:
    ask(page, REMOVAL)
    page.locator(".answer .chip").first.click()
    expect(page.locator("#source .sheet")).to_have_attribute("data-rendered", "4")
    page.get_by_role("button", name="Previous page").click()
    expect(page.locator("#source .sheet")).to_have_attribute("data-rendered", "3")
    assert page.locator("#source .line-mark").count() == 0
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator("#source mark")).to_contain_text("removes the telescopes")


def test_no_answer_is_said_and_explained(page: Page) -> None:
    ask(page, "Who won the football World Cup in 1998?")
    expect(page.locator(".turn")).to_have_attribute("data-status", "abstained")
    expect(page.locator(".answer")).to_contain_text("don't have enough information")
    expect(page.locator(".confidence")).to_contain_text("No answer.")
    expect(page.locator(".confidence")).to_contain_text("do not contain the answer")
    assert page.locator(".claim").count() == 0


def test_small_talk_is_not_marked_as_unsupported(page: Page) -> None:
    ask(page, "Hello there!")
    assert page.locator(".claim").count() == 0
    expect(page.locator(".confidence")).to_contain_text("it needs none")


def test_the_answer_is_copied_with_its_citations(page: Page, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    ask(page, NOTICE)
    page.get_by_role("button", name="Copy with citations").click()
    expect(page.locator(".toast")).to_contain_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(NOTICE)
    assert "[1]" in copied
    assert "Sources\n[1] contracts/catering-agreement.txt: “" in copied


def test_an_answer_can_be_asked_for_again(page: Page) -> None:
    ask(page, NOTICE)
    with page.expect_request(lambda request: request.url.endswith("/v1/query")):
        page.get_by_role("button", name="Retry").click()
    expect(page.locator(".turn")).to_have_attribute("aria-busy", "false")
    assert page.locator(".turn").count() == 1


def test_a_message_of_one_letter_is_answered(page: Page) -> None:
    ask(page, "x")
    expect(page.locator(".answer")).to_contain_text("The closest passages:")
    expect(page.locator(".confidence")).to_contain_text("Not sure.")


def test_suggestions_come_while_typing_and_are_chosen_by_keyboard(page: Page) -> None:
    ask(page, NOTICE)
    field = page.get_by_role("combobox", name="Your question")
    field.press_sequentially("how can we")
    option = page.get_by_role("option", name=NOTICE)
    expect(option).to_be_visible()
    expect(field).to_have_attribute("aria-expanded", "true")
    while option.get_attribute("aria-selected") != "true":
        field.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") == option.get_attribute("id")
    field.press("Enter")
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.get_by_role("listbox")).to_be_hidden()


def test_a_follow_up_is_understood_from_the_conversation(page: Page) -> None:
    ask(page, "When is the observatory open in summer?")
    page.get_by_role("button", name="Follow up").click()
    expect(page.get_by_role("combobox", name="Your question")).to_be_focused()
    with page.expect_request(lambda request: request.url.endswith("/v1/query")) as second:
        ask(page, "and in winter?")
    expect(page.locator(".turn").last.locator(".answer")).to_contain_text("Friday to Sunday")
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)
    with page.expect_request(lambda request: request.url.endswith("/v1/query")) as third:
        ask(page, NOTICE)
    sessions = [one.value.post_data_json["session_id"] for one in (second, third)]
    assert sessions[0] != sessions[1]


def test_a_question_can_be_limited_to_a_tag(page: Page, address: str) -> None:
    body = {"name": "gate.txt", "text": "The gate is green.", "tags": ["garden"]}
    assert page.request.post(f"{address}/v1/documents", data=body).status == 201
    page.reload()
    page.get_by_role("button", name="Search in: all documents").click()
    page.get_by_role("checkbox", name="garden").check()
    page.get_by_role("button", name="Done").click()
    ask(page, NOTICE)
    expect(page.locator(".turn")).to_have_attribute("data-status", "near")
    page.get_by_role("button", name="Search not only in garden").click()
    ask(page, NOTICE)
    expect(page.locator(".turn").last).to_have_attribute("data-status", "answered")


def test_a_question_can_be_limited_to_ticked_documents(page: Page) -> None:
    page.get_by_role("button", name="Search in: all documents").click()
    page.get_by_label("Find documents and tags").fill("opening")
    page.get_by_role("checkbox", name="handbook/opening-hours.md").check()
    page.get_by_label("Find documents and tags").fill("lease")
    page.get_by_role("checkbox", name="contracts/lease-of-the-ridge.pdf").check()
    expect(page.get_by_role("dialog")).to_contain_text("Ticked: 2 documents.")
    page.get_by_role("button", name="Done").click()
    ask(page, NOTICE)
    for card in page.locator(".source-name").all_inner_texts():
        assert card.startswith(("handbook/opening-hours.md", "contracts/lease-of-the-ridge.pdf"))
    ask(page, "When does the lease end?")
    expect(page.locator(".turn").last.locator(".short")).to_have_text("30 June 2039")


def test_only_the_document_that_is_open_can_be_asked(page: Page) -> None:
    ask(page, "When does the lease end?")
    page.locator(".source-link").first.click()
    page.get_by_role("button", name="Ask only this document").click()
    expect(page.get_by_role("combobox", name="Your question")).to_be_focused()
    expect(page.locator(".scope-chips")).to_contain_text("lease-of-the-ridge.pdf")
    with page.expect_request(lambda request: request.url.endswith("/v1/query")) as asked:
        ask(page, NOTICE)
    assert asked.value.post_data_json["filters"] == {
        "document_name": ["contracts/lease-of-the-ridge.pdf"]
    }


def test_a_link_to_a_place_opens_the_document_there(page: Page, address: str) -> None:
    ask(page, REMOVAL)
    listed = page.request.get(f"{address}/v1/documents").json()
    lease = next(one["id"] for one in listed if one["name"].endswith("lease-of-the-ridge.pdf"))
    text = page.request.get(f"{address}/v1/documents/{lease}/text").json()["text"]
    start = text.index("Rent that is paid late")
    page.goto(f"{address}/#/source/{lease}/{start}/{start + 54}")
    expect(page.locator("#source")).to_contain_text("lease-of-the-ridge.pdf")
    expect(page.locator("#source .sheet")).to_have_attribute("data-rendered", "2")
    assert page.locator("#source .line-mark").count() == 1
    page.get_by_role("button", name="Text", exact=True).click()
    expect(page.locator("#source mark")).to_have_text(text[start : start + 54])
