"""Read a page of a PDF: its lines with type size and box, and its tables.

Words and ruled lines are only read on pages where lines have wide gaps: they take longer to read
than all else, and most pages have no table.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from ragstone.ingest.formats.pdf_form import insert_lines, read_added_lines
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
# The edges of a box lie within so many type sizes of the line in it.
_BOX_REACH = 2.0
_SAME_SIZE = 0.2
# Drawings with more strokes than this are pictures, not the lines of tables.
_MAX_STROKES = 4_000
_WORD = re.compile(r"\S+")
# Characters looked at to tell whether a page can be read, and the share that may be unknown.
_SAMPLED_CHARS = 2_000
_MIN_LETTERS = 8
_MAX_UNKNOWN_SHARE = 0.3
# Private use, unassigned, control characters and halves of pairs.
_NO_CHARACTERS = frozenset({"Co", "Cn", "Cc"})
# pdfium writes a hyphen at the end of a line as one of these.
_HYPHEN_CODES = frozenset({0xFFFE, 0x02})


@dataclass(frozen=True, slots=True)
class Page:
    """Hold the lines of a page and the tables among them."""

    lines: Sequence[PageLine] = ()
    tables: Sequence[FoundTable] = ()
    is_unreadable: bool = False
    """It shows text, but the file does not say which characters they are."""
    height: float = 0.0

    @property
    def table_lines(self) -> frozenset[int]:
        return frozenset[int]().union(*(table.lines for table in self.tables))

    @property
    def has_text(self) -> bool:
        return any(line.text.strip() for line in self.lines)


def read_page(document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Page:
    """Return the lines of a page in the order of the file, notes and values of forms among them."""
    textpage = page.get_textpage()
    try:
        is_unreadable = _is_unreadable(textpage)
        lines, tables = ([], []) if is_unreadable else _read_lines(page, textpage)
        added = read_added_lines(document, page, textpage)
        return Page(*insert_lines(lines, tables, added), is_unreadable, page.get_height())
    finally:
        textpage.close()


def _is_unreadable(textpage: Any) -> bool:
    """Tell whether most characters of a page have no Unicode: its fonts lack the map to it."""
    count = textpage.count_chars()
    step = max(1, count // _SAMPLED_CHARS)
    letters = unknown = 0
    for at in range(0, count, step):
        code = pdfium.FPDFText_GetUnicode(textpage.raw, at)
        if chr(code).isspace() or code in _HYPHEN_CODES:
            continue
        letters += 1
        has_error = pdfium.FPDFText_HasUnicodeMapError(textpage.raw, at) == 1
        unknown += has_error or unicodedata.category(chr(code)) in _NO_CHARACTERS
    return letters >= _MIN_LETTERS and unknown > _MAX_UNKNOWN_SHARE * letters


def _read_lines(page: pypdfium2.PdfPage, textpage: Any) -> tuple[list[PageLine], list[FoundTable]]:
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
    lines = _mark_boxed(page, lines)
    if parted < _MIN_PARTED:
        return lines, []
    lines = [
        replace(line, words=tuple(_read_words(textpage, line, start)))
        for line, start in zip(lines, starts, strict=True)
    ]
    return lines, find_tables(lines, _read_rules(page))


def _mark_boxed(page: pypdfium2.PdfPage, lines: list[PageLine]) -> list[PageLine]:
    """Mark the lines in larger type that stand in a box or beside other text."""
    sizes = Counter[float]()
    for line in lines:
        sizes[round(line.size, 1)] += len(line.text)
    usual = max(sizes, key=lambda size: sizes[size], default=0.0)
    large = [at for at, line in enumerate(lines) if line.box and line.size > usual]
    if not large:
        return lines
    rules = _read_rules(page)
    marked = list(lines)
    for at in large:
        line = lines[at]
        if _has_neighbour(line, lines) or _is_enclosed(line, rules):
            marked[at] = replace(line, is_boxed=True)
    return marked


def _has_neighbour(line: PageLine, lines: Sequence[PageLine]) -> bool:
    """Tell whether another line of the same type stands beside this one, at the same height."""
    assert line.box is not None
    _, bottom, _, top = line.box
    for other in lines:
        if other is line or other.box is None or abs(other.size - line.size) > _SAME_SIZE:
            continue
        shared = min(top, other.box[3]) - max(bottom, other.box[1])
        if shared > (top - bottom) / 2 and other.text.strip():
            return True
    return False


def _is_enclosed(line: PageLine, rules: Rules) -> bool:
    """Tell whether ruled lines lie close above, below, left and right of a line."""
    assert line.box is not None
    left, bottom, right, top = line.box
    reach = _BOX_REACH * line.size
    across = [y for y, begin, end in rules.across if begin <= left and end >= right]
    down = [x for x, begin, end in rules.down if begin <= bottom and end >= top]
    return (
        any(top - 1 <= y <= top + reach for y in across)
        and any(bottom - reach <= y <= bottom + 1 for y in across)
        and any(x <= left for x in down)
        and any(x >= right for x in down)
    )


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
