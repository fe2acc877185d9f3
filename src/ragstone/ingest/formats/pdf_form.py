"""Read what lies on a PDF page beside its text: the values of forms, notes and comments.

The values that people typed and ticked are not part of a page's text. Each becomes a line at its
place, after its label: the text beside the field, or the field's own description.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from ragstone.ingest.formats.compose import clean_text
from ragstone.ingest.formats.pdf_table import Box, FoundTable, PageLine

# Typed values are in ordinary type; a heading they are never.
_TYPE_SIZE = 10.0
# A label lies within so many points of its field.
_LABEL_REACH = 260.0
_LABEL_ABOVE = 16.0
_MAX_LABEL_CHARS = 120
# A hostile page may hold millions.
_MAX_ANNOTATIONS = 5_000
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_TEXT_FIELDS = frozenset({pdfium.FPDF_FORMFIELD_TEXTFIELD})
_CHOICES = frozenset({pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX})
_TICKS = frozenset({pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON})
_SILENT = frozenset({pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP, pdfium.FPDF_ANNOT_WIDGET})


@dataclass(frozen=True, slots=True)
class _Field:
    """Hold a filled field of a form."""

    kind: int
    value: str
    name: str
    box: Box


def read_added_lines(
    document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage, textpage: Any
) -> list[PageLine]:
    """Return a line for every filled field, ticked box and note of a page."""
    form = document.formenv.raw if document.formenv is not None else None
    fields: list[_Field] = []
    boxes: list[Box] = []
    lines: list[PageLine] = []
    for annotation in _open_annotations(page):
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        box = _read_box(annotation)
        if box is None or pdfium.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
            continue
        if kind == pdfium.FPDF_ANNOT_WIDGET and form is not None:
            boxes.append(box)
            field = _read_field(form, annotation, box)
            if field is not None:
                fields.append(field)
        elif kind not in _SILENT and (note := _read_note(annotation, kind)):
            lines.append(PageLine(note, _TYPE_SIZE, box))
    for field in fields:
        shown = _read_area(textpage, field.box)
        if field.kind in _TEXT_FIELDS | _CHOICES and _squeeze(field.value) in _squeeze(shown):
            continue  # the file was flattened: its text has the value already
        label = _find_label(textpage, field, boxes)
        lines.append(PageLine(_format_field(field, label), _TYPE_SIZE, field.box))
    return lines


def insert_lines(
    lines: Sequence[PageLine], tables: Sequence[FoundTable], added: Sequence[PageLine]
) -> tuple[list[PageLine], list[FoundTable]]:
    """Put each added line behind the line of the page that is nearest to it."""
    if not added:
        return list(lines), list(tables)
    behind: dict[int, list[PageLine]] = {}
    for line in sorted(added, key=lambda line: (-_middle(line), line.box[0] if line.box else 0)):
        behind.setdefault(_find_nearest(lines, line), []).append(line)
    result: list[PageLine] = list(behind.get(-1, []))
    places: dict[int, int] = {}
    for at, line in enumerate(lines):
        places[at] = len(result)
        result.append(line)
        result += behind.get(at, [])
    moved = [replace(table, lines=frozenset(places[at] for at in table.lines)) for table in tables]
    return result, moved


def _find_nearest(lines: Sequence[PageLine], line: PageLine) -> int:
    """Return the position of the line of the page that lies nearest, above before below."""
    best, nearest = -1, float("inf")
    for at, other in enumerate(lines):
        if other.box is None or line.box is None or not other.text.strip():
            continue
        distance = abs(_middle(other) - _middle(line))
        if distance < nearest:
            best, nearest = at, distance
    return best


def _middle(line: PageLine) -> float:
    return (line.box[1] + line.box[3]) / 2 if line.box else 0.0


def _open_annotations(page: pypdfium2.PdfPage) -> Iterator[Any]:
    for at in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), _MAX_ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page.raw, at)
        if annotation:
            try:
                yield annotation
            finally:
                pdfium.FPDFPage_CloseAnnot(annotation)


def _read_box(annotation: Any) -> Box | None:
    rect = pdfium.FS_RECTF()
    if not pdfium.FPDFAnnot_GetRect(annotation, ctypes.byref(rect)):
        return None
    left, right = sorted((rect.left, rect.right))
    bottom, top = sorted((rect.bottom, rect.top))
    return left, bottom, right, top


def _read_string(read: Callable[[Any, int], int]) -> str:
    """Call a function of pdfium twice: for the length of its text, and for the text."""
    length = read(None, 0)
    if length <= 2:
        return ""
    buffer = (ctypes.c_ushort * (length // 2 + 1))()
    read(buffer, length)
    return clean_text(bytes(buffer)[: length - 2].decode("utf-16-le", "replace")).strip()


def _read_note(annotation: Any, kind: int) -> str:
    def read(key: bytes) -> str:
        return _read_string(
            lambda buffer, size: int(pdfium.FPDFAnnot_GetStringValue(annotation, key, buffer, size))
        )

    text = " ".join(read(b"Contents").split())
    if not text or kind == pdfium.FPDF_ANNOT_FREETEXT:
        return text
    author = read(b"T")
    return f"Note by {author}: {text}" if author else f"Note: {text}"


def _read_field(form: Any, annotation: Any, box: Box) -> _Field | None:
    kind = int(pdfium.FPDFAnnot_GetFormFieldType(form, annotation))

    def read(function: Any) -> str:
        return _read_string(lambda buffer, size: int(function(form, annotation, buffer, size)))

    if kind in _TEXT_FIELDS:
        value = " ".join(read(pdfium.FPDFAnnot_GetFormFieldValue).split())
    elif kind in _CHOICES:
        value = ", ".join(_read_choices(form, annotation)) or read(
            pdfium.FPDFAnnot_GetFormFieldValue
        )
    elif kind in _TICKS and pdfium.FPDFAnnot_IsChecked(form, annotation):
        value = read(pdfium.FPDFAnnot_GetFormFieldExportValue) or "Yes"
    else:
        return None
    name = (
        read(pdfium.FPDFAnnot_GetFormFieldAlternateName)
        or read(pdfium.FPDFAnnot_GetFormFieldName).rpartition(".")[2]
    )
    return _Field(kind, value, name, box) if value else None


def _read_choices(form: Any, annotation: Any) -> Iterator[str]:
    count = pdfium.FPDFAnnot_GetOptionCount(form, annotation)
    for at in range(min(count, _MAX_ANNOTATIONS)):
        if pdfium.FPDFAnnot_IsOptionSelected(form, annotation, at):
            read = partial(pdfium.FPDFAnnot_GetOptionLabel, form, annotation, at)
            yield _read_string(read)


def _read_area(textpage: Any, box: Box) -> str:
    left, bottom, right, top = box
    if right <= left or top <= bottom:
        return ""
    text: str = textpage.get_text_bounded(left, bottom, right, top)
    return text


def _find_label(textpage: Any, field: _Field, boxes: Sequence[Box]) -> str:
    """Return the text beside a field: left of it, right of a box to tick, or above it."""
    left, bottom, right, top = field.box
    row = [box for box in boxes if box[1] < top and box[3] > bottom and box != field.box]
    before = max((box[2] for box in row if box[2] <= left + 1), default=left - _LABEL_REACH)
    after = min((box[0] for box in row if box[0] >= right - 1), default=right + _LABEL_REACH)
    areas = [
        (max(before, left - _LABEL_REACH), bottom, left, top),
        (left, top, right, top + _LABEL_ABOVE),
    ]
    if field.kind in _TICKS:
        areas.insert(0, (right, bottom, min(after, right + _LABEL_REACH), top))
    for area in areas:
        words = " ".join(clean_text(_read_area(textpage, area)).split())
        if any(letter.isalpha() for letter in words):
            return words[-_MAX_LABEL_CHARS:].rstrip(" :.…_")
    return field.name


def _format_field(field: _Field, label: str) -> str:
    if field.kind in _TICKS:
        has_own_value = field.value.casefold() not in {"yes", "on", "1", "true", label.casefold()}
        return f"[x] {label}" + (f": {field.value}" if has_own_value else "")
    return f"{label}: {field.value}" if label else field.value


def _squeeze(text: str) -> str:
    return "".join(text.split()).casefold()
