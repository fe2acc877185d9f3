"""Load PDF and pictures: the text page by page, wrapped lines joined, larger type as headings.

Every line of a PDF keeps its box on the page, so that a citation can be drawn there.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Any, ClassVar

import pypdfium2
import pypdfium2.raw as pdfium

from ragstone.blocks import (
    UNREADABLE_PAGES,
    Block,
    Heading,
    LineBox,
    LoadedDocument,
    LoadOptions,
)
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, clean_text, format_row, format_rule
from ragstone.ingest.formats.pdf_page import Page, read_page
from ragstone.ingest.formats.pdf_table import Box, FoundTable, PageLine


class ImageLoader:
    """Load pictures by OCR, with the extra `ragstone[ocr]`."""

    media_type: ClassVar[str] = "image/*"
    suffixes: ClassVar[tuple[str, ...]] = (
        ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp",
    )  # fmt: skip

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        if not options.ocr:
            raise IngestError(
                "The file is a picture; its text can only be read by OCR.",
                hint="Switch it on with RAGSTONE_INGEST_OCR=true (pip install 'ragstone[ocr]').",
            )
        from PIL import Image, UnidentifiedImageError

        Image.MAX_IMAGE_PIXELS = 100_000_000
        try:
            picture = Image.open(io.BytesIO(content)).convert("RGB")
        except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
            raise IngestError(
                f"The picture cannot be opened: {error}.", hint="Save it again as PNG or JPEG."
            ) from error
        composer = Composer()
        for text, _ in read_picture(picture):
            composer.add_paragraph(text)
        return composer.finish(self.media_type)


def read_picture(picture: Any) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Return the lines of a picture from top to bottom, with boxes (left, top, right, bottom)."""
    import numpy as np

    result, _ = _load_ocr()(np.asarray(picture))
    lines = []
    for corners, text, _confidence in result or []:
        across, down = [float(x) for x, _ in corners], [float(y) for _, y in corners]
        lines.append((str(text), (min(across), min(down), max(across), max(down))))
    return sorted(lines, key=lambda line: (round(line[1][1] / 10), line[1][0]))


@cache
def _load_ocr() -> Any:
    try:
        from rapidocr_onnxruntime import RapidOCR
    except ImportError as error:
        raise IngestError(
            "Reading pictures needs the package rapidocr-onnxruntime, which is not installed.",
            hint="Install it with: pip install 'ragstone[ocr]'",
        ) from error
    return RapidOCR()


# pdfium writes a hyphen at the end of a line as U+FFFE (U+0002 in older files).
_HYPHENS = "\ufffe\x02"
_LIST_ITEM = re.compile(r"[-•*–] |\(?[\da-zA-Z]{1,3}[.)] |\d+(?:\.\d+)+ ")
_DATE = re.compile(r"D:(\d{4})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2}))?")
# A wrapped line reaches at least this far into the page's widest line.
_FULL_LINE = 0.8
# Type this much larger than the body is a heading.
_HEADING_SCALE = 1.12
_MAX_HEADING_CHARS = 200
_PARAGRAPH = "\n\n"
# A line this much further down than usual begins a paragraph; measured on at least so many lines.
_PARAGRAPH_PITCH = 1.35
_MIN_PITCHES = 5
# Lines further apart than this many type sizes are in other columns or blocks.
_MAX_PITCH = 4.0
# 150 dots per inch: enough for OCR of ordinary print, a quarter of the work of 300.
_OCR_SCALE = 150 / 72


class PdfLoader:
    """Load the text layer; read a page without one by OCR if that is switched on."""

    media_type: ClassVar[str] = "application/pdf"
    suffixes: ClassVar[tuple[str, ...]] = (".pdf",)

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        document = _open_pdf(content, options.password)
        try:
            count = len(document)
            if count > options.max_pages:
                raise IngestError(
                    f"The PDF has {count} pages, more than the {options.max_pages} allowed.",
                    hint="Raise RAGSTONE_INGEST_MAX_PAGES or split it.",
                )
            if document.get_formtype() != pdfium.FORMTYPE_NONE:
                document.init_forms()  # without it the fields have no values
            pages = [_read_page(document, number, options) for number in range(count)]
            metadata = document.get_metadata_dict(skip_empty=True)
        finally:
            document.close()
        if not any(page.has_text for page in pages):
            reason = "The PDF has no text layer: its pages are pictures."
            if any(page.is_unreadable for page in pages):
                reason = "The PDF does not say which characters it shows: it has no Unicode map."
            raise IngestError(
                reason,
                hint="Switch OCR on with RAGSTONE_INGEST_OCR=true (pip install 'ragstone[ocr]').",
            )
        return _assemble(pages, _convert_metadata(metadata, pages))


def _open_pdf(content: bytes, password: str | None) -> pypdfium2.PdfDocument:
    # What stands before the header (mail headers, AppleSingle) would shift every offset inside.
    content = content[max(0, content.find(b"%PDF-")) :]
    try:
        return pypdfium2.PdfDocument(content, password=password)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pdfium.FPDF_ERR_PASSWORD:
            raise IngestError(
                "The PDF is encrypted and needs a password, or the password is wrong.",
                hint="Give it with --password.",
            ) from error
        raise IngestError(
            "The PDF is damaged and cannot be opened.", hint="Save it again in a PDF viewer."
        ) from error


def _read_page(document: pypdfium2.PdfDocument, number: int, options: LoadOptions) -> Page:
    try:
        page = document[number]
        found = read_page(document, page)
    except pypdfium2.PdfiumError:
        return Page()  # a damaged page; the others are still worth having
    if options.ocr and (found.is_unreadable or not found.has_text):
        lines = [*_read_lines_by_ocr(page), *found.lines]
        found = replace(found, lines=lines, is_unreadable=False)
    page.close()
    return found


def _read_lines_by_ocr(page: pypdfium2.PdfPage) -> list[PageLine]:
    height = page.get_height()
    picture = page.render(scale=_OCR_SCALE).to_pil().convert("RGB")
    lines = []
    for text, box in read_picture(picture):
        left, top, right, bottom = (edge / _OCR_SCALE for edge in box)
        box_on_page = (left, height - bottom, right, height - top)
        lines.append(PageLine(text, box[3] - box[1], box_on_page))
    return lines


class _TextBuilder:
    """Join lines and tables into one text and record where each stands in it."""

    def __init__(self, heading_sizes: list[float], pitch: float) -> None:
        self._heading_sizes = heading_sizes
        self._pitch = pitch
        self.pieces: list[str] = []
        self._length = 0
        self.page_starts: list[int] = []
        self.headings: list[Heading] = []
        self.blocks: list[Block] = []
        self.lines: list[LineBox] = []
        self._last_table: FoundTable | None = None
        self._last_header = ""

    def _append(self, text: str) -> None:
        self.pieces.append(text)
        self._length += len(text)

    def add_page(self, page: Page) -> None:
        if self._length:
            self._append(_PARAGRAPH)
        self.page_starts.append(self._length)
        widest = max((line.right for line in page.lines), default=0.0)
        first_lines = {min(table.lines): table for table in page.tables}
        taken = page.table_lines
        gap, previous = "", None
        for at, line in enumerate(page.lines):
            if at in first_lines:
                self._append(_PARAGRAPH if gap or previous else "")
                self._add_table(first_lines[at])
                gap, previous = _PARAGRAPH, None
            if at in taken:
                continue
            if not line.text.strip().strip(_HYPHENS):
                gap, previous = _PARAGRAPH if gap or previous else "", None
                continue
            if previous is not None:
                gap = _choose_gap(previous, line, widest=widest, pitch=self._pitch)
            self._append(gap)
            self._add_line(line, is_wrapped=previous is not None and gap != _PARAGRAPH)
            gap, previous = "", line

    def _add_line(self, line: PageLine, *, is_wrapped: bool) -> None:
        content = clean_text(line.text.strip().rstrip(_HYPHENS))
        size = round(line.size, 1)
        if size in self._heading_sizes and _can_be_heading(line, content):
            level = min(self._heading_sizes.index(size) + 1, 6)
            last = self.headings[-1] if self.headings else None
            if is_wrapped and last is not None and last.level == level:
                self.headings[-1] = replace(last, title=f"{last.title} {content}")
            else:
                self.headings.append(Heading(level, content, self._length))
        self._append_boxed(content, line.box)

    def _append_boxed(self, content: str, box: Box | None) -> None:
        if box:
            edges = [round(edge, 1) for edge in box]
            end = self._length + len(content)
            self.lines.append(LineBox(len(self.page_starts), self._length, end, *edges))
        self._append(content)

    def _add_table(self, found: FoundTable) -> None:
        """Write a table; the rest of one from the page before keeps that one's header."""
        before = self._last_table
        is_rest = before is not None and found.can_continue(before)
        table = found.build(head_rows=0 if is_rest else None)
        first_row = len(found.rows) - len(table.rows)
        for at, caption in enumerate(table.captions):
            self._append_boxed(caption, found.locate_rows(at))
            self._append(_PARAGRAPH)
        start = self._length
        if table.header:
            head_count = first_row - len(table.captions)
            box = found.locate_rows(len(table.captions), head_count)
            self._append_boxed(format_row(table.header), box)
            self._append("\n" + format_rule(len(table.header)))
            self._last_header = format_row(table.header)
        for at, row in enumerate(table.rows, first_row):
            self._append("\n" if self._length > start else "")
            self._append_boxed(format_row(row), found.locate_rows(at))
        header = self._last_header if is_rest else ""
        self.blocks.append(Block("table", start, self._length, header))
        self._last_table = found


def _assemble(pages: Sequence[Page], metadata: dict[str, Any]) -> LoadedDocument:
    # The type of tables, often the smallest of a page, is not that of the body.
    sizes, table_sizes = Counter[float](), Counter[float]()
    falls: list[float] = []
    for page in pages:
        taken = page.table_lines
        for at, line in enumerate(page.lines):
            counter = table_sizes if at in taken else sizes
            counter[round(line.size, 1)] += len(line.text)
        prose = [line for at, line in enumerate(page.lines) if at not in taken]
        falls += [_measure_fall(above, below) for above, below in pairwise(prose)]
    falls = [fall for fall in falls if 0 < fall < _MAX_PITCH]
    pitch = median(falls) if len(falls) >= _MIN_PITCHES else 0.0
    body = (sizes or table_sizes).most_common(1)[0][0]
    larger = sorted({size for size in sizes if size > body * _HEADING_SCALE}, reverse=True)
    builder = _TextBuilder(larger, pitch)
    for page in pages:
        builder.add_page(page)
    return LoadedDocument(
        "".join(builder.pieces),
        PdfLoader.media_type,
        page_starts=tuple(builder.page_starts),
        headings=tuple(builder.headings),
        blocks=tuple(builder.blocks),
        lines=tuple(builder.lines),
        metadata=metadata,
    )


def _can_be_heading(line: PageLine, content: str) -> bool:
    """Tell whether a line in larger type may be a heading: no page number, nothing in a box."""
    has_words = any(letter.isalpha() for letter in content)
    return has_words and len(content) <= _MAX_HEADING_CHARS and not line.is_boxed


def _measure_fall(above: PageLine, below: PageLine) -> float:
    """Return how far a line lies below one of the same type, in type sizes; 0 if it does not."""
    if above.box is None or below.box is None or not above.size:
        return 0.0
    if round(above.size, 1) != round(below.size, 1):
        return 0.0
    # From edge to edge: pdfium takes the lines of a hyphenated word as one, with a high box.
    return max(0.0, (above.box[1] - below.box[3]) / above.size + 1)


def _choose_gap(previous: PageLine, line: PageLine, *, widest: float, pitch: float) -> str:
    """Return what joins two lines: nothing after a hyphen, a space after a wrapped line."""
    if previous.text.rstrip()[-1] in _HYPHENS:
        return ""
    wrapped = (
        round(previous.size, 1) == round(line.size, 1)
        and previous.right >= widest * _FULL_LINE
        and not _LIST_ITEM.match(line.text.lstrip())
        and not (pitch and _measure_fall(previous, line) > pitch * _PARAGRAPH_PITCH)
    )
    return " " if wrapped else _PARAGRAPH


def _convert_metadata(facts: dict[str, str], pages: Sequence[Page]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"pages": len(pages)}
    if unread := [at for at, page in enumerate(pages, 1) if page.is_unreadable]:
        metadata[UNREADABLE_PAGES] = unread
    for key in ("Title", "Author", "Subject", "Keywords"):
        if facts.get(key):
            metadata[key.lower()] = clean_text(facts[key])
    for key, name in (("CreationDate", "created"), ("ModDate", "modified")):
        match = _DATE.match(facts.get(key, ""))
        if match:
            day = f"{match[1]}-{match[2]}-{match[3]}"
            metadata[name] = f"{day}T{match[4]}:{match[5]}:{match[6]}" if match[4] else day
    return metadata
