"""Every format to text with structure."""

from __future__ import annotations

import json

import pytest

from ragstone.blocks import LoadedDocument, LoadOptions, ParsedPart
from ragstone.ingest.formats.read import read_parts

from . import files


def loaded(content: bytes, name: str) -> LoadedDocument:
    part = one(content, name)
    assert part.loaded is not None, part.error
    return part.loaded


def one(content: bytes, name: str) -> ParsedPart:
    (part,) = read_parts(content, name, LoadOptions())
    return part


def outline(document: LoadedDocument) -> list[tuple[int, str]]:
    for heading in document.headings:
        line = document.text[heading.start :].split("\n")[0]
        assert line.lstrip("# ").strip() == heading.title
    return [(heading.level, heading.title) for heading in document.headings]


def block_texts(document: LoadedDocument, kind: str) -> list[str]:
    return [document.text[b.start : b.end] for b in document.blocks if b.content_type == kind]


def test_a_word_document_keeps_headings_lists_and_tables() -> None:
    cell = "<w:tc>{}</w:tc>"
    row = "<w:tr>" + cell.format(files.paragraph("Part")) + cell.format(files.paragraph("Mass"))
    row += "</w:tr>"
    second = "<w:tr>" + cell.format(files.paragraph("Mirror")) * 2 + "</w:tr>"
    body = (
        files.paragraph("The dome", '<w:pStyle w:val="H2"/>')
        + files.paragraph("It turns slowly.")
        + files.paragraph("first", '<w:numPr><w:ilvl w:val="0"/></w:numPr>')
        + files.paragraph("inner", '<w:numPr><w:ilvl w:val="1"/></w:numPr>')
        + f"<w:tbl>{row}{second}</w:tbl>"
    )
    document = loaded(files.docx(body), "a.docx")
    assert outline(document) == [(2, "The dome")]
    assert "It turns slowly.\n\n- first\n  - inner" in document.text
    assert block_texts(document, "table") == ["| Part | Mass |\n| --- | --- |\n| Mirror | Mirror |"]


def test_deleted_text_of_a_word_document_is_gone_and_inserted_text_is_there() -> None:
    body = (
        "<w:p><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        "<w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:r><w:tab/><w:t>end</w:t></w:r></w:p>"
    )
    assert loaded(files.docx(body), "a.docx").text == "new end"


def test_footnotes_of_a_word_document_follow_its_text() -> None:
    note = f'<w:footnote w:id="2">{files.paragraph("See the log.")}</w:footnote>'
    document = loaded(files.docx(files.paragraph("Body."), footnotes=note), "a.docx")
    assert document.text == "Body.\n\n# Footnotes\n\n- See the log."


def test_a_slide_is_a_page_with_its_title_as_heading() -> None:
    document = loaded(
        files.pptx(
            files.shape("title", "Budget") + files.shape("body", "Rent", "Power"),
            files.shape("title", "Plans") + files.shape("sldNum", "2"),
        ),
        "a.pptx",
    )
    assert outline(document) == [(1, "Budget"), (1, "Plans")]
    assert "- Rent\n- Power" in document.text
    assert [document.text[start:].split("\n")[0] for start in document.page_starts] == [
        "# Budget",
        "# Plans",
    ]
    assert "2" not in document.text


def test_an_opendocument_text_keeps_headings_lists_and_tables() -> None:
    body = (
        '<text:h text:outline-level="2">Rules</text:h><text:p>Be<text:s text:c="2"/>kind.</text:p>'
        "<text:list><text:list-item><text:p>one</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>"
        "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table>"
    )
    document = loaded(files.odt(body), "a.odt")
    assert outline(document) == [(2, "Rules")]
    assert "Be kind.\n\n- one\n\n| a | b |" in document.text


def test_a_book_is_read_chapter_by_chapter_in_the_order_of_its_spine() -> None:
    document = loaded(
        files.epub(
            {
                "b.xhtml": "<html><body><h1>First</h1><p>One.</p></body></html>",
                "a.xhtml": "<html><body><h1>Second</h1><p>Two.</p></body></html>",
            }
        ),
        "a.epub",
    )
    assert outline(document) == [(1, "First"), (1, "Second")]
    assert document.metadata["title"] == "The Book"


def test_html_is_read_as_it_is_shown() -> None:
    page = b"""<html><head><title>Log</title><meta name="author" content="Ada"></head><body>
    <nav>Home</nav><main><h2>Night 1</h2><p>Clear
    sky.<br>Cold.</p><script>x()</script><ul><li>Mars<ul><li>disc</li></ul></li></ul>
    <table><tr><th>star</th><th>mag</th></tr><tr><td>Vega</td><td>0.03</td></tr></table>
    <pre>a\n  b</pre></main></body></html>"""
    document = loaded(page, "a.html")
    assert document.text == (
        "## Night 1\n\nClear sky.\nCold.\n\n- Mars\n  - disc\n\n"
        "| star | mag |\n| --- | --- |\n| Vega | 0.03 |\n\na\n  b"
    )
    assert document.metadata == {"title": "Log", "author": "Ada"}
    assert block_texts(document, "code") == ["a\n  b"]


def test_html_in_its_declared_code_page_is_read() -> None:
    page = '<meta charset="windows-1251"><p>Здравствуйте</p>'.encode("windows-1251")
    assert loaded(page, "a.html").text == "Здравствуйте"


def test_rich_text_keeps_its_paragraphs_and_letters() -> None:
    rich = rb"{\rtf1\ansi\ansicpg1252{\info{\title Log}}Caf\'e9\par Second line.\par}"
    document = loaded(rich, "a.rtf")
    assert document.text == "Café\n\nSecond line."
    assert document.metadata["title"] == "Log"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_is_read_whatever_its_delimiter(delimiter: str) -> None:
    rows = [["name", "mag"], ["Vega", "0.03"], ["a|b", "1"]]
    content = "\n".join(delimiter.join(row) for row in rows).encode()
    assert loaded(content, "a.csv").text == (
        "| name | mag |\n| --- | --- |\n| Vega | 0.03 |\n| a\\|b | 1 |"
    )


def test_json_lines_are_one_record_each() -> None:
    lines = "\n".join(json.dumps({"text": f"Record {n}"}) for n in range(3)).encode()
    document = loaded(lines, "a.jsonl")
    assert len(block_texts(document, "code")) == 3
    assert '"text": "Record 2"' in document.text


def test_json_that_nests_without_end_is_refused() -> None:
    assert "nested too deeply" in one(b"[" * 100_000, "a.json").error


def test_xml_gives_fields_and_prose() -> None:
    xml = b"<doc><title>Rules</title><id>7</id><p>Be <b>very</b> kind.</p></doc>"
    document = loaded(xml, "a.xml")
    assert document.text == "## Rules\n\n- id: 7\n\nBe very kind."


def test_entities_of_xml_are_not_expanded() -> None:
    laughs = b'<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><d><p>x &b; y</p></d>'
    part = one(laughs, "a.xml")
    assert part.loaded is None or "haha" not in part.loaded.text


MAIL = b"""From: Ada <ada@example.org>
To: Ben <ben@example.org>
Subject: =?utf-8?q?Caf=C3=A9?=
Date: Mon, 02 Feb 2026 10:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=cut

--cut
Content-Type: text/plain; charset=utf-8

The contract ends in May.
--cut
Content-Type: text/plain
Content-Disposition: attachment; filename="../../notes.txt"

Do not forget the keys.
--cut--
"""


def test_a_mail_is_a_document_and_so_is_its_attachment() -> None:
    parts = list(read_parts(MAIL, "a.eml", LoadOptions()))
    assert [part.member for part in parts] == ["", "notes.txt"]
    mail, attachment = (part.loaded for part in parts)
    assert mail is not None
    assert attachment is not None
    assert "The contract ends in May." in mail.text
    assert "Subject: Café" in mail.text
    assert mail.metadata["created"] == "2026-02-02T10:00:00+00:00"
    assert attachment.text == "Do not forget the keys."


def test_a_mailbox_holds_one_document_per_message() -> None:
    box = b"".join(
        b"From a@b Mon Feb  2 10:00:00 2026\nFrom: a@b\nSubject: %d\n\nText %d\n\n" % (n, n)
        for n in range(3)
    )
    parts = list(read_parts(box, "a.mbox", LoadOptions()))
    assert [part.member for part in parts] == ["00001.eml", "00002.eml", "00003.eml"]


def test_code_is_untouched_and_its_definitions_are_headings() -> None:
    source = "import os\n\n\nclass Dome:\n    def turn(self):\n        return 1\n"
    document = loaded(source.encode(), "dome.py")
    assert document.text == source
    assert [heading.title for heading in document.headings] == ["class Dome", "def turn"]


def test_a_notebook_gives_prose_and_code() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Prose."]},
        {"cell_type": "code", "source": "print(1)"},
    ]
    document = loaded(json.dumps({"nbformat": 4, "cells": cells}).encode(), "a.ipynb")
    assert document.text == "# Title\n\nProse.\n\nprint(1)"


def test_text_in_an_old_code_page_is_read() -> None:
    text = "Die Größe der Kuppel beträgt zwölf Meter, ähnlich wie früher.\n" * 5
    assert loaded(text.encode("cp1252"), "a.txt").text == text


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        (b"  \n", "a.txt", "empty"),
        (b"\x00\x01\x02\x03" * 50, "a.txt", "binary"),
        (b"no pdf at all", "a.pdf", "not PDF"),
        (b"no zip at all", "a.docx", "not DOCX"),
        (b"MZ\x90\x00\x03", "a.txt", "Windows program"),
        (b"7z\xbc\xaf\x27\x1c\x00", "a.7z", "7-Zip"),
        (b"\x89PNG\r\n\x1a\n", "a.png", "picture"),
        (b"PK\x03\x04broken", "a.docx", "damaged"),
        (b'{"a": ', "a.json", "damaged"),
        (b"%PDF-1.7 broken", "a.pdf", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "WordDocument".encode("utf-16-le"), "a.doc",
         "before 2007"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "a.docx",
         "encrypted"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(content: bytes, name: str, reason: str) -> None:
    part = one(content, name)
    assert reason in part.error
    assert part.hint


@pytest.mark.parametrize("name", ["page.dat", "page.txt", "page"])
def test_the_type_is_told_by_the_content_and_not_only_by_the_name(name: str) -> None:
    assert loaded(b"<!DOCTYPE html><html><body><p>Hi there</p>", name).media_type == "text/html"
    assert loaded(files.docx(files.paragraph("Hi")), name).media_type.endswith("document")
    assert list(read_parts(MAIL, name, LoadOptions()))[0].loaded.media_type == "message/rfc822"  # type: ignore[union-attr]  # noqa: RUF015
