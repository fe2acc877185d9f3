"""Metadata is JSON that can be kept and sent back, wherever it comes from."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import InputError
from ragstone.ingest.metadata import check_metadata, to_json_value

ODD_TEXT = st.text(st.characters(codec=None, exclude_categories=[]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ODD_TEXT | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(ODD_TEXT | st.integers(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_a_file_says_can_be_sent_and_is_accepted_from_then_on(value: Any) -> None:
    made = to_json_value(value)
    json.dumps(made, ensure_ascii=False, allow_nan=False).encode()
    check_metadata({"it": made})
    assert to_json_value(made) == made


def test_what_is_plain_already_stays_as_it_is() -> None:
    said = {
        "title": "Ümläut 🙂",
        "year": 2026,
        "tags": ["a", "b"],
        "deep": {"er": [None, 1.5, True]},
    }
    assert to_json_value(said) == said
    check_metadata(said)


def test_a_file_that_refers_to_itself_has_an_end() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert "..." in json.dumps(to_json_value({"circle": circle}))


@pytest.mark.parametrize(
    "value",
    ["\ud800", "a\0b", {"\udfff": 1}, [math.nan], {"deep": {"er": -math.inf}}, date(2026, 1, 1),
     b"bytes", "x" * 100_001, ["x" * 1000] * 101],
)  # fmt: skip
def test_what_a_caller_says_is_refused_where_it_cannot_be_kept(value: Any) -> None:
    with pytest.raises(InputError):
        check_metadata({"it": value})


def test_metadata_nested_too_deep_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"in": deep}
    with pytest.raises(InputError, match="nested"):
        check_metadata(deep)
