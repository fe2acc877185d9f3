"""Tables inside a text: a row says something only together with the header over it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragstone.text import sentence_spans

_RULE = re.compile(r"^[\s|:\-–+=]*$")


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence, or the row of a table, at `text[start:end]`."""

    start: int
    end: int
    text: str
    header: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """As a sentence: a row becomes its cells under their headings."""
        return in_words(self.header, self.text) if self.header else self.text


def units(text: str) -> list[Unit]:
    """The sentences of a text and the rows of its tables; rules and header rows are left out."""
    found: list[Unit] = []
    header: tuple[str, ...] = ()
    for start, end in sentence_spans(text):
        part = text[start:end]
        if _RULE.match(part):
            continue
        if not part.startswith("|"):
            header = ()
        elif not header:
            header = cells(part)
            continue
        found.append(Unit(start, end, part, header))
    return found


def cells(row: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in row.strip().strip("|").split("|"))


def in_words(header: tuple[str, ...], row: str) -> str:
    """`Adult: Day visit €16, Evening programme €24.`; a row that does not fit stays as it is."""
    own = cells(row)
    if len(own) != len(header) or len(own) < 2:
        return " ".join(row.split())
    pairs = [f"{name} {cell}".strip() for name, cell in zip(header[1:], own[1:], strict=True)]
    return f"{own[0]}: {', '.join(pairs)}."
