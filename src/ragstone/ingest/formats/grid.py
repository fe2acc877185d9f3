"""Turn rows of cells into one table under one header row, written as Markdown.

rows of cells, with the cells that cover several columns → caption, header, rows → text. Heads in
several rows are joined column by column ("Full year" above "2023" → "Full year 2023"), so that
every later step finds the names of a column in one place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
