"""Documents: adding by drop and by choice, progress, failures with reasons, versions, deletion."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder

from ..conftest import settings_in
from ..server.conftest import serve
from .conftest import Complaints, ask, go

PARAGRAPH = "<w:p><w:r><w:t>The annual report says that the gate is green.</w:t></w:r></w:p>"
DROP = """([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name, {type: "text/plain"}));
    const zone = document.querySelector(".documents .drop");
    const options = {dataTransfer: data, bubbles: true, cancelable: true};
    for (const kind of ["dragenter", "dragover", "drop"])
        zone.dispatchEvent(new DragEvent(kind, options));
}"""


@pytest.fixture(scope="module")
def address(embedder: OnnxEmbedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty server: the documents come through the page."""
    directory = tmp_path_factory.mktemp("empty") / "data"
    yield from serve(Engine(settings_in(directory), embedder=embedder))


def into(page: Page, collection: str) -> None:
    """Each test has a collection of its own, and sees no other from the start."""
    page.evaluate("name => sessionStorage.setItem('ragstone.collection', name)", collection)
    page.reload()
    go(page, "Documents")
    page.get_by_label("Into collection").fill(collection)


def choose(page: Page, *files: dict[str, object]) -> None:
    page.locator("#files").set_input_files(list(files))


def file(name: str, content: bytes) -> dict[str, object]:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has_text=name).first


def test_an_empty_collection_offers_the_samples_and_they_can_be_asked(page: Page) -> None:
    expect(page.get_by_role("heading", name="No documents to search yet")).to_be_visible()
    page.get_by_role("link", name="Add documents").click()
    page.get_by_role("button", name="Add the sample documents").click()
    expect(page.locator(".count")).to_contain_text("13 documents")
    expect(row(page, "lease-of-the-ridge.pdf")).to_contain_text("PDF")
    expect(row(page, "lease-of-the-ridge.pdf")).to_contain_text("sample")
    go(page, "Ask")
    ask(page, "How can we terminate the catering agreement?")
    expect(page.locator(".answer")).to_contain_text("three months' written notice")


def test_a_dropped_file_is_read_and_can_be_asked(page: Page) -> None:
    into(page, "dropped")
    page.get_by_label("Tags, separated by commas").fill("gate, 2026")
    page.evaluate(DROP, ["gate.txt", "The code of the garden gate is 8812."])
    expect(page.locator(".file")).to_contain_text("Added, 1 passage")
    expect(row(page, "gate.txt")).to_contain_text("2026")
    expect(page.get_by_label("Collection", exact=True)).to_have_value("dropped")
    go(page, "Ask")
    ask(page, "What is the code of the garden gate?")
    expect(page.locator(".answer")).to_contain_text("8812")
    page.reload()
    expect(page.get_by_label("Collection", exact=True)).to_have_value("dropped")


def test_a_file_that_fails_says_why_and_does_not_fail_the_others(page: Page) -> None:
    into(page, "mixed")
    choose(
        page, file("good.md", b"# Rules\n\nThe door is green."), file("broken.pdf", b"%PDF-1.7 x")
    )
    good = page.locator(".file").filter(has_text="good.md")
    bad = page.locator(".file").filter(has_text="broken.pdf")
    expect(good).to_contain_text("Added")
    expect(bad).to_contain_text("The PDF is damaged and cannot be opened.")
    expect(bad).to_contain_text("Save it again")
    expect(row(page, "broken.pdf")).to_contain_text("Could not be read: The PDF is damaged")
    expect(page.locator(".count")).to_contain_text("1 document in “mixed”, 1 could not be read")


def test_a_changed_file_is_a_new_version_and_the_old_one_stays_readable(page: Page) -> None:
    into(page, "versions")
    choose(page, file("plan.txt", b"The meeting is on Monday."))
    expect(page.locator(".file").first).to_contain_text("Added")
    choose(page, file("plan.txt", b"The meeting is on Thursday."))
    expect(page.locator(".file").first).to_contain_text("New version")
    row(page, "plan.txt").get_by_role("button", name="Versions").click()
    versions = page.locator(".versions li")
    expect(versions).to_have_count(2)
    expect(versions.first).to_contain_text("current")
    expect(versions.last).to_contain_text("replaced")
    versions.last.get_by_role("button", name="Version 1").click()
    expect(page.locator("#source .text")).to_contain_text("Monday")


def test_documents_are_found_by_name_and_tag(page: Page) -> None:
    into(page, "tagged")
    page.get_by_label("Tags, separated by commas").fill("blue")
    choose(page, file("sky.txt", b"The sky is blue."))
    expect(page.locator(".file").first).to_contain_text("Added")
    page.get_by_label("Tags, separated by commas").fill("green")
    choose(page, file("tree.txt", b"The tree is green."))
    expect(row(page, "tree.txt")).to_be_visible()
    page.get_by_role("group", name="Filter by tag").get_by_role("button", name="blue").click()
    expect(row(page, "tree.txt")).to_be_hidden()
    expect(row(page, "sky.txt")).to_be_visible()
    page.get_by_role("group", name="Filter by tag").get_by_role("button", name="blue").click()
    page.get_by_label("Find documents").fill("tree")
    expect(row(page, "sky.txt")).to_be_hidden()


def test_a_deletion_is_confirmed_can_be_undone_and_is_complete(page: Page) -> None:
    into(page, "deleted")
    choose(page, file("secret.txt", b"The vault code is 4711."))
    expect(row(page, "secret.txt")).to_be_visible()
    delete = page.get_by_role("button", name="Delete secret.txt")
    delete.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(row(page, "secret.txt")).to_be_visible()
    delete.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No documents yet")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(row(page, "secret.txt")).to_be_visible()
    delete.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    with page.expect_response(lambda reply: reply.request.method == "DELETE") as gone:
        page.locator(".toast").last.get_by_role("button", name="Close notice").click()
    assert gone.value.status == 204
    expect(page.get_by_text("No documents yet")).to_be_visible()


def test_a_name_that_no_collection_can_have_is_refused(page: Page) -> None:
    go(page, "Documents")
    page.get_by_label("Into collection").fill("no/such name")
    choose(page, file("a.txt", b"The gate is green."))
    expect(page.locator(".toast")).to_contain_text("letters, digits")


def test_an_upload_that_the_server_refuses_says_so(
    page: Page, complaints: Complaints, tmp_path: Path
) -> None:
    complaints.expect("net::")  # the browser itself notes the failed request
    into(page, "refused")
    page.route("**/v1/documents?wait=false", lambda route: route.abort())
    choose(page, file("a.txt", b"The gate is green."))
    expect(page.locator(".file.failed")).to_contain_text("The server cannot be reached.")


def test_a_whole_collection_is_deleted_after_a_question(page: Page) -> None:
    into(page, "short-lived")
    choose(page, file("a.txt", b"The gate is green."))
    expect(row(page, "a.txt")).to_be_visible()
    page.get_by_role("button", name="Delete collection").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("cannot be undone")
    dialog.get_by_role("button", name="Delete everything").click()
    expect(page.locator(".toast")).to_contain_text("“short-lived” is deleted")
    expect(row(page, "a.txt")).to_be_hidden()


def word_file() -> bytes:
    """Return the smallest file that Word can open."""
    kinds = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    base = "http://schemas.openxmlformats.org"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{base}/package/2006/content-types">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{kinds}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{base}/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{base}/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{base}/wordprocessingml/2006/main"><w:body>'
        f"{PARAGRAPH}</w:body></w:document>",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return buffer.getvalue()


@pytest.mark.parametrize("width", [1280, 800, 375])
def test_a_word_file_does_not_wreck_the_table_at_any_width(
    open_page: Callable[..., Page], address: str, width: int
) -> None:
    page = open_page(viewport={"width": width, "height": 860})
    page.goto(address)
    into(page, f"word-{width}")
    choose(page, file("report.docx", word_file()))
    expect(row(page, "report.docx")).to_contain_text("Word")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.locator(".documents-table").bounding_box()
    region = page.get_by_role("region", name="Documents").bounding_box()
    assert table is not None
    assert region is not None
    assert table["width"] <= region["width"] + 1


def test_folders_are_a_tree_that_opens_and_closes(page: Page, address: str) -> None:
    for name in ("guide/_index.md", "guide/setup/_index.md", "top.md"):
        body = {"name": name, "text": f"The file {name} is here.", "collection": "tree"}
        assert page.request.post(f"{address}/v1/documents", data=body).status == 201
    page.reload()
    page.get_by_label("Collection", exact=True).select_option("tree")
    go(page, "Documents")
    folder = page.get_by_role("button", name="guide/ 2 documents")
    expect(folder).to_have_attribute("aria-expanded", "true")
    inner = page.get_by_role("button", name="guide/setup/_index.md", exact=True)
    expect(inner).to_be_visible()
    folder.click()
    expect(inner).to_be_hidden()
    expect(folder).to_be_focused()
    expect(page.get_by_role("button", name="top.md", exact=True)).to_be_visible()
    page.get_by_label("Find documents").fill("setup")
    expect(inner).to_contain_text("guide/setup/_index.md")


def test_tags_are_edited_in_the_list(page: Page) -> None:
    into(page, "edited")
    choose(page, file("plan.txt", b"The meeting is on Monday."))
    page.get_by_role("button", name="Edit tags of plan.txt").click()
    field = page.get_by_role("textbox", name="Tags of plan.txt")
    field.fill("meeting, 2026")
    field.press("Enter")
    expect(row(page, "plan.txt").locator(".tag")).to_have_text(["meeting", "2026"])
    page.reload()
    expect(row(page, "plan.txt").locator(".tag")).to_have_text(["meeting", "2026"])


def test_tags_being_typed_survive_a_new_document(page: Page) -> None:
    into(page, "typing")
    choose(page, file("plan.txt", b"The meeting is on Monday."))
    page.get_by_role("button", name="Edit tags of plan.txt").click()
    field = page.get_by_role("textbox", name="Tags of plan.txt")
    field.fill("meet")
    choose(page, file("later.txt", b"The gate is green."))
    expect(row(page, "later.txt")).to_be_visible()
    expect(field).to_have_value("meet")
    field.press_sequentially("ing")
    field.press("Enter")
    expect(row(page, "plan.txt").locator(".tag")).to_have_text(["meeting"])


def test_one_document_can_be_asked_from_the_list(page: Page) -> None:
    into(page, "single")
    choose(page, file("a.txt", b"The gate is green."), file("b.txt", b"The gate is red."))
    page.get_by_role("button", name="Ask only b.txt").click()
    ask(page, "What colour is the gate?")
    expect(page.locator(".answer")).to_contain_text("red")
    expect(page.locator(".answer")).not_to_contain_text("green")


def test_each_file_shows_the_stage_it_is_in(page: Page) -> None:
    into(page, "stages")
    events = "".join(
        f"data: {line}\n\n"
        for line in (
            '{"type": "stage", "name": "a.txt", "stage": "reading"}',
            '{"type": "stage", "name": "b.txt", "stage": "embedding"}',
        )
    )
    page.route(
        "**/v1/uploads/*/events",
        lambda route: route.fulfill(content_type="text/event-stream", body=events),
    )
    page.evaluate(
        """() => { window.seen = new Set(); new MutationObserver(() => {
            for (const one of document.querySelectorAll(".file")) window.seen.add(one.innerText);
        }).observe(document.querySelector(".queue"), {subtree: true, childList: true,
            characterData: true}); }"""
    )
    choose(page, file("a.txt", b"The gate is green."), file("b.txt", b"The door is red."))
    expect(page.locator(".file.failed")).to_have_count(2)  # the stream was cut
    seen = " ".join(page.evaluate("[...window.seen]"))
    assert "Reading the text…" in seen
    assert "Making it searchable…" in seen
