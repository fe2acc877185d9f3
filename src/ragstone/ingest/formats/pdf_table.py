"""Find the tables of a PDF page: words and ruled lines with their places → rows of cells.

A PDF holds no tables, only words and lines at places. Two kinds are found: a grid of ruled lines,
whose cells may hold several lines of text; and rows of words that leave the same columns free,
with or without lines. Prose in two columns, lists and forms are not taken for tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ragstone.ingest.formats.compose import HeadedTable, build_table, is_figure

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points from the lower left corner."""

# A gap of this share of the type size parts two cells; the spaces of justified prose are narrower.
CELL_GAP = 0.9
# Rows further apart than this many type sizes do not belong to one table.
_ROW_PITCH = 3.5
# Lines of one table differ in type size by no more than this share.
_SIZE_SPREAD = 0.3
# Longer cells in a table of few columns are prose in columns.
_PROSE_CHARS = 35
# A grid with a longer cell only lays out the page.
_LAYOUT_CHARS = 600
# A cell with more figures is several cells.
_MAX_FIGURES = 4
# Cells of a column begin, end or have their middle this close to each other, in points.
_ALIGNED = 3.0
# Lines that end this close to each other, in points, meet.
_TOUCH = 3.0
_LIST_MARK = re.compile(r"(?:[-•*–▪◦·]|\(?[\da-zA-Z]{1,3}[.)]|\[\d+\]|\d+(?:\.\d+)+)$")


@dataclass(frozen=True, slots=True)
class Word:
    """Hold a word and its box."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class PageLine:
    """Hold one line of a page: its text, its type size, its box, and its words if they matter."""

    text: str
    size: float
    box: Box | None
    words: tuple[Word, ...] = ()
    is_boxed: bool = False
    """Ruled lines enclose it, or other text stands beside it."""

    @property
    def right(self) -> float:
        return self.box[2] if self.box else 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Hold the ruled lines of a page: (y, left, right) and (x, bottom, top)."""

    across: tuple[tuple[float, float, float], ...] = ()
    down: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TableRow:
    """Hold the cells of one row and its box."""

    cells: list[str]
    box: Box
    spans: dict[int, int] = field(default_factory=dict)
    """The number of columns of a cell that covers more than one."""

    @property
    def filled(self) -> int:
        return sum(map(bool, self.cells))


@dataclass(frozen=True, slots=True)
class FoundTable:
    """Hold the rows of a table, its columns' edges, and the lines it was made of."""

    rows: tuple[TableRow, ...]
    edges: tuple[float, ...]
    lines: frozenset[int]
    """The positions of its lines among the lines of the page."""

    def build(self, *, head_rows: int | None = None) -> HeadedTable:
        cells = [row.cells for row in self.rows]
        return build_table(cells, [row.spans for row in self.rows], head_rows=head_rows)

    def locate_rows(self, at: int, count: int = 1) -> Box:
        """Return the box of `count` rows."""
        return _join_boxes([row.box for row in self.rows[at : at + count]])

    def can_continue(self, before: FoundTable) -> bool:
        """Tell whether this is the rest of a table on the page before: same columns, no heads."""
        same = len(self.edges) == len(before.edges) and all(
            abs(a - b) <= 4 * _TOUCH for a, b in zip(self.edges, before.edges, strict=True)
        )
        return same and any(map(is_figure, self.rows[0].cells))


def find_tables(lines: Sequence[PageLine], rules: Rules) -> list[FoundTable]:
    """Return the tables of a page in the order of their first lines."""
    found = list(_find_grids(lines, rules))
    taken = frozenset[int]().union(*(one.lines for one in found))
    found += _find_aligned(lines, taken)
    return sorted(found, key=lambda one: min(one.lines))


def split_cells(words: Sequence[Word], size: float) -> list[list[Word]]:
    """Part the words of a line where the gap is wider than between words."""
    cells: list[list[Word]] = []
    for word in words:
        if cells and word.box[0] - cells[-1][-1].box[2] < CELL_GAP * size:
            cells[-1].append(word)
        else:
            cells.append([word])
    return cells


def _join_boxes(boxes: Sequence[Box]) -> Box:
    lefts, bottoms, rights, tops = zip(*boxes, strict=True)
    return min(lefts), min(bottoms), max(rights), max(tops)


def _join_words(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)


# --- grids of ruled lines ---


def _find_grids(lines: Sequence[PageLine], rules: Rules) -> Iterator[FoundTable]:
    for across, down in _group_rules(rules):
        ys = _merge_places([y for y, _, _ in across])[::-1]
        xs = _merge_places([x for x, _, _ in down])
        if len(ys) < 3 or len(xs) < 3:
            continue
        inside = {
            at: line
            for at, line in enumerate(lines)
            if line.words and _is_inside(line.words, xs[0], xs[-1], ys[-1], ys[0])
        }
        rows = _fill_grid(inside, xs, ys, Rules(across, down))
        has_rows = sum(row.filled >= 2 for row in rows) >= 2
        cells = [cell for row in rows for cell in row.cells]
        if has_rows and not any(len(cell) > _LAYOUT_CHARS or _is_mixed(cell) for cell in cells):
            yield FoundTable(tuple(rows), tuple(xs), frozenset(inside))


def _is_mixed(cell: str) -> bool:
    """Tell whether a cell holds a column of figures: the rows inside have no lines."""
    return sum(map(is_figure, cell.split())) > _MAX_FIGURES


def _group_rules(
    rules: Rules,
) -> Iterator[
    tuple[tuple[tuple[float, float, float], ...], tuple[tuple[float, float, float], ...]]
]:
    """Group the lines that cross or touch each other, directly or by others."""
    across, down = list(rules.across), list(rules.down)
    while down:
        inside_down, inside_across = [down.pop()], list[tuple[float, float, float]]()
        grown = True
        while grown:
            met = [h for h in across if any(_do_cross(h, v) for v in inside_down)]
            across = [h for h in across if h not in met]
            inside_across += met
            joined = [v for v in down if any(_do_cross(h, v) for h in met)]
            down = [v for v in down if v not in joined]
            inside_down += joined
            grown = bool(met or joined)
        yield tuple(inside_across), tuple(inside_down)


def _do_cross(across: tuple[float, float, float], down: tuple[float, float, float]) -> bool:
    y, left, right = across
    x, bottom, top = down
    return left - _TOUCH <= x <= right + _TOUCH and bottom - _TOUCH <= y <= top + _TOUCH


def _merge_places(places: Sequence[float]) -> list[float]:
    """Sort places, and take those that nearly agree as one."""
    merged: list[float] = []
    for place in sorted(places):
        if not merged or place - merged[-1] > _TOUCH:
            merged.append(place)
    return merged


def _is_inside(words: Sequence[Word], left: float, right: float, bottom: float, top: float) -> bool:
    box = _join_boxes([word.box for word in words])
    middle = (box[1] + box[3]) / 2
    return box[0] >= left - _TOUCH and box[2] <= right + _TOUCH and bottom <= middle <= top


def _fill_grid(
    lines: dict[int, PageLine], xs: list[float], ys: list[float], rules: Rules
) -> list[TableRow]:
    """Put every word into its cell. A cell without a line at its side covers the next one too."""
    width = len(xs) - 1
    words: dict[tuple[int, int], list[Word]] = {}
    owners = _find_owners(xs, ys, rules)
    for line in lines.values():
        for word in line.words:
            middle = ((word.box[0] + word.box[2]) / 2, (word.box[1] + word.box[3]) / 2)
            row = max(0, min(len(ys) - 2, sum(y > middle[1] for y in ys) - 1))
            column = max(0, min(width - 1, sum(x <= middle[0] for x in xs) - 1))
            words.setdefault(owners[row, column], []).append(word)
    rows: list[TableRow] = []
    for row in range(len(ys) - 1):
        cells, spans = [""] * width, {}
        for column in range(width):
            top, left = owners[row, column]
            if left != column:
                continue
            cells[column] = _join_words(words.get((top, left), ()))
            covered = sum(owners[row, c] == (top, left) for c in range(width))
            if covered > 1:
                spans[column] = covered
        if any(cells):
            rows.append(TableRow(cells, (xs[0], ys[row + 1], xs[-1], ys[row]), spans))
    return rows


def _find_owners(
    xs: list[float], ys: list[float], rules: Rules
) -> dict[tuple[int, int], tuple[int, int]]:
    """Map every field of a grid to the first field of the cell it belongs to."""
    owners: dict[tuple[int, int], tuple[int, int]] = {}
    for row, (top, bottom) in enumerate(pairwise(ys)):
        for column, (left, right) in enumerate(pairwise(xs)):
            x, y = (left + right) / 2, (top + bottom) / 2
            has_left = any(abs(v[0] - left) <= _TOUCH and v[1] <= y <= v[2] for v in rules.down)
            has_top = any(abs(h[0] - top) <= _TOUCH and h[1] <= x <= h[2] for h in rules.across)
            if column and not has_left:
                owners[row, column] = owners[row, column - 1]
            elif row and not has_top and owners[row - 1, column][1] == column:
                owners[row, column] = owners[row - 1, column]
            else:
                owners[row, column] = (row, column)
    return owners


# --- rows of words in columns ---


def _find_aligned(lines: Sequence[PageLine], taken: frozenset[int]) -> Iterator[FoundTable]:
    for run in _find_runs(lines, taken):
        parted = {at: split_cells(lines[at].words, lines[at].size) for at in run}
        edges = _find_edges([cells for cells in parted.values() if len(cells) >= 2])
        if len(edges) < 3:
            continue
        whole = [*_find_heads_above(lines, run[0], edges, taken), *run]
        rows = [_place_cells(lines[at], edges) for at in whole]
        if _is_table(rows) and _has_aligned_columns(list(parted.values()), edges):
            yield FoundTable(tuple(_join_wrapped(rows)), tuple(edges), frozenset(whole))


def _find_runs(lines: Sequence[PageLine], taken: frozenset[int]) -> Iterator[list[int]]:
    """Yield runs of lines below each other, most of them parted into cells."""
    run: list[int] = []
    parted: list[int] = []

    def finish() -> list[int]:
        """Drop the lines after the last parted one: they are prose below the table."""
        return [at for at in run if at <= parted[-1]] if _is_long_enough(lines, parted) else []

    for at, line in enumerate(lines):
        if not line.words or at in taken:
            if not line.text.strip():
                continue
            fits = False
        else:
            fits = bool(run) and _do_follow(lines[run[-1]], line)
        is_parted = bool(line.words) and at not in taken
        is_parted = is_parted and len(split_cells(line.words, line.size)) >= 2
        # Two single lines in a row are prose between two tables.
        if run and (not fits or (not is_parted and run[-1] != parted[-1])):
            yield from filter(None, [finish()])
            run, parted = [], []
        if is_parted:
            run.append(at)
            parted.append(at)
        elif run and fits:
            run.append(at)
    if run:
        yield from filter(None, [finish()])


def _is_long_enough(lines: Sequence[PageLine], parted: Sequence[int]) -> bool:
    """Tell whether there are three rows, or two of three cells."""
    counts = [len(split_cells(lines[at].words, lines[at].size)) for at in parted]
    return len(parted) >= 3 or (len(parted) == 2 and min(counts) >= 3)


def _do_follow(above: PageLine, below: PageLine) -> bool:
    """Tell whether a line can be the next row: near, below, and of about the same type."""
    if above.box is None or below.box is None:
        return False
    fall = (above.box[1] + above.box[3] - below.box[1] - below.box[3]) / 2
    larger = max(above.size, below.size)
    is_alike = abs(above.size - below.size) <= _SIZE_SPREAD * larger
    return is_alike and 0.3 * larger < fall <= _ROW_PITCH * larger


def _find_edges(rows: Sequence[list[list[Word]]]) -> list[float]:
    """Return the places between columns: those that (almost) no cell covers, and both ends."""
    usual = Counter(len(cells) for cells in rows).most_common(1)[0][0]
    # A head over several columns covers the gap between them.
    rows = [cells for cells in rows if len(cells) >= max(2, 0.6 * usual)]
    spans = [(cell[0].box[0], cell[-1].box[2]) for cells in rows for cell in cells]
    allowed = len(rows) // 9
    marks = sorted([(left, 1) for left, _ in spans] + [(right, -1) for _, right in spans])
    edges: list[float] = []
    depth, begin = 0, None
    for place, step in marks:
        if begin is not None and depth <= allowed and place - begin > 1.0:
            edges.append((begin + place) / 2)
        depth += step
        begin = place if depth <= allowed else None
    left, right = min(left for left, _ in spans), max(right for _, right in spans)
    return [left - 1, *_join_close(edges, spans), right + 1]


def _join_close(edges: Sequence[float], spans: Sequence[tuple[float, float]]) -> list[float]:
    """Drop an edge if no cell begins between it and the one before."""
    kept: list[float] = []
    for edge in edges:
        before = kept[-1] if kept else float("-inf")
        if any(before < (left + right) / 2 < edge for left, right in spans):
            kept.append(edge)
    last = kept[-1] if kept else 0.0
    has_last = any((left + right) / 2 > last for left, right in spans)
    return kept if has_last else kept[:-1]


def _find_heads_above(
    lines: Sequence[PageLine], first: int, edges: Sequence[float], taken: frozenset[int]
) -> list[int]:
    """Find up to two lines above that stand over the columns, not over the row heads."""
    heads: list[int] = []
    while first > 0 and len(heads) < 2:
        line = lines[first - 1]
        if first - 1 in taken or not line.words or not _do_follow(line, lines[first]):
            break
        if line.words[0].box[0] < edges[1] or line.words[-1].box[2] > edges[-1] + line.size:
            break
        first -= 1
        heads.insert(0, first)
    return heads


def _place_cells(line: PageLine, edges: Sequence[float]) -> TableRow:
    """Put the words of a line into columns; words over several columns stay one cell."""
    cells, spans = [""] * (len(edges) - 1), dict[int, int]()
    for words in split_cells(line.words, line.size):
        left, right = words[0].box[0], words[-1].box[2]
        covered = [
            column
            for column, (begin, end) in enumerate(pairwise(edges))
            if min(right, end) - max(left, begin) > 0.3 * min(right - left, end - begin)
        ]
        column = covered[0] if covered else sum(edge < left for edge in edges[1:-1])
        cells[column] = f"{cells[column]} {_join_words(words)}".strip()
        if len(covered) > 1:
            spans[column] = len(covered)
    return TableRow(cells, line.box or _join_boxes([word.box for word in line.words]), spans)


def _is_table(rows: Sequence[TableRow]) -> bool:
    """Refuse lists, and prose that is set in columns."""
    full = [row for row in rows if row.filled >= 2]
    if len(full) < 2 or len(full) < 0.5 * len(rows):
        return False
    heads = [row.cells[0] for row in full if row.cells[0]]
    if len(full[0].cells) == 2 and heads and all(_LIST_MARK.match(head) for head in heads):
        return False
    texts = [cell for row in full for cell in row.cells if cell]
    is_long = sum(map(len, texts)) / len(texts) > _PROSE_CHARS
    return len(rows[0].cells) > 3 or not is_long


def _has_aligned_columns(rows: Sequence[list[list[Word]]], edges: Sequence[float]) -> bool:
    """Tell whether most columns after the first are set to a line.

    The gaps of justified prose may lie below each other by chance, but the words after them begin
    anywhere. Only figures are set to the right: so is all justified prose.
    """
    aligned = 0
    for begin, end in pairwise(edges[1:]):
        cells = [
            (cell[0].box[0], cell[-1].box[2], _join_words(cell))
            for row in rows
            for cell in row
            if begin <= cell[0].box[0] and cell[-1].box[2] <= end
        ]
        has_figures = sum(any(map(str.isdigit, text)) for _, _, text in cells) * 2 > len(cells)
        sides = [[left for left, _, _ in cells], [(left + right) / 2 for left, right, _ in cells]]
        if has_figures:
            sides.append([right for _, right, _ in cells])
        aligned += any(map(_do_agree, sides))
    return aligned * 2 >= len(edges) - 2


def _do_agree(places: Sequence[float]) -> bool:
    """Tell whether most places lie close to one of them."""
    most = max((sum(abs(a - b) <= _ALIGNED for b in places) for a in places), default=0)
    return most >= max(2, 0.6 * len(places))


def _join_wrapped(rows: Sequence[TableRow]) -> list[TableRow]:
    """Join a row whose text runs on in the next line."""
    joined: list[TableRow] = []
    for row in rows:
        before = joined[-1] if joined else None
        if before is not None and _do_continue(before, row):
            cells = [f"{a} {b}".strip() for a, b in zip(before.cells, row.cells, strict=True)]
            joined[-1] = TableRow(
                cells, _join_boxes([before.box, row.box]), before.spans | row.spans
            )
        else:
            joined.append(row)
    return joined


def _do_continue(before: TableRow, row: TableRow) -> bool:
    head = row.cells[0]
    if head[:1].islower():
        # "Purchases of property, plant and" above "equipment (45.0)", or below its figures.
        return (before.filled == 1 and bool(before.cells[0])) or row.filled == 1
    if head or not before.cells[0] or any(is_figure(cell) for cell in row.cells if cell):
        return False
    # Words below a cell that already ended with figures only are a head of what follows.
    return all(before.cells[at] and cell[:1].islower() for at, cell in enumerate(row.cells) if cell)
