"""Units cover what can be quoted, know their lead-ins, and come back from the catalog."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.units import (
    describe_row,
    find_units,
    list_units,
    restore_units,
    store_units,
)
from ragstone.types import Chunk, Hit, Source

TEXT = """Clean it once a month. To clean it, do:

1. Switch it off. Wait.
2. Run:

```sh
clean --now
```

| Part | Price |
|---|---|
| Filter | €12 |
| Lamp | €30 |

Throw old filters away 🙂."""


def make_source(text: str, *, header: str = "", stored: bool = True) -> Source:
    units = store_units(find_units(text, header)) if stored else ()
    chunk = Chunk("d", 0, text, 0, len(text), table_header=header, units=units)
    return Source(1, Hit(chunk, 1.0, "hybrid"), text)


def test_kinds_and_lead_ins() -> None:
    units = find_units(TEXT)
    assert [unit.kind for unit in units] == [
        "sentence", "sentence", "item", "item", "item", "code", "header", "row", "row", "sentence",
    ]  # fmt: skip
    assert [unit.lead for unit in units] == [None, None, 1, 1, 1, 4, None, None, None, None]
    assert units[7].sentence == "Filter: Price €12."


def test_a_table_that_goes_on_has_the_header_of_its_chunk() -> None:
    [row, other] = find_units("| Filter | €12 |\n| Lamp | €30 |", "| Part | Price |")
    assert (row.kind, other.sentence) == ("row", "Lamp: Price €30.")


def test_a_row_that_does_not_fit_its_header_stays_as_it_is() -> None:
    assert describe_row(("a", "b"), "| 1 | 2 | 3 |") == "| 1 | 2 | 3 |"


def test_units_come_back_from_the_catalog() -> None:
    for header in ("", "| Part | Price |"):
        text = "| Filter | €12 |\n\nIt fits:\n\n- all\n- lamps" if header else TEXT
        source = make_source(text, header=header)
        assert restore_units(source.hit.chunk) == find_units(text, header)


def test_a_text_other_than_the_chunk_is_split_anew() -> None:
    stored = make_source(TEXT)
    cut = Source(1, stored.hit, TEXT[:22])
    assert [unit.text for unit in list_units(cut)] == ["Clean it once a month."]
    assert list_units(make_source(TEXT, stored=False)) == list_units(stored)


@given(st.text(alphabet="ab .:|\n-1`#🙂", max_size=80))
def test_every_unit_stands_at_its_place(text: str) -> None:
    units = find_units(text)
    for at, unit in enumerate(units):
        assert text[unit.start : unit.end] == unit.text
        assert unit.lead is None or unit.lead < at
    starts = [unit.start for unit in units]
    assert starts == sorted(starts)
