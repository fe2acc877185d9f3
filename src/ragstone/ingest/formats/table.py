"""CSV and TSV: the rows as a Markdown table under its header."""

from __future__ import annotations

import csv
import io
import sys
from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar

from ragstone.blocks import Loaded, LoadOptions
from ragstone.errors import IngestError
from ragstone.ingest.formats.compose import Composer, clean
from ragstone.ingest.formats.text import decode
from ragstone.ingest.formats.xml import Package, office_facts, too_large


class TableLoader:
    """`.csv` and `.tsv`; the delimiter is found, not assumed."""

    media_type: ClassVar[str] = "text/csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        text = clean(decode(content))
        csv.field_size_limit(min(sys.maxsize, options.max_unpacked_bytes))
        rows = list(csv.reader(text.split("\n"), _dialect(text)))
        composer = Composer()
        composer.table(rows)
        header = [cell for cell in rows[0] if cell] if rows else []
        return composer.loaded(self.media_type, {"columns": header, "rows": len(rows) - 1})


def _dialect(text: str) -> type[csv.Dialect] | csv.Dialect:
    try:
        return csv.Sniffer().sniff(text[:8192], delimiters=",;\t|:")
    except csv.Error:
        return csv.excel_tab if text[:8192].count("\t") > text[:8192].count(",") else csv.excel


_ZIP_MAGIC = b"PK"


class SheetLoader:
    """Read with calamine, which gives the values that the program last computed."""

    media_type: ClassVar[str] = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    suffixes: ClassVar[tuple[str, ...]] = (".xlsx", ".xlsm", ".xltx", ".xlsb", ".xls", ".ods")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        import python_calamine

        facts = _facts(content, options)
        try:
            workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        except python_calamine.PasswordError as error:
            raise IngestError(
                "The spreadsheet is encrypted and needs a password.",
                hint="Save it without one.",
            ) from error
        except (python_calamine.CalamineError, OSError, ValueError) as error:
            raise IngestError(
                f"The spreadsheet cannot be opened: {error}.", hint="Save it anew."
            ) from error
        composer = Composer()
        for name in workbook.sheet_names:
            try:
                rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=True)
            except (python_calamine.CalamineError, OSError, ValueError):
                continue  # a chart sheet or a damaged one: the other sheets go on
            if any(cell != "" for row in rows for cell in row):
                composer.heading(1, name)
                composer.table([[_shown(cell) for cell in row] for row in rows])
        _extras(content, options, composer)
        return composer.loaded(self.media_type, facts)


def _facts(content: bytes, options: LoadOptions) -> dict[str, Any]:
    """Metadata of a packaged sheet; calamine unpacks by itself, so sizes are checked before."""
    if not content.startswith(_ZIP_MAGIC):
        return {}
    package = Package(content, options)
    if package.stated_size > options.max_unpacked_bytes:
        raise too_large()
    return office_facts(package)


def _extras(content: bytes, options: LoadOptions, composer: Composer) -> None:
    """Comments and text boxes, which are not in the cells."""
    if not content.startswith(_ZIP_MAGIC):
        return
    package = Package(content, options)
    for name in sorted(package.names):
        if name.startswith(("xl/comments", "xl/drawings/drawing", "xl/charts/chart")):
            words = package.words(name, {"t"})
            if words:
                title = "Comments" if "comments" in name else "Drawings"
                composer.heading(1, title)
                composer.paragraph(" ".join(words))


def _shown(value: Any) -> str:
    """A cell as a person reads it: whole numbers without a point, dates as ISO."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        at_midnight = value.time() == time(0)
        return value.date().isoformat() if at_midnight else value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return str(value)
