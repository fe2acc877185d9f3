"""Values that were typed into PDF forms, ticked boxes, notes, and pages that cannot be read."""

from __future__ import annotations

import io
import random
from collections.abc import Callable

import pytest
from reportlab.pdfgen.canvas import Canvas

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.pdf import PdfLoader

LABELS = [
    "Full name", "Date of birth", "Street and number", "City", "Postal code", "Country",
    "Telephone", "Employer", "Annual income", "Reason for the request",
]  # fmt: skip
WORDS = ["Marlow", "Ångström", "Quince", "Tarn", "Überlingen", "8812", "Okoro", "1974-03-05"]


def draw(paint: Callable[[Canvas], None]) -> LoadedDocument:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(595, 842))
    canvas.setFont("Helvetica", 11)
    paint(canvas)
    canvas.save()
    return PdfLoader().load(buffer.getvalue(), LoadOptions())


def invent_values(chance: random.Random) -> list[str]:
    return [f"{chance.choice(WORDS)} {chance.randint(1000, 9999)}" for _ in LABELS]


def draw_label_left(canvas: Canvas, values: list[str]) -> None:
    for row, (label, value) in enumerate(zip(LABELS, values, strict=True)):
        y = 750 - 30 * row
        canvas.drawString(60, y + 5, f"{label}:")
        canvas.acroForm.textfield(
            name=f"f1_{row:02}[0]", x=220, y=y, width=250, height=20, value=value
        )


def draw_label_above(canvas: Canvas, values: list[str]) -> None:
    for row, (label, value) in enumerate(zip(LABELS, values, strict=True)):
        y = 740 - 50 * row
        canvas.drawString(60, y + 24, label)
        canvas.acroForm.textfield(name=f"t{row}", x=60, y=y, width=300, height=20, value=value)


def draw_two_columns(canvas: Canvas, values: list[str]) -> None:
    for row in range(0, len(LABELS), 2):
        y = 750 - 30 * row
        for x, at in ((50, row), (310, row + 1)):
            canvas.drawString(x, y + 5, LABELS[at])
            canvas.acroForm.textfield(
                name=f"c{at}", x=x + 125, y=y, width=120, height=20, value=values[at]
            )


def draw_tooltips(canvas: Canvas, values: list[str]) -> None:
    for row, (label, value) in enumerate(zip(LABELS, values, strict=True)):
        canvas.acroForm.textfield(
            name=f"x{row}", tooltip=label, x=60, y=740 - 40 * row, width=300, height=20, value=value
        )


LAYOUTS = [draw_label_left, draw_label_above, draw_two_columns, draw_tooltips]


@pytest.mark.parametrize("seed", range(20))
def test_every_typed_value_stands_behind_its_label(seed: int) -> None:
    values = invent_values(random.Random(seed))
    document = draw(lambda canvas: LAYOUTS[seed % 4](canvas, values))
    for label, value in zip(LABELS, values, strict=True):
        assert f"{label}: {value}" in document.text
    assert not [heading for heading in document.headings if heading.title in values]


def test_ticks_choices_and_lists_are_read() -> None:
    def paint(canvas: Canvas) -> None:
        form = canvas.acroForm
        for row, (label, is_checked) in enumerate([("Parking", True), ("Breakfast", False)]):
            y = 750 - 30 * row
            form.checkbox(name=label, x=60, y=y, size=14, checked=is_checked)
            canvas.drawString(80, y + 2, f"{label} wanted")
        canvas.drawString(60, 652, "Payment:")
        for x, value in ((150, "Cash"), (250, "Card")):
            form.radio(name="pay", value=value, selected=value == "Card", x=x, y=650, size=14)
            canvas.drawString(x + 18, 652, value)
        canvas.drawString(60, 605, "Room:")
        form.choice(name="room", value="Suite", options=["Single", "Suite"], x=150, y=600, width=90)

    text = draw(paint).text
    assert "[x] Parking wanted" in text
    assert "[x] Breakfast" not in text
    assert "[x] Card" in text
    assert "[x] Cash" not in text
    assert "Room: Suite" in text


def test_a_hidden_field_and_an_empty_one_are_not_shown() -> None:
    def paint(canvas: Canvas) -> None:
        canvas.drawString(60, 750, "A form with fields.")
        canvas.acroForm.textfield(
            name="a", x=60, y=700, value="secret-7781", annotationFlags="hidden"
        )
        canvas.acroForm.textfield(name="b", tooltip="Nothing", x=60, y=600, value="")

    assert draw(paint).text.strip() == "A form with fields."


def test_notes_and_free_text_are_read() -> None:
    def paint(canvas: Canvas) -> None:
        canvas.drawString(60, 750, "The rent is 900 euros.")
        canvas.drawString(60, 300, "The last line.")
        canvas.textAnnotation("Raised to 950 in May.", Rect=[300, 745, 320, 765], T="(Ada)")
        canvas.freeTextAnnotation("Paid on 3 June", DA="/Helv 12 Tf", Rect=[60, 600, 200, 620])

    text = draw(paint).text
    assert "Raised to 950 in May." in text
    assert text.index("The rent") < text.index("Raised") < text.index("The last line.")
    assert "Paid on 3 June" in text


def test_a_form_without_any_text_is_read_by_its_values() -> None:
    text = draw(
        lambda canvas: canvas.acroForm.textfield(
            name="n", tooltip="Name", x=60, y=700, width=200, value="Quince"
        )
    ).text
    assert text == "Name: Quince"


def write_unmapped(text: str, *more: str) -> bytes:
    """Write a PDF whose font gives each letter a code without telling its character."""
    codes = "".join(f"{1 + ord(letter) % 30:02x}" for letter in text)
    stream = f"BT /F1 12 Tf 50 700 Td <{codes}> Tj ET".encode()
    plain = b"BT /F2 12 Tf 50 700 Td (%s) Tj ET" % " ".join(more).encode()
    names = " ".join(f"/g{code}" for code in range(1, 32))
    procs = " ".join(f"/g{code} 7 0 R" for code in range(1, 32))
    glyph = b"500 0 0 0 400 700 d1 50 0 300 600 re f"
    kids = "[3 0 R 9 0 R]" if more else "[3 0 R]"
    resources = b"/Resources << /Font << /F1 4 0 R /F2 8 0 R >> >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R " + resources
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids {kids} /Count {2 if more else 1} >>".encode(),
        page % 5 + b" >>",
        f"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [.001 0 0 .001 0 0] "
        f"/FirstChar 1 /LastChar 31 /Widths [{'500 ' * 31}] /CharProcs << {procs} >> "
        f"/Encoding << /Type /Encoding /Differences [1 {names}] >> >>".encode(),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(glyph), glyph),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        page % 10 + b" >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(plain), plain),
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table) + end


def test_text_without_a_unicode_map_is_refused_and_ocr_is_offered() -> None:
    content = write_unmapped("The gate code of the house is unreadable.")
    with pytest.raises(IngestError, match="no Unicode map") as failure:
        PdfLoader().load(content, LoadOptions())
    assert "OCR" in failure.value.hint


def test_the_other_pages_are_read_and_the_unreadable_one_is_named() -> None:
    content = write_unmapped("The gate code of the house.", "The readable page.")
    document = PdfLoader().load(content, LoadOptions())
    assert document.text.strip() == "The readable page."
    assert document.metadata["unreadable_pages"] == [1]
