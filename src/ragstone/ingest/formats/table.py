"""Load CSV files and spreadsheets: rows as Markdown tables."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from itertools import groupby
from typing import Any, ClassVar

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import Package, make_too_large_error
from ragstone.ingest.formats.compose import Composer, clean_text, join_lines
from ragstone.ingest.formats.grid import is_figure
from ragstone.ingest.formats.office import read_office_metadata
from ragstone.ingest.formats.sheet_format import (
    CellFormats,
    close_empty_stretches,
    format_number,
    read_cell_formats,
)
from ragstone.ingest.formats.text import decode
from ragstone.ingest.formats.xml import get_tag


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
