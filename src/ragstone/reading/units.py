"""Find the units of a text: sentences, items of lists, rows under their header, listings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.reading.layout import find_blocks
from ragstone.text import find_sentence_spans
from ragstone.types import Chunk, Source, StoredUnit, UnitKind

_SENTENCE_END = re.compile(r"[.!?…。！？]['\"”’»)\]*_]*$")
_RULE = re.compile(r"^[\s|:\-–+=]*$")


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence, an item of a list, a row of a table or a listing, at `text[start:end]`."""

    start: int
    end: int
    text: str
    header: tuple[str, ...] = ()
    """The column names of a row."""
    kind: UnitKind = "sentence"
    lead: int | None = None
    """The position of the unit that leads to this item or listing."""

    @property
    def sentence(self) -> str:
        """A row as its cells under their headings, any other unit as it stands."""
        return describe_row(self.header, self.text) if self.header else self.text


def find_units(text: str, table_header: str = "") -> tuple[Unit, ...]:
    """Find the units of a text in order, without headings and the rules of tables.

    `table_header` is the header row of a table that the text begins in the middle of.
    """
    units: list[Unit] = []
    leads: dict[int, int | None] = {}
    header = split_cells(table_header) if table_header else ()
    table = None
    for block in find_blocks(text):
        body = text[block.start : block.end]
        if block.kind == "row":
            if _RULE.match(body):
                continue
            if block.group != table and not (header and table is None and not units):
                header = split_cells(body)
                units.append(Unit(block.start, block.end, body, kind="header"))
            else:
                units.append(Unit(block.start, block.end, body, header, "row"))
            table = block.group
        elif block.kind == "code":
            lead = _find_lead(units, before_code=True)
            units.append(Unit(block.start, block.end, body, (), "code", lead))
        elif block.kind != "heading":
            is_item = block.kind == "item"
            if is_item and block.group not in leads:
                leads[block.group] = _find_lead(units)
            kind: UnitKind = "item" if is_item else "sentence"
            lead = leads[block.group] if is_item else None
            for start, end in find_sentence_spans(body):
                said = body[start:end]
                if not _RULE.match(said):
                    place = block.start + start, block.start + end
                    units.append(Unit(*place, said, (), kind, lead))
    return tuple(units)


def _find_lead(units: Sequence[Unit], *, before_code: bool = False) -> int | None:
    """Return the position of the last unit if it leads to what follows: it does not end a
    sentence, or a listing follows."""
    if not units or units[-1].kind not in ("sentence", "item"):
        return None
    return len(units) - 1 if before_code or not _SENTENCE_END.search(units[-1].text) else None


def list_units(source: Source) -> tuple[Unit, ...]:
    """Return the units of a source: those stored with its chunk, if its text is that chunk."""
    chunk = source.hit.chunk
    if not chunk.units or source.text != chunk.text:
        return find_units(source.text, chunk.table_header)
    return restore_units(chunk)


def store_units(units: Sequence[Unit]) -> tuple[StoredUnit, ...]:
    """Return what is stored with a chunk: texts and headers can be read from it again."""
    return tuple(StoredUnit(unit.start, unit.end, unit.kind, unit.lead) for unit in units)


def restore_units(chunk: Chunk) -> tuple[Unit, ...]:
    units: list[Unit] = []
    header = split_cells(chunk.table_header) if chunk.table_header else ()
    for start, end, kind, lead in chunk.units:
        text = chunk.text[start:end]
        if kind == "header":
            header = split_cells(text)
        units.append(Unit(start, end, text, header if kind == "row" else (), kind, lead))
    return tuple(units)


def split_cells(row: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in row.strip().strip("|").split("|"))


def describe_row(header: tuple[str, ...], row: str) -> str:
    """Return `Adult: Day visit €16, Evening programme €24.`; a row that does not fit the header
    stays as it is."""
    own = split_cells(row)
    if len(own) != len(header) or len(own) < 2:
        return " ".join(row.split())
    pairs = [f"{name} {cell}".strip() for name, cell in zip(header[1:], own[1:], strict=True)]
    return f"{own[0]}: {', '.join(pairs)}."
