"""A table that goes on before a chunk keeps its header when the chunk is completed."""

from __future__ import annotations

from ragstone.query.ground.context import complete_hit
from ragstone.types import Chunk, Hit

HEADER = "| Date | Field | Product |\n|---|---|---|"
ROWS = [f"| {day} June | Field {day} | Product {day} |" for day in range(1, 30)]


class Passages:
    """Give passages of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read_passage(self, document_id: str, start: int, end: int) -> str:
        return self.text[start:end]


def complete(before: str, rows: list[str], first: int) -> Chunk:
    text = f"{before}\n" + "\n".join(rows) + "\n\nAll fields were sprayed:\n\n- twice\n- by Ann\n"
    start = text.index(rows[first])
    chunk = Chunk("d", 1, text[start:].partition("\n- twice")[0], start, 0, table_header=HEADER)
    chunk = Chunk("d", 1, chunk.text, start, start + len(chunk.text), table_header=HEADER)
    return complete_hit(Hit(chunk, 1.0, "hybrid"), Passages(text)).chunk  # type: ignore[arg-type]


def test_a_table_that_begins_before_the_added_text_keeps_its_header() -> None:
    wider = complete(HEADER, ROWS, 24)
    assert wider.text.endswith("- by Ann")
    assert wider.text.startswith("|")
    assert HEADER not in wider.text
    assert wider.table_header == HEADER


def test_a_header_in_the_added_text_is_not_repeated() -> None:
    wider = complete(HEADER, ROWS[:3], 1)
    assert (HEADER in wider.text) != (wider.table_header == HEADER)
