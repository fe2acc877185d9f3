"""Load PDF and pictures: the text page by page, wrapped lines joined, larger type as headings.

Every line of a PDF keeps its box on the page, so that a citation can be drawn there.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import pypdfium2
import pypdfium2.raw as pdfium

from ragstone.blocks import Heading, LineBox, LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, clean_text


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
_PARAGRAPH = "\n\n"
# 150 dots per inch: enough for OCR of ordinary print, a quarter of the work of 300.
_OCR_SCALE = 150 / 72


@dataclass(frozen=True, slots=True)
class PageLine:
    """Hold one line of a page: its text, its type size, and its box in points."""

    text: str
    size: float
    box: tuple[float, float, float, float] | None

    @property
    def right(self) -> float:
        return self.box[2] if self.box else 0.0


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
            pages = [_read_page(document, number, options) for number in range(count)]
            metadata = document.get_metadata_dict(skip_empty=True)
        finally:
            document.close()
        if not any(line.text.strip() for lines in pages for line in lines):
            raise IngestError(
                "The PDF has no text layer: its pages are pictures.",
                hint="Switch OCR on with RAGSTONE_INGEST_OCR=true (pip install 'ragstone[ocr]').",
            )
        return _assemble(pages, _convert_metadata(metadata, len(pages)))


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


def _read_page(
    document: pypdfium2.PdfDocument, number: int, options: LoadOptions
) -> list[PageLine]:
    try:
        page = document[number]
        lines = list(_read_lines(page))
    except pypdfium2.PdfiumError:
        return []  # a damaged page; the others are still worth having
    if options.ocr and not any(line.text.strip() for line in lines):
        lines = _read_lines_by_ocr(page)
    page.close()
    return lines


def _read_lines(page: pypdfium2.PdfPage) -> Iterator[PageLine]:
    textpage = page.get_textpage()
    text = textpage.get_text_range()
    # One character per index is what lets a line find its size and box; pdfium breaks it for
    # characters beyond the basic plane, where the page is then read without structure.
    aligned = len(text) == textpage.count_chars()
    start = 0
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        last = start + len(line.rstrip()) - 1
        if aligned and last >= start:
            size = float(pdfium.FPDFText_GetFontSize(textpage.raw, start))
            yield PageLine(line, size, _find_box(textpage, start, last))
        else:
            yield PageLine(line, 0.0, None)
        start += len(raw) + 1
    textpage.close()


def _find_box(textpage: Any, first: int, last: int) -> tuple[float, float, float, float]:
    """Return the box around a line: pdfium gives one rectangle per run of equal type."""
    count = textpage.count_rects(first, last - first + 1)
    boxes = [textpage.get_rect(index) for index in range(count)]
    if not boxes:
        return tuple(textpage.get_charbox(last))
    lefts, bottoms, rights, tops = zip(*boxes, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


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
    """Join lines into one text and record where each line stands in it."""

    def __init__(self, heading_sizes: list[float]) -> None:
        self._heading_sizes = heading_sizes
        self.pieces: list[str] = []
        self._length = 0
        self.page_starts: list[int] = []
        self.headings: list[Heading] = []
        self.lines: list[LineBox] = []

    def _append(self, text: str) -> None:
        self.pieces.append(text)
        self._length += len(text)

    def add_page(self, lines: list[PageLine]) -> None:
        if self._length:
            self._append(_PARAGRAPH)
        self.page_starts.append(self._length)
        widest = max((line.right for line in lines), default=0.0)
        previous: PageLine | None = None
        for line in lines:
            if not line.text.strip().strip(_HYPHENS):
                previous = None
                continue
            if previous is not None:
                self._append(_choose_gap(previous, line, widest=widest))
            self._add_line(line)
            previous = line

    def _add_line(self, line: PageLine) -> None:
        content = clean_text(line.text.strip().rstrip(_HYPHENS))
        size = round(line.size, 1)
        if size in self._heading_sizes and len(content) <= 200:
            level = self._heading_sizes.index(size) + 1
            self.headings.append(Heading(min(level, 6), content, self._length))
        if line.box:
            box = [round(edge, 1) for edge in line.box]
            end = self._length + len(content)
            self.lines.append(LineBox(len(self.page_starts), self._length, end, *box))
        self._append(content)


def _assemble(pages: list[list[PageLine]], metadata: dict[str, Any]) -> LoadedDocument:
    sizes = Counter[float]()
    for lines in pages:
        for line in lines:
            sizes[round(line.size, 1)] += len(line.text)
    body = sizes.most_common(1)[0][0]
    larger = sorted({size for size in sizes if size > body * _HEADING_SCALE}, reverse=True)
    builder = _TextBuilder(larger)
    for lines in pages:
        builder.add_page(lines)
    return LoadedDocument(
        "".join(builder.pieces),
        PdfLoader.media_type,
        page_starts=tuple(builder.page_starts),
        headings=tuple(builder.headings),
        lines=tuple(builder.lines),
        metadata=metadata,
    )


def _choose_gap(previous: PageLine, line: PageLine, *, widest: float) -> str:
    """Return what joins two lines: nothing after a hyphen, a space after a wrapped line."""
    if previous.text.rstrip()[-1] in _HYPHENS:
        return ""
    wrapped = (
        previous.size == line.size
        and previous.right >= widest * _FULL_LINE
        and not _LIST_ITEM.match(line.text.lstrip())
    )
    return " " if wrapped else _PARAGRAPH


def _convert_metadata(facts: dict[str, str], page_count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {"pages": page_count}
    for key in ("Title", "Author", "Subject", "Keywords"):
        if facts.get(key):
            metadata[key.lower()] = clean_text(facts[key])
    for key, name in (("CreationDate", "created"), ("ModDate", "modified")):
        match = _DATE.match(facts.get(key, ""))
        if match:
            day = f"{match[1]}-{match[2]}-{match[3]}"
            metadata[name] = f"{day}T{match[4]}:{match[5]}:{match[6]}" if match[4] else day
    return metadata
