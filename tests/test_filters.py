"""Test the JSON and command-line forms of filters, and their evaluation in two steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import InputError
from ragstone.filters import (
    And,
    Condition,
    Filter,
    Not,
    Or,
    combine_filters,
    parse_condition,
    parse_filter,
    parse_timestamp,
    reduce_filter,
)

DOCUMENT = {"document_id": "d1", "year": 2020, "tags": ["a", "b"], "nested": {"deep": {"x": 1}}}


@pytest.mark.parametrize(
    ("written", "fits"),
    [
        ({"year": 2020}, True),
        ({"year": "2020"}, False),
        ({"year": {"gt": 2019, "lte": 2020}}, True),
        ({"year": [2019, 2020]}, True),
        ({"tags": "b"}, True),
        ({"tags": {"in": ["c", "d"]}}, False),
        ({"missing": {"exists": False}}, True),
        ({"missing": {"lt": 5}}, False),
        ({"nested.deep.x": 1}, True),
        ({"metadata.year": 2020}, True),
        ({"and": [{"year": 2020}, {"tags": "a"}]}, True),
        ({"or": [{"year": 1}, {"tags": "a"}]}, True),
        ({"not": {"year": 2020}}, False),
        ({"year": True}, False),
    ],
)
def test_a_filter_asks_the_fields_of_a_document(written: dict[str, Any], fits: bool) -> None:
    assert reduce_filter(parse_filter(written), DOCUMENT) is fits


@pytest.mark.parametrize(
    "written",
    [{}, [], "year", {"year": {}}, {"year": {"like": 1}}, {"and": []}, {"and": {}}, {"not": 1},
     {"year": {"in": 3}}, {"year": {"exists": "yes"}}, {"year": None}, {"year": [[1]]},
     {"document_id": ["x"] * 1001}],
)  # fmt: skip
def test_a_wrong_filter_is_refused_in_a_sentence(written: Any) -> None:
    with pytest.raises(InputError) as refused:
        parse_filter(written)
    assert refused.value.message.endswith(".")


def test_a_filter_is_not_nested_without_end() -> None:
    written: dict[str, Any] = {"year": 1}
    for _ in range(30):
        written = {"not": written}
    with pytest.raises(InputError, match="nested deeper"):
        parse_filter(written)


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("tags=2020", Condition("tags", "in", (2020, "2020"))),
        ("year>=2020", Condition("year", "gte", 2020)),
        ("year < 2020.5", Condition("year", "lt", 2020.5)),
        ("tags=contract", Condition("tags", "eq", "contract")),
        ("tags=a, b", Condition("tags", "in", ("a", "b"))),
        ("draft=true", Condition("draft", "in", (True, "true"))),
        ("author!=Ada", Not(Condition("author", "eq", "Ada"))),
    ],
)
def test_conditions_can_be_typed(typed: str, parsed: Filter) -> None:
    assert parse_condition(typed) == parsed


def test_a_typed_condition_needs_a_comparison() -> None:
    with pytest.raises(InputError, match="no comparison"):
        parse_condition("year")


def test_dates_compare_with_moments() -> None:
    assert parse_timestamp("1970-01-02") == 86400
    assert parse_timestamp("1970-01-01T01:00:00+01:00") == 0
    assert parse_timestamp("soon") is None
    assert reduce_filter(Condition("created_at", "lt", "1970-01-02"), {"created_at": 5.0}) is True


def test_no_limits_together_are_none() -> None:
    assert combine_filters(None, None) is None
    one = Condition("a", "eq", 1)
    assert combine_filters(None, one) == one
    assert combine_filters(one, one) == And((one, one))


conditions = st.one_of(
    st.builds(Condition, st.sampled_from(["year", "page"]), st.sampled_from(["eq", "gt", "lte"]),
              st.integers(0, 3)),
    st.builds(Condition, st.just("content_type"), st.just("eq"), st.sampled_from(["text", "tab"])),
    st.builds(Condition, st.sampled_from(["year", "page"]), st.just("exists"), st.booleans()),
)  # fmt: skip
filters = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@given(filters, st.integers(0, 3), st.integers(0, 3), st.sampled_from(["text", "tab"]))
def test_settling_the_document_first_changes_nothing(
    part: Filter, year: int, page: int, kind: str
) -> None:
    chunk = {"page": page, "content_type": kind}
    at_once = reduce_filter(part, {"year": year, **chunk})
    first = reduce_filter(part, {"year": year})
    assert isinstance(at_once, bool)
    assert (first if isinstance(first, bool) else reduce_filter(first, chunk)) is at_once


@pytest.mark.parametrize(
    "value", ["\ud800", "a\0b", math.nan, -math.inf, 2**63, ["fine", "\udfff"], [1, math.inf]]
)
def test_what_no_document_can_hold_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="no document can hold"):
        parse_filter({"not": {"year": value}})
    with pytest.raises(InputError, match="no document can hold"):
        parse_filter({"\ud800": 1})
