"""Read a page of a PDF: its lines with type size and box, and its tables.

Words and ruled lines are only read on pages where lines have wide gaps: they take longer to read
than all else, and most pages have no table.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from ragstone.ingest.formats.pdf_table import (
    CELL_GAP,
    FoundTable,
    PageLine,
    Rules,
    Word,
    find_tables,
)

_WIDE_SPACE = re.compile(r"\S(?: {3,}|\t)\S")
# Fewer lines with wide gaps than this make no table.
_MIN_PARTED = 2
# A thin box up to this many points is drawn as a line.
_THIN = 2.0
# Drawings with more strokes than this are pictures, not the lines of tables.
_MAX_STROKES = 4_000
_WORD = re.compile(r"\S+")


def read_lines(page: pypdfium2.PdfPage) -> tuple[list[PageLine], list[FoundTable]]:
    """Return the lines of a page in the order of the file, and the tables among them."""
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range()
        # One character per index is what lets a line find its size and box; pdfium breaks it for
        # characters beyond the basic plane, where the page is then read without structure.
        if len(text) != textpage.count_chars():
            return [PageLine(raw.rstrip("\r"), 0.0, None) for raw in text.split("\n")], []
        lines, starts, parted = [], [], 0
        start = 0
        for raw in text.split("\n"):
            line, is_parted = _read_line(textpage, raw.rstrip("\r"), start)
            lines.append(line)
            starts.append(start)
            parted += is_parted
            start += len(raw) + 1
        if parted < _MIN_PARTED:
            return lines, []
        lines = [
            PageLine(line.text, line.size, line.box, tuple(_read_words(textpage, line, start)))
            for line, start in zip(lines, starts, strict=True)
        ]
        return lines, find_tables(lines, _read_rules(page))
    finally:
        textpage.close()


def _read_line(textpage: Any, text: str, start: int) -> tuple[PageLine, bool]:
    """Return a line, and whether a gap in it is wide enough to part two cells."""
    last = start + len(text.rstrip()) - 1
    if last < start:
        return PageLine(text, 0.0, None), False
    size = _measure_type(textpage, start)
    # pdfium returns one rectangle per run of equal type.
    count = textpage.count_rects(start, last - start + 1)
    boxes = [textpage.get_rect(index) for index in range(count)]
    if not boxes:
        return PageLine(text, size, tuple(textpage.get_charbox(last))), False
    lefts, bottoms, rights, tops = zip(*boxes, strict=True)
    box = (min(lefts), min(bottoms), max(rights), max(tops))
    gap = max((left - right for left, right in zip(lefts[1:], rights, strict=False)), default=0.0)
    return PageLine(text, size, box), gap >= CELL_GAP * size or bool(_WIDE_SPACE.search(text))


def _measure_type(textpage: Any, at: int) -> float:
    """Return the size of a character's type as it is shown: some files scale a type of 1 point."""
    size = float(pdfium.FPDFText_GetFontSize(textpage.raw, at))
    matrix = pdfium.FS_MATRIX()
    if pdfium.FPDFText_GetMatrix(textpage.raw, at, ctypes.byref(matrix)):
        size *= math.hypot(matrix.c, matrix.d) or 1.0
    return size


def _read_words(textpage: Any, line: PageLine, start: int) -> Iterator[Word]:
    edges = [ctypes.c_double() for _ in range(4)]
    left, right, bottom, top = edges
    places = [ctypes.byref(edge) for edge in edges]
    for match in _WORD.finditer(line.text):
        # The first and the last character are enough for the box, and twice as fast as all.
        boxes = [
            (left.value, bottom.value, right.value, top.value)
            for at in {start + match.start(), start + match.end() - 1}
            if pdfium.FPDFText_GetCharBox(textpage.raw, at, *places)
        ]
        if boxes:
            lefts, bottoms, rights, tops = zip(*boxes, strict=True)
            yield Word(match[0], (min(lefts), min(bottoms), max(rights), max(tops)))


def _read_rules(page: pypdfium2.PdfPage) -> Rules:
    """Collect the straight lines of the page, thin boxes and the edges of boxes among them."""
    across: list[tuple[float, float, float]] = []
    down: list[tuple[float, float, float]] = []
    count = 0
    for shape in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_PATH], max_depth=1):
        for (x0, y0), (x1, y1) in _read_strokes(shape):
            count += 1
            if abs(y0 - y1) <= _THIN and abs(x0 - x1) > _THIN:
                across.append(((y0 + y1) / 2, min(x0, x1), max(x0, x1)))
            elif abs(x0 - x1) <= _THIN and abs(y0 - y1) > _THIN:
                down.append(((x0 + x1) / 2, min(y0, y1), max(y0, y1)))
        if count > _MAX_STROKES:
            return Rules()
    return Rules(tuple(dict.fromkeys(across)), tuple(dict.fromkeys(down)))


def _read_strokes(
    shape: Any,
) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Yield the straight strokes of a path; a filled area without a border has none."""
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(shape.raw, ctypes.byref(fill), ctypes.byref(stroke))
    left, bottom, right, top = shape.get_bounds()
    if not stroke.value:
        if fill.value and min(right - left, top - bottom) <= _THIN:
            yield (left, bottom), (right, top)
        return
    matrix = shape.get_matrix()
    x, y = ctypes.c_float(), ctypes.c_float()
    before = first = None
    for at in range(min(pdfium.FPDFPath_CountSegments(shape.raw), _MAX_STROKES)):
        segment = pdfium.FPDFPath_GetPathSegment(shape.raw, at)
        pdfium.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        point = matrix.on_point(x.value, y.value)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            first = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO and before is not None:
            yield before, point
        if first is not None and pdfium.FPDFPathSegment_GetClose(segment):
            yield point, first
        before = point
