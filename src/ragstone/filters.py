"""Parse and evaluate filters: conditions on fields, joined by and, or, not.

In JSON: `{"tags": "contract", "page": {"gte": 3}, "not": {"author": {"exists": false}}}`. All
entries of one object must match. Fields of a chunk are `page` and `content_type`; of a document
`document_id`, `document_name`, `upload_id`, `media_type` and `created_at`; every other name is a
key of the document's metadata. A list matches if any of its members does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from ragstone.errors import InputError
from ragstone.text import is_storable

Operator: TypeAlias = Literal["eq", "in", "gt", "gte", "lt", "lte", "exists"]

CHUNK_FIELDS = frozenset({"page", "content_type"})
DOCUMENT_FIELDS = frozenset(
    {"document_id", "document_name", "upload_id", "media_type", "created_at"}
)
_OPERATORS: tuple[Operator, ...] = get_args(Operator)
# A filter is written for one question; a larger one is a mistake or an attack.
_MAX_CONDITIONS = 1000
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Condition:
    """Compare one field with one value (with a tuple of values for `in`)."""

    field: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


Filter: TypeAlias = Condition | And | Or | Not


class SearchScope:
    """Limit a search: the filter, and the ranges of chunk keys that pass it.

    The ranges are found when an index asks for them: one that can filter by itself does not.
    """

    def __init__(
        self, given: Filter, ranges: Sequence[range] | Callable[[], Sequence[range]]
    ) -> None:
        self.filter = given
        self._ranges = ranges

    @cached_property
    def ranges(self) -> tuple[range, ...]:
        return tuple(self._ranges() if callable(self._ranges) else self._ranges)


def combine_filters(*parts: Filter | None) -> Filter | None:
    """Join filters with `and`; None matches everything."""
    filters = tuple(part for part in parts if part is not None)
    return filters[0] if len(filters) == 1 else And(filters) if filters else None


def match_any(field: str, values: Sequence[Any]) -> Filter:
    """Build a filter that matches any of the values."""
    return Condition(field, "in", tuple(values))


def parse_filter(written: Any) -> Filter:
    """Parse the JSON form of a filter; an InputError names the invalid part."""
    parsed = _parse(written, depth=0)
    if _count_conditions(parsed) > _MAX_CONDITIONS:
        raise InputError(
            f"The filter has more than {_MAX_CONDITIONS} conditions.",
            hint="Use `in` with a list of values.",
        )
    return parsed


_TYPED_CONDITION = re.compile(
    r"(?P<field>[\w.\-]+)\s*(?P<operator>>=|<=|!=|=|>|<)\s*(?P<value>.*)", re.DOTALL
)
_SIGNS: dict[str, Operator] = {"=": "eq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def parse_condition(written: str) -> Filter:
    """Parse the command-line form: `year>=2020`, `tags=contract,lease`, `author!=Ada`."""
    match = _TYPED_CONDITION.fullmatch(written.strip())
    if match is None:
        raise InputError(
            f"The filter '{written}' has no comparison.",
            hint="Write FIELD=VALUE, FIELD!=VALUE or FIELD>=VALUE, for example year>=2020.",
        )
    field, sign, text = match["field"], match["operator"], match["value"].strip()
    if sign in ("=", "!="):
        # A number may have been stored as text: `tags=2020` matches both.
        parts = [part.strip() for part in text.split(",")]
        values = tuple(dict.fromkeys(one for part in parts for one in (_parse_value(part), part)))
        equal = Condition(field, "eq", values[0]) if len(values) == 1 else match_any(field, values)
        return Not(equal) if sign == "!=" else equal
    return Condition(field, _SIGNS[sign], _parse_value(text))


def reduce_filter(part: Filter, fields: Mapping[str, Any]) -> bool | Filter:
    """Evaluate a filter with a document's `fields`.

    Returns True or False where they decide it, else the remaining filter on chunk fields.
    """
    if isinstance(part, Condition):
        if part.field in CHUNK_FIELDS and part.field not in fields:
            return part
        return is_match(part, fields)
    if isinstance(part, Not):
        inner = reduce_filter(part.part, fields)
        return not inner if isinstance(inner, bool) else Not(inner)
    decisive = isinstance(part, Or)
    rest: list[Filter] = []
    for one in part.parts:
        result = reduce_filter(one, fields)
        if result is decisive:
            return decisive
        if not isinstance(result, bool):
            rest.append(result)
    if not rest:
        return not decisive
    return rest[0] if len(rest) == 1 else type(part)(tuple(rest))


def is_match(condition: Condition, fields: Mapping[str, Any]) -> bool:
    """Evaluate one condition. A missing field matches only `exists: false`."""
    value = _read_field(fields, condition.field)
    if condition.operator == "exists":
        return (value is not None) == bool(condition.value)
    members = value if isinstance(value, list | tuple) else [value]
    compare = _COMPARISONS[condition.operator]
    return any(member is not None and compare(member, condition.value) for member in members)


def _read_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field by name; dots lead into nested metadata."""
    if name in fields:
        return fields[name]
    value: Any = fields
    for part in name.removeprefix("metadata.").split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _pair_values(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Convert two values to one type: numbers, times or text. None if that is impossible."""
    if isinstance(left, bool) or isinstance(right, bool):
        return (left, right) if isinstance(left, bool) and isinstance(right, bool) else None
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left, right
    if isinstance(left, str) and isinstance(right, str):
        return left, right
    if isinstance(left, int | float) and isinstance(right, str):
        moment = parse_timestamp(right)
        return None if moment is None else (left, moment)
    return None


def parse_timestamp(text: str) -> float | None:
    """Convert an ISO date or time to seconds since 1970; UTC if it has no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _compare_pairs_with(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def check(left: Any, right: Any) -> bool:
        pair = _pair_values(left, right)
        return pair is not None and compare(*pair)

    return check


_equal = _compare_pairs_with(lambda left, right: bool(left == right))

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "in": lambda left, right: any(_equal(left, one) for one in right),
    "gt": _compare_pairs_with(lambda left, right: bool(left > right)),
    "gte": _compare_pairs_with(lambda left, right: bool(left >= right)),
    "lt": _compare_pairs_with(lambda left, right: bool(left < right)),
    "lte": _compare_pairs_with(lambda left, right: bool(left <= right)),
}


def _parse(written: Any, *, depth: int) -> Filter:
    if depth > _MAX_DEPTH:
        raise InputError(
            f"The filter is nested deeper than {_MAX_DEPTH} levels.", hint="Use fewer levels."
        )
    if not isinstance(written, Mapping) or not written:
        raise InputError(
            f"Invalid filter {written!r}. A filter is a JSON object with at least one entry.",
            hint='For example: {"tags": "contract", "page": {"gte": 3}}',
        )
    parts = [_parse_entry(str(key), value, depth=depth) for key, value in written.items()]
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _parse_entry(key: str, value: Any, *, depth: int) -> Filter:
    if key in ("and", "or"):
        if not isinstance(value, list) or not value:
            raise InputError(
                f"Invalid value of '{key}' in the filter: {value!r}.",
                hint="Use a list of at least one filter.",
            )
        parts = tuple(_parse(one, depth=depth + 1) for one in value)
        return And(parts) if key == "and" else Or(parts)
    if key == "not":
        return Not(_parse(value, depth=depth + 1))
    if not isinstance(value, Mapping):
        return _parse_comparison(key, "in" if isinstance(value, list) else "eq", value)
    if not value:
        raise InputError(
            f"The filter on '{key}' is empty.", hint=f"Use one of {', '.join(_OPERATORS)}."
        )
    parts = tuple(_parse_comparison(key, str(operator), one) for operator, one in value.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _parse_comparison(field: str, operator: str, value: Any) -> Condition:
    for known in _OPERATORS:
        if operator == known:
            return Condition(field, known, _check_value(field, known, value))
    raise InputError(
        f"Unknown comparison '{operator}' in the filter on '{field}'.",
        hint=f"Use one of {', '.join(_OPERATORS)}.",
    )


def _check_value(field: str, operator: Operator, value: Any) -> Any:
    members = value if isinstance(value, list) and operator == "in" else [value]
    if operator == "in" and not isinstance(value, list):
        raise InputError(
            f"Invalid value of 'in' in the filter on '{field}': {value!r}.",
            hint='Use a list: {"in": ["a", "b"]}',
        )
    if operator == "exists" and not isinstance(value, bool):
        raise InputError(
            f"Invalid value of 'exists' in the filter on '{field}': {value!r}.",
            hint="Use true or false.",
        )
    if not all(isinstance(one, str | int | float | bool) for one in members):
        raise InputError(
            f"Invalid value in the filter on '{field}': {value!r}.",
            hint="Use text, a number, true or false.",
        )
    if not all(_is_storable_value(one) for one in (field, *members)):
        raise InputError(
            f"The filter on {field!r} has a value that no document can hold.",
            hint="Use text without NUL, or a number of at most 63 bits.",
        )
    return tuple(members) if operator == "in" else value


def _is_storable_value(value: Any) -> bool:
    """Return False for lone surrogates, NUL, infinity and huge numbers: some stores refuse them."""
    if isinstance(value, str):
        return is_storable(value)
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _count_conditions(part: Filter) -> int:
    if isinstance(part, Condition):
        return len(part.value) if part.operator == "in" else 1
    if isinstance(part, Not):
        return _count_conditions(part.part)
    return sum(_count_conditions(one) for one in part.parts)


def _parse_value(text: str) -> str | int | float | bool:
    """Convert command-line text to a boolean or a number if it looks like one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Select queries of the journal; None does not limit."""

    owner: str | None = None
    collections: Sequence[str] | None = None
    upload_id: str | None = None
    session_id: str | None = None
    since: float | None = None
    before: float | None = None


ANY_QUERY = HistoryFilter()
