"""Load CSV files and spreadsheets: rows as Markdown tables.

calamine returns 0.125 for a cell that shows "12.5%", and 38.2 for "38.20". People ask for what they
see, so the number formats are read from the XML. It also reserves every cell up to the last one:
a single stray cell in row 1,048,576 would need gigabytes, so such empty stretches are closed first.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from itertools import groupby
from typing import Any, ClassVar

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import Package, make_too_large_error
from ragstone.ingest.formats.compose import Composer, clean_text, is_figure, join_lines
from ragstone.ingest.formats.office import read_office_metadata
from ragstone.ingest.formats.text import decode
from ragstone.ingest.formats.xml import get_attribute, get_tag


class TableLoader:
    """Load `.csv` and `.tsv`; the delimiter is detected."""

    media_type: ClassVar[str] = "text/csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        text = clean_text(decode(content))
        csv.field_size_limit(min(sys.maxsize, options.max_unpacked_bytes))
        rows = list(csv.reader(text.split("\n"), _detect_dialect(text)))
        composer = Composer()
        composer.add_table(rows, head_rows=1)
        header = [cell for cell in rows[0] if cell] if rows else []
        return composer.finish(self.media_type, {"columns": header, "rows": len(rows) - 1})


def _detect_dialect(text: str) -> type[csv.Dialect] | csv.Dialect:
    try:
        return csv.Sniffer().sniff(text[:8192], delimiters=",;\t|:")
    except csv.Error:
        return csv.excel_tab if text[:8192].count("\t") > text[:8192].count(",") else csv.excel


class SheetLoader:
    """Load spreadsheets with calamine, which returns the values last computed."""

    media_type: ClassVar[str] = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    suffixes: ClassVar[tuple[str, ...]] = (".xlsx", ".xlsm", ".xltx", ".xlsb", ".xls", ".ods")

    def load(self, content: bytes, options: LoadOptions) -> LoadedDocument:
        package = Package(content, options) if content.startswith(b"PK") else None
        # calamine unpacks without a limit, so the stated size is checked before.
        if package is not None and package.stated_bytes > options.max_unpacked_bytes:
            raise make_too_large_error()
        composer = Composer()
        if package is None:
            _write_sheets(content, composer, {})
            return composer.finish(self.media_type)
        repaired = close_empty_stretches(package)
        if repaired is not None:
            package = Package(content := repaired, options)
        _write_sheets(content, composer, read_cell_formats(package))
        _write_drawings(package, composer)
        return composer.finish(self.media_type, read_office_metadata(package))


def _write_sheets(content: bytes, composer: Composer, formats: Mapping[str, CellFormats]) -> None:
    import python_calamine

    try:
        workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
    except python_calamine.PasswordError as error:
        raise IngestError(
            "The spreadsheet is encrypted and needs a password.",
            hint="Save it without a password.",
        ) from error
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise IngestError(
            f"The spreadsheet cannot be opened: {error}.", hint="Save it again."
        ) from error
    for name in workbook.sheet_names:
        try:
            sheet = workbook.get_sheet_by_name(name)
            rows = sheet.to_python(skip_empty_area=True)
        except (python_calamine.CalamineError, OSError, ValueError):
            continue  # a chart sheet or a damaged one: the other sheets are read
        top, left = sheet.start or (0, 0)
        codes = formats.get(name, {})
        cells = [
            [_format_cell(cell, codes.get((top + y, left + x), "")) for x, cell in enumerate(row)]
            for y, row in enumerate(rows)
        ]
        if any(map(any, cells)):
            composer.add_heading(1, name)
            spans = _find_spans(sheet.merged_cell_ranges or (), top, left, len(cells))
            _write_regions(cells, spans, composer)


def _find_spans(
    merged: Iterable[tuple[tuple[int, int], tuple[int, int]]], top: int, left: int, height: int
) -> list[dict[int, int]]:
    """Return for each row the cells that cover several columns."""
    spans: list[dict[int, int]] = [{} for _ in range(height)]
    for (first_row, first), (_, last) in merged:
        if 0 <= first_row - top < height and last > first >= left:
            spans[first_row - top][first - left] = last - first + 1
    return spans


def _write_regions(cells: list[list[str]], spans: list[dict[int, int]], composer: Composer) -> None:
    """Write a sheet: empty rows part its tables, lines of one cell around a table are its notes."""
    header: tuple[str, ...] = ()
    is_list = max(sum(map(bool, row)) for row in cells) < 2
    for filled, group in groupby(range(len(cells)), key=lambda at: any(cells[at])):
        rows = list(group)
        if not filled:
            continue
        first, last = (0, len(rows)) if is_list else _find_table(cells, rows)
        for at in rows[:first]:
            composer.add_paragraph(next(filter(None, cells[at])))
        table = rows[first:last]
        if table:
            is_rest = bool(header) and any(map(is_figure, cells[table[0]]))
            header = composer.add_table(
                [cells[at] for at in table],
                [spans[at] for at in table],
                header=header if is_rest else (),
            )
        for at in rows[last:]:
            composer.add_paragraph(next(filter(None, cells[at])))


def _find_table(cells: list[list[str]], rows: list[int]) -> tuple[int, int]:
    """Return which of the rows are a table: from the first to the last with two cells or more."""
    full = [at for at, row in enumerate(rows) if sum(map(bool, cells[row])) >= 2]
    return (full[0], full[-1] + 1) if full else (len(rows), len(rows))


def _write_drawings(package: Package, composer: Composer) -> None:
    """Write comments and text boxes, which are not in the cells."""
    for name in sorted(package.names):
        if name.startswith(("xl/comments", "xl/drawings/drawing", "xl/charts/chart")):
            elements = package.read_xml(name).iter()
            texts = [join_lines(e.text or "") for e in elements if get_tag(e) == "t"]
            if any(texts):
                composer.add_heading(1, "Comments" if "comments" in name else "Drawings")
                composer.add_paragraph(" ".join(filter(None, texts)))


def _format_cell(value: Any, code: str) -> str:
    """Format a cell for a reader: numbers as they are shown, dates as ISO, on one line."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        if code and (shown := format_number(value, code)) is not None:
            return shown
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        at_midnight = value.time() == time(0)
        return value.date().isoformat() if at_midnight else value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date | time) else join_lines(str(value))


_BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%",
    37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)",
}  # fmt: skip
_WORKBOOK = "xl/workbook.xml"
_STYLES = "xl/styles.xml"
_CELL = re.compile(rb"<c\b([^>]*)>")
_PLACE = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
_STYLE = re.compile(rb'\bs="(\d{1,6})"')
_ROW = re.compile(rb'<row\b[^>]*?\br="(\d{1,7})"')
_NUMBERED = re.compile(rb'(<(?:row|c)\b[^>]*?\br=")([A-Z]{0,3})(\d{1,7})"')
_DIMENSION = re.compile(rb"<dimension\b[^>]*/>")
# Widths of characters, fillings, colours and conditions, which print nothing of their own.
_UNSEEN = re.compile(r"_.|\*.|\[[^\]]*\]")
_LITERAL = re.compile(r'"([^"]*)"|\\(.)')
_DIGITS = re.compile(r"[#0?,]*[0?#](?:\.([0#?]+))?")
_OTHER_KINDS = re.compile(r"[ymdhsEe@/]|General", re.IGNORECASE)
# calamine takes about 30 bytes for each cell of the area up to the last one, empty or not. A larger
# area with this many places for each cell that is filled has its empty stretches closed.
_MAX_AREA = 1_000_000
_MAX_EMPTY_SHARE = 20

CellFormats = Mapping[tuple[int, int], str]
"""The number format of cells by row and column, from 0."""


def read_cell_formats(package: Package) -> dict[str, CellFormats]:
    """Return for each sheet, by name, the formats of its cells that change how numbers look."""
    codes = _read_codes(package)
    if not codes:
        return {}
    return {
        name: _find_formats(package.read(part), codes)
        for name, part in _list_sheets(package).items()
    }


def _list_sheets(package: Package) -> dict[str, str]:
    if _WORKBOOK not in package.names:
        return {}
    relations = package.read_relations(_WORKBOOK)
    sheets: dict[str, str] = {}
    for element in package.read_xml(_WORKBOOK).iter():
        if get_tag(element) == "sheet":
            targets = [relations.get(value, "") for value in element.attrib.values()]
            part = next((target for target in targets if target in package.names), "")
            if part:
                sheets[element.get("name") or ""] = part
    return sheets


def _read_codes(package: Package) -> dict[int, str]:
    """Map the styles of cells to the codes of their number formats."""
    if _STYLES not in package.names:
        return {}
    own: dict[int, str] = {}
    codes: dict[int, str] = {}
    for element in package.read_xml(_STYLES):
        if get_tag(element) == "numFmts":
            for one in element:
                number = get_attribute(one, "numFmtId") or ""
                if number.isdecimal():
                    own[int(number)] = get_attribute(one, "formatCode") or ""
        elif get_tag(element) == "cellXfs":
            for at, one in enumerate(element):
                number = get_attribute(one, "numFmtId") or "0"
                code = own.get(int(number)) or _BUILT_IN.get(int(number), "")
                if format_number(1.0, code) is not None:
                    codes[at] = code
    return codes


def _find_formats(content: bytes, codes: Mapping[int, str]) -> CellFormats:
    found: dict[tuple[int, int], str] = {}
    for match in _CELL.finditer(content):
        style = _STYLE.search(match[1])
        place = _PLACE.search(match[1])
        if style is not None and place is not None and (code := codes.get(int(style[1]))):
            found[int(place[2]) - 1, _number_column(place[1]) - 1] = code
    return found


def format_number(value: float, code: str) -> str | None:
    """Format a number as its cell shows it; None for a format that is not a plain number's."""
    sections = code.split(";")
    is_negative = value < 0 and len(sections) > 1
    section = _UNSEEN.sub("", sections[1] if is_negative else sections[0])
    literals = [match[1] or match[2] or "" for match in _LITERAL.finditer(section)]
    plain = _LITERAL.sub("\x00", section)
    digits = _DIGITS.search(plain)
    if digits is None or _OTHER_KINDS.search(plain) or digits[0].endswith(","):
        return None
    decimals = digits[1] or ""
    if plain[digits.end() :].startswith(","):
        return None  # shown in thousands or millions
    number = abs(value) if is_negative else value
    number = number * 100 if "%" in plain else number
    text = f"{number:{',' if ',' in digits[0] else ''}.{len(decimals)}f}"
    for _ in range(len(decimals) - len(decimals.rstrip("#"))):
        text = text.removesuffix("0")
    whole = plain[: digits.start()] + text.rstrip(".") + plain[digits.end() :]
    for literal in literals:
        whole = whole.replace("\x00", literal, 1)
    return whole.strip()


def close_empty_stretches(package: Package) -> bytes | None:
    """Return the workbook with far cells moved nearer; None where none is far from the others."""
    changed: dict[str, bytes] = {}
    for part in _list_sheets(package).values():
        content = package.read(part)
        places = _PLACE.findall(content)
        rows = sorted({int(row) for _, row in places} | set(map(int, _ROW.findall(content))))
        columns = sorted({_number_column(letters) for letters, _ in places})
        area = rows[-1] * columns[-1] if rows and columns else 0
        if area > max(_MAX_AREA, _MAX_EMPTY_SHARE * len(places)):
            near_rows = _close_gaps(rows, len(columns))
            near_columns = _close_gaps(columns, len(rows))
            changed[part] = _move_cells(content, near_rows, near_columns)
    return package.copy_with(changed) if changed else None


def _close_gaps(numbers: list[int], across: int) -> dict[int, int]:
    """Number rows or columns anew: a long stretch of empty ones becomes a single empty one."""
    longest = max(1, _MAX_AREA // (across * len(numbers)))
    places: dict[int, int] = {}
    last = moved = 0
    for number in numbers:
        gap = number - last
        moved += gap if gap <= longest else 2
        places[number], last = moved, number
    return places


def _move_cells(content: bytes, rows: dict[int, int], columns: dict[int, int]) -> bytes:
    def move(match: re.Match[bytes]) -> bytes:
        row = int(match[3])
        letters = match[2]
        if letters:
            letters = _name_column(columns[_number_column(letters)])
        return match[1] + letters + str(rows.get(row, row)).encode() + b'"'

    return _NUMBERED.sub(move, _DIMENSION.sub(b"", content))


def _number_column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _name_column(number: int) -> bytes:
    name = b""
    while number:
        number, rest = divmod(number - 1, 26)
        name = bytes([65 + rest]) + name
    return name
