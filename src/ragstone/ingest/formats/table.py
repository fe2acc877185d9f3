"""Load CSV files and spreadsheets: rows as Markdown tables."""

from __future__ import annotations

import csv
import io
import sys
from datetime import date, datetime, time
from typing import Any, ClassVar

from ragstone.blocks import LoadedDocument, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.archive import Package, make_too_large_error
from ragstone.ingest.formats.compose import Composer, clean_text, join_lines
from ragstone.ingest.formats.office import read_office_metadata
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
        composer.add_table(rows)
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
        _write_sheets(content, composer)
        if package is None:
            return composer.finish(self.media_type)
        _write_drawings(package, composer)
        return composer.finish(self.media_type, read_office_metadata(package))


def _write_sheets(content: bytes, composer: Composer) -> None:
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
            rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=True)
        except (python_calamine.CalamineError, OSError, ValueError):
            continue  # a chart sheet or a damaged one: the other sheets are read
        if any(cell != "" for row in rows for cell in row):
            composer.add_heading(1, name)
            composer.add_table([[_format_cell(cell) for cell in row] for row in rows])


def _write_drawings(package: Package, composer: Composer) -> None:
    """Write comments and text boxes, which are not in the cells."""
    for name in sorted(package.names):
        if name.startswith(("xl/comments", "xl/drawings/drawing", "xl/charts/chart")):
            elements = package.read_xml(name).iter()
            texts = [join_lines(e.text or "") for e in elements if get_tag(e) == "t"]
            if any(texts):
                composer.add_heading(1, "Comments" if "comments" in name else "Drawings")
                composer.add_paragraph(" ".join(filter(None, texts)))


def _format_cell(value: Any) -> str:
    """Format a cell for a reader: whole numbers without a point, dates as ISO."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        at_midnight = value.time() == time(0)
        return value.date().isoformat() if at_midnight else value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date | time) else str(value)
