"""PDF: lines joined, pages kept, boxes where the lines stand."""

from __future__ import annotations

import io
from importlib.util import find_spec

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.pdf import PdfLoader


def pdf(*pages: list[tuple[float, float, int, str]], password: str | None = None) -> bytes:
    buffer = io.BytesIO()
    encryption = StandardEncryption(password, canPrint=0) if password else None
    canvas = Canvas(buffer, pagesize=(595, 842), encrypt=encryption)
    canvas.setTitle("The Lease")
    for lines in pages:
        for x, y, size, text in lines:
            canvas.setFont("Helvetica", size)
            canvas.drawString(x, y, text)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def load(content: bytes, **options: object) -> LoadedDocument:
    return PdfLoader().load(content, LoadOptions(**options))  # type: ignore[arg-type]


LEASE = pdf(
    [(50, 780, 18, "Lease"), (50, 740, 11, "The rent is paid monthly.")],
    [(50, 780, 11, "Second page.")],
)


def test_every_line_has_its_box_where_it_stands_on_the_page() -> None:
    document = load(LEASE)
    texts = {document.text[line.start : line.end]: line for line in document.lines}
    assert set(texts) == {"Lease", "The rent is paid monthly.", "Second page."}
    rent = texts["The rent is paid monthly."]
    assert (rent.page, texts["Second page."].page) == (1, 2)
    assert 45 < rent.left < 55 < rent.right
    assert 735 < rent.bottom < rent.top < 755


def test_larger_type_is_a_heading_and_pages_begin_where_they_begin() -> None:
    document = load(LEASE)
    assert [heading.title for heading in document.headings] == ["Lease"]
    assert document.text[document.page_starts[1] :] == "Second page."
    assert document.metadata["title"] == "The Lease"
    assert document.metadata["pages"] == 2
    assert document.metadata["created"].startswith("20")


def test_an_encrypted_pdf_opens_with_its_password_only() -> None:
    content = pdf([(50, 780, 11, "Secret.")], password="open")
    with pytest.raises(IngestError, match="encrypted"):
        load(content)
    with pytest.raises(IngestError, match="encrypted"):
        load(content, password="wrong")
    assert load(content, password="open").text == "Secret."


def test_a_pdf_with_too_many_pages_is_refused() -> None:
    with pytest.raises(IngestError, match="2 pages, more than the 1"):
        load(LEASE, max_pages=1)


def test_pages_without_text_say_how_to_read_them() -> None:
    with pytest.raises(IngestError, match="pictures") as refused:
        load(pdf([]))
    assert "OCR" in refused.value.hint


@pytest.mark.skipif(find_spec("rapidocr_onnxruntime") is None, reason="ragstone[ocr] is not there")
def test_a_page_without_a_text_layer_is_read_by_ocr() -> None:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (1240, 300), "white")
    font = ImageFont.load_default(size=48)
    ImageDraw.Draw(picture).text((60, 100), "The lease ends in May.", fill="black", font=font)
    content = io.BytesIO()
    picture.save(content, "PDF", resolution=150)
    document = load(content.getvalue(), ocr=True)
    assert document.text == "The lease ends in May."
    (line,) = document.lines
    assert line.page == 1
    assert 20 < line.left < 40 < line.right < 595


def test_boxed_lines_and_page_numbers_are_no_headings() -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(595, 842))
    canvas.setFont("Helvetica", 16)
    canvas.drawString(60, 780, "Application for a permit")
    for row in range(4):
        canvas.setFont("Helvetica", 14)
        y = 700 - 60 * row
        canvas.rect(50, y - 8, 300, 28)
        canvas.drawString(60, y, f"Field number {row} in a box")
        canvas.setFont("Helvetica", 10)
        canvas.drawString(60, y - 30, "Fill in the box above with the number that you were given.")
    canvas.setFont("Helvetica", 14)
    canvas.drawString(290, 30, "79")
    canvas.save()
    document = PdfLoader().load(buffer.getvalue(), LoadOptions())
    assert [heading.title for heading in document.headings] == ["Application for a permit"]
    assert "Field number 3 in a box" in document.text
