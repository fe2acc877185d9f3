"""PDF: the text layer page by page, wrapped lines joined again, larger type taken as headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pypdfium2
import pypdfium2.raw as pdfium

from ragstone.errors import IngestError
from ragstone.stages import Heading, Loaded

# pdfium writes a hyphen at the end of a line as U+FFFE (U+0002 in older files).
_HYPHENS = "\ufffe\x02"
_LIST_ITEM = re.compile(r"[-•*–] |\(?[\da-zA-Z]{1,3}[.)] |\d+(?:\.\d+)+ ")
# A wrapped line reaches at least this far into the page's widest line.
_FULL_LINE = 0.8
# Type this much larger than the body is a heading.
_HEADING_SCALE = 1.12
_PARAGRAPH = "\n\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One line as it stands on the page: its text, its type size and its right edge in points."""

    text: str
    size: float
    right: float


class PdfLoader:
    """Text layers only; a page without one is empty."""

    media_type: ClassVar[str] = "application/pdf"
    suffixes: ClassVar[tuple[str, ...]] = (".pdf",)

    def load(self, content: bytes) -> Loaded:
        document = _open(content)
        try:
            pages = [list(_lines(page)) for page in document]
            facts = document.get_metadata_dict(skip_empty=True)
        finally:
            document.close()
        if not any(line.text.strip() for lines in pages for line in lines):
            raise IngestError(
                "The PDF has no text layer: its pages are pictures.",
                hint="Run it through OCR first.",
            )
        return _assemble(pages, _metadata(facts, len(pages)))


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pdfium.FPDF_ERR_PASSWORD:
            raise IngestError(
                "The PDF is encrypted and needs a password.", hint="Save it without one."
            ) from error
        raise IngestError(
            "The PDF is damaged and cannot be opened.", hint="Try to save it anew in a PDF viewer."
        ) from error


def _lines(page: pypdfium2.PdfPage) -> Iterator[Line]:
    textpage = page.get_textpage()
    text = textpage.get_text_range()
    # One character per index is what lets a line find its size and edge; pdfium breaks it for
    # characters beyond the basic plane, where the page is then read without structure.
    aligned = len(text) == textpage.count_chars()
    start = 0
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        last = start + len(line.rstrip()) - 1
        if aligned and last >= start:
            size = float(pdfium.FPDFText_GetFontSize(textpage.raw, start))
            yield Line(line, size, textpage.get_charbox(last)[2])
        else:
            yield Line(line, 0.0, 0.0)
        start += len(raw) + 1


def _assemble(pages: list[list[Line]], metadata: dict[str, Any]) -> Loaded:
    sizes = Counter[float]()
    for lines in pages:
        for line in lines:
            sizes[round(line.size, 1)] += len(line.text)
    body = sizes.most_common(1)[0][0]
    larger = sorted({size for size in sizes if size > body * _HEADING_SCALE}, reverse=True)
    text, page_starts, headings = "", [], list[Heading]()
    for lines in pages:
        if text and not text.endswith(_PARAGRAPH):
            text += _PARAGRAPH
        page_starts.append(len(text))
        widest = max((line.right for line in lines), default=0.0)
        previous: Line | None = None
        for line in lines:
            content = line.text.strip()
            if not content.strip(_HYPHENS):
                previous = None
                continue
            if previous is not None:
                text = _join(text, previous, line, widest=widest)
            level = larger.index(round(line.size, 1)) + 1 if round(line.size, 1) in larger else 0
            if level and len(content) <= 200:
                headings.append(Heading(level, content, len(text)))
            text += content
            previous = line
    return Loaded(text, PdfLoader.media_type, page_starts=tuple(page_starts),
                  headings=tuple(headings), metadata=metadata)  # fmt: skip


def _join(text: str, previous: Line, line: Line, *, widest: float) -> str:
    """The text so far, made ready for the next line: a wrapped line goes on after a space."""
    if text[-1] in _HYPHENS:
        return text[:-1]
    wrapped = (
        previous.size == line.size
        and previous.right >= widest * _FULL_LINE
        and not _LIST_ITEM.match(line.text.lstrip())
    )
    return text + (" " if wrapped else _PARAGRAPH)


def _metadata(facts: dict[str, str], page_count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {"pages": page_count}
    for key in ("Title", "Author", "Subject", "Keywords"):
        if facts.get(key):
            metadata[key.lower()] = facts[key]
    return metadata
