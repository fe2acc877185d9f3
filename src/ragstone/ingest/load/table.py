"""CSV and TSV: the rows as a Markdown table under its header."""

from __future__ import annotations

import csv
import sys
from typing import ClassVar

from ragstone.ingest.load.compose import Composer, clean
from ragstone.ingest.load.text import decode
from ragstone.reading import Loaded, LoadOptions


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
