"""Build a document as Markdown-like text and record where its structure stands in it.

A table is rows of cells, some of which cover several columns → caption, header, rows → text. Heads
in several rows are joined column by column ("Full year" above "2023" → "Full year 2023"), so that
every later step finds the names of a column in one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ragstone.blocks import Block, Heading, LoadedDocument

# A number as tables write it: 1,234.5  (45.0)  −3 %  € 12  07:36
_FIGURE = re.compile(r"[(\[−–+-]*\s*[$€£¥]?\s*\d[\d.,'’:/\s]*\s*[%‰]?\s*[$€£¥]?[)\]]*[*†]*")
# Years, quarters, dates: what stands above columns of figures.
_PERIOD = re.compile(
    r"(?:FY|CY|H[12]|Q[1-4])?[\s'’/]*(?:19|20)\d\d(?:\s*[/–-]\s*\d{2,4})?[AEF*]?"
    r"|(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](?:19|20)?\d\d",
    re.IGNORECASE,
)
_MAX_HEAD_ROWS = 4
# A cell that claims to cover more is damaged or hostile.
_MAX_SPAN = 200
Spans = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class HeadedTable:
    """Hold a table: the lines above it, one name per column, and its rows."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    captions: tuple[str, ...] = ()


def is_figure(cell: str) -> bool:
    """Tell whether a cell holds a number that is not a year or a date."""
    return _FIGURE.fullmatch(cell) is not None and not is_period(cell)


def is_period(cell: str) -> bool:
    return _PERIOD.fullmatch(cell) is not None


def build_table(
    rows: Sequence[Sequence[str]],
    spans: Sequence[Spans] | None = None,
    *,
    head_rows: int | None = None,
) -> HeadedTable:
    """Build a table of cells of one line; find out how many rows are heads unless it is known."""
    width = max((len(row) for row in rows), default=0)
    cells = [[*row, *[""] * (width - len(row))] for row in rows]
    spans = spans or [{}] * len(cells)
    pairs = [(row, span) for row, span in zip(cells, spans, strict=True) if any(row)]
    captions: list[str] = []
    while head_rows is None and width > 1 and len(pairs) > 2 and _is_caption(pairs, width):
        captions.append(next(filter(None, pairs.pop(0)[0])))
    cells, spans = [row for row, _ in pairs], [span for _, span in pairs]
    count = _count_head_rows(cells, spans) if head_rows is None else head_rows
    count = min(count, len(cells))
    heads = [_spread(row, span) for row, span in zip(cells[:count], spans[:count], strict=True)]
    header = [_join_column([head[column] for head in heads]) for column in range(width)]
    used = [c for c in range(width) if header[c] or any(row[c] for row in cells[count:])]
    return HeadedTable(
        tuple(header[c] for c in used) if count else (),
        tuple(tuple(row[c] for c in used) for row in cells[count:]),
        tuple(captions),
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold a cell and how many columns and rows it covers."""

    text: str
    columns: int = 1
    rows: int = 1


def spread_cells(rows: Sequence[Sequence[Cell]]) -> tuple[list[list[str]], list[dict[int, int]]]:
    """Return full rows: a cell over several rows stands in each, one over columns in the first."""
    cells: list[list[str]] = []
    spans: list[dict[int, int]] = []
    hanging: dict[int, tuple[int, Cell]] = {}
    for row in rows:
        line: list[str] = []
        covered: dict[int, int] = {}
        waiting = list(row)[::-1]
        while waiting or len(line) in hanging:
            column = len(line)
            if column in hanging:
                left, cell = hanging.pop(column)
            else:
                cell = waiting.pop()
                left = min(cell.rows, _MAX_SPAN)
            width = max(1, min(cell.columns, _MAX_SPAN))
            line += [cell.text, *[""] * (width - 1)]
            if width > 1:
                covered[column] = width
            if left > 1:
                hanging[column] = (left - 1, cell)
        cells.append(line)
        spans.append(covered)
    return cells, spans


def _is_caption(pairs: Sequence[tuple[list[str], Spans]], width: int) -> bool:
    """Tell whether the first row names the table: its only cell is the first, above fuller rows."""
    row, span = pairs[0]
    is_single = bool(row[0]) and not any(row[1:]) and span.get(0, width) >= width
    return is_single and not is_figure(row[0]) and any(sum(map(bool, r)) > 1 for r, _ in pairs[1:])


def _count_head_rows(cells: Sequence[Sequence[str]], spans: Sequence[Spans]) -> int:
    count = 1
    while count < min(_MAX_HEAD_ROWS, len(cells) - 1):
        before, row = cells[count - 1], cells[count]
        if any(map(is_figure, row)):
            break
        is_grouped = bool(spans[count - 1]) and sum(map(bool, row)) > sum(map(bool, before))
        above_figures = any(map(is_figure, cells[count + 1]))
        is_wrapped = above_figures and (
            not row[0] or (not before[0] and sum(map(bool, before)) < sum(map(bool, row[1:])))
        )
        is_above_periods = not before[0] and all(map(is_period, filter(None, row[1:])))
        if not (is_grouped or is_wrapped or (is_above_periods and any(row[1:]))):
            break
        count += 1
    return count


def _spread(row: Sequence[str], spans: Spans) -> list[str]:
    """Repeat a head for every column that it covers."""
    spread = list(row)
    for column, width in spans.items():
        for other in range(column + 1, min(column + width, len(spread))):
            spread[other] = spread[other] or row[column]
    return spread


def _join_column(heads: Sequence[str]) -> str:
    texts = [head for head in heads if head]
    return " ".join([*texts[:1], *(b for a, b in pairwise(texts) if a != b)])


def format_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def format_rule(width: int) -> str:
    return "|" + " --- |" * width


def format_table(table: HeadedTable) -> str:
    """Format a table as Markdown; a table without a header is only its rows."""
    lines = [format_row(row) for row in table.rows]
    if table.header:
        lines[:0] = [format_row(table.header), format_rule(len(table.header))]
    return "\n".join(lines)


# Control characters, lone surrogates and non-characters: no reader wants them and some
# databases refuse them.
_UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile(r"[ \t\u00a0]+")


def clean_text(text: str) -> str:
    """Turn all line ends into line feeds and drop characters that cannot be shown."""
    return _UNWANTED.sub("", _LINE_ENDS.sub("\n", text))


def join_lines(text: str) -> str:
    """Put a text on one line, with single spaces."""
    return " ".join(clean_text(text).split())


class Composer:
    """Take the parts of a document in reading order; `finish` returns the document."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._headings: list[Heading] = []
        self._blocks: list[Block] = []
        self._page_starts: list[int] = []
        self._pages_to_begin = 0
        self._in_list = False

    def _write(self, text: str, *, gap: str = "\n\n") -> int:
        """Append a part after a gap and return its start."""
        if self._length:
            self._parts.append(gap)
            self._length += len(gap)
        start = self._length
        self._begin_pages()
        self._parts.append(text)
        self._length += len(text)
        self._in_list = False
        return start

    def begin_page(self) -> None:
        """Begin a new page with the next part."""
        self._pages_to_begin += 1

    def _begin_pages(self) -> None:
        """Begin pages at the first part written on them; an empty one begins with the next."""
        self._page_starts.extend([self._length] * self._pages_to_begin)
        self._pages_to_begin = 0

    def add_heading(self, level: int, title: str) -> None:
        """Add a heading. Level 0 is the document's title, if it comes before all other headings."""
        title = join_lines(title)
        if title:
            level = min(6, max(level, 1 if self._headings else 0))
            start = self._write(f"{'#' * max(1, level)} {title}")
            self._headings.append(Heading(level, title, start))

    def add_paragraph(self, text: str) -> None:
        lines = (_SPACES.sub(" ", line).strip() for line in clean_text(text).split("\n"))
        text = "\n".join(line for line in lines if line)
        if text:
            self._write(text)

    def add_item(self, text: str, *, depth: int = 0, marker: str = "-") -> None:
        """Add an item of a list; consecutive items stand line by line."""
        text = join_lines(text)
        if text:
            gap = "\n" if self._in_list else "\n\n"
            self._write(f"{'  ' * depth}{marker} {text}", gap=gap)
            self._in_list = True

    def add_table(
        self,
        rows: Sequence[Sequence[str]],
        spans: Sequence[Spans] | None = None,
        *,
        head_rows: int | None = None,
        header: Sequence[str] = (),
    ) -> tuple[str, ...]:
        """Add a table and return the names of its columns.

        `header` names them where they stand above another part of the same table.
        """
        cells = [[join_lines(cell) for cell in row] for row in rows]
        table = build_table(cells, spans, head_rows=0 if header else head_rows)
        for caption in table.captions:
            self.add_paragraph(caption)
        above = format_row(header) if header else ""
        self._add_block("table", format_table(table), header=above)
        return table.header or tuple(header)

    def add_code(self, text: str) -> None:
        self._add_block("code", clean_text(text).strip("\n"))

    def _add_block(self, content_type: str, text: str, *, header: str = "") -> None:
        if text.strip():
            start = self._write(text)
            self._blocks.append(Block(content_type, start, start + len(text), header))

    def finish(self, media_type: str, metadata: Mapping[str, Any] | None = None) -> LoadedDocument:
        self._begin_pages()
        return LoadedDocument(
            "".join(self._parts),
            media_type,
            page_starts=tuple(self._page_starts),
            headings=tuple(self._headings),
            blocks=tuple(self._blocks),
            metadata={key: value for key, value in (metadata or {}).items() if value},
        )
