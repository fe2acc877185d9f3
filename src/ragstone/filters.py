"""Which chunks a search may see: conditions on fields, joined by and, or, not.

Written as JSON, `{"tags": "contract", "page": {"gte": 3}, "not": {"author": {"exists": false}}}`:
several entries in one object must all hold. Fields of the chunk are `page` and `content_type`;
of the document `document_id`, `document_name`, `upload_id`, `media_type` and `created_at`; every
other name is a key of the document's metadata. A list fits when any of its members does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from ragstone.errors import InputError
from ragstone.text import is_storable

Operator: TypeAlias = Literal["eq", "in", "gt", "gte", "lt", "lte", "exists"]

CHUNK_FIELDS = frozenset({"page", "content_type"})
DOCUMENT_FIELDS = frozenset(
    {"document_id", "document_name", "upload_id", "media_type", "created_at"}
)
_OPERATORS: tuple[Operator, ...] = ("eq", "in", "gt", "gte", "lt", "lte", "exists")
# A filter is written by a person or a program for one question; more is a mistake or an attack.
_MOST_CONDITIONS = 1000
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Condition:
    """One field compared with one value (with several, for `in`)."""

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


def all_of(*parts: Filter | None) -> Filter | None:
    """All of the given filters together; None lets everything through."""
    given = tuple(part for part in parts if part is not None)
    return given[0] if len(given) == 1 else And(given) if given else None


def is_in(field: str, values: Sequence[Any]) -> Filter:
    return Condition(field, "in", tuple(values))


def parse_filter(written: Any) -> Filter:
    """A filter from its JSON form, or a refusal that names the wrong part."""
    parsed = _parse(written, depth=0)
    if _size(parsed) > _MOST_CONDITIONS:
        raise InputError(
            f"The filter has more than {_MOST_CONDITIONS} conditions.",
            hint="Use `in` with a list of values.",
        )
    return parsed


_WRITTEN = re.compile(
    r"(?P<field>[\w.\-]+)\s*(?P<operator>>=|<=|!=|=|>|<)\s*(?P<value>.*)", re.DOTALL
)
_SIGNS: dict[str, Operator] = {"=": "eq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def parse_condition(written: str) -> Filter:
    """A condition as typed: `year>=2020`, `tags=contract,lease`, `author!=Ada`."""
    match = _WRITTEN.fullmatch(written.strip())
    if match is None:
        raise InputError(
            f"The filter '{written}' has no comparison.",
            hint="Write FIELD=VALUE, FIELD!=VALUE or FIELD>=VALUE, for example year>=2020.",
        )
    field, sign, text = match["field"], match["operator"], match["value"].strip()
    if sign in ("=", "!="):
        # What looks like a number may have been stored as text: `tags=2020` means either.
        parts = [part.strip() for part in text.split(",")]
        values = tuple(dict.fromkeys(one for part in parts for one in (_typed(part), part)))
        equal = Condition(field, "eq", values[0]) if len(values) == 1 else is_in(field, values)
        return Not(equal) if sign == "!=" else equal
    return Condition(field, _SIGNS[sign], _typed(text))


def decide(part: Filter, fields: Mapping[str, Any]) -> bool | Filter:
    """What is left of a filter when a document's `fields` are known.

    True or False where they settle it; otherwise the rest, which asks for chunk fields only.
    """
    if isinstance(part, Condition):
        if part.field in CHUNK_FIELDS and part.field not in fields:
            return part
        return holds(part, fields)
    if isinstance(part, Not):
        inner = decide(part.part, fields)
        return not inner if isinstance(inner, bool) else Not(inner)
    settled_by = isinstance(part, Or)
    rest: list[Filter] = []
    for one in part.parts:
        result = decide(one, fields)
        if result is settled_by:
            return settled_by
        if not isinstance(result, bool):
            rest.append(result)
    if not rest:
        return not settled_by
    return rest[0] if len(rest) == 1 else type(part)(tuple(rest))


def holds(condition: Condition, fields: Mapping[str, Any]) -> bool:
    """Whether a condition fits. A field that is missing fits nothing but `exists: false`."""
    value = lookup(fields, condition.field)
    if condition.operator == "exists":
        return (value is not None) == bool(condition.value)
    members = value if isinstance(value, list | tuple) else [value]
    compare = _COMPARISONS[condition.operator]
    return any(member is not None and compare(member, condition.value) for member in members)


def lookup(fields: Mapping[str, Any], name: str) -> Any:
    """A field by name; dots lead into nested metadata."""
    if name in fields:
        return fields[name]
    value: Any = fields
    for part in name.removeprefix("metadata.").split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def comparable(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Two values brought to one kind: numbers, moments in time, or text. None if they have none."""
    if isinstance(left, bool) or isinstance(right, bool):
        return (left, right) if isinstance(left, bool) and isinstance(right, bool) else None
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left, right
    if isinstance(left, str) and isinstance(right, str):
        return left, right
    if isinstance(left, int | float) and isinstance(right, str):
        moment = timestamp(right)
        return None if moment is None else (left, moment)
    return None


def timestamp(text: str) -> float | None:
    """Seconds since 1970 of an ISO date or time; a date without a zone is taken as UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    from datetime import UTC

    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def check(left: Any, right: Any) -> bool:
        pair = comparable(left, right)
        return pair is not None and compare(*pair)

    return check


_equal = _ordered(lambda left, right: bool(left == right))

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "in": lambda left, right: any(_equal(left, one) for one in right),
    "gt": _ordered(lambda left, right: bool(left > right)),
    "gte": _ordered(lambda left, right: bool(left >= right)),
    "lt": _ordered(lambda left, right: bool(left < right)),
    "lte": _ordered(lambda left, right: bool(left <= right)),
}


def _parse(written: Any, *, depth: int) -> Filter:
    if depth > _DEEPEST:
        raise InputError(f"The filter is nested deeper than {_DEEPEST}.", hint="Flatten it.")
    if not isinstance(written, Mapping) or not written:
        raise InputError(
            "A filter is an object with at least one entry.",
            hint='For example {"tags": "contract", "page": {"gte": 3}}.',
        )
    parts = [_entry(str(key), value, depth=depth) for key, value in written.items()]
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _entry(key: str, value: Any, *, depth: int) -> Filter:
    if key in ("and", "or"):
        if not isinstance(value, list) or not value:
            raise InputError(f"'{key}' needs a list of filters.", hint="Give at least one.")
        parts = tuple(_parse(one, depth=depth + 1) for one in value)
        return And(parts) if key == "and" else Or(parts)
    if key == "not":
        return Not(_parse(value, depth=depth + 1))
    if not isinstance(value, Mapping):
        return _condition(key, "in" if isinstance(value, list) else "eq", value)
    if not value:
        raise InputError(f"The filter on '{key}' is empty.", hint="Give it a comparison.")
    parts = tuple(_condition(key, str(operator), one) for operator, one in value.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _condition(field: str, operator: str, value: Any) -> Condition:
    for known in _OPERATORS:
        if operator == known:
            return Condition(field, known, _checked(field, known, value))
    raise InputError(
        f"The filter on '{field}' uses '{operator}', which is no comparison.",
        hint=f"Use one of {', '.join(_OPERATORS)}.",
    )


def _checked(field: str, operator: Operator, value: Any) -> Any:
    members = value if isinstance(value, list) and operator == "in" else [value]
    if operator == "in" and not isinstance(value, list):
        raise InputError(f"'in' on '{field}' needs a list.", hint='Write {"in": ["a", "b"]}.')
    if operator == "exists" and not isinstance(value, bool):
        raise InputError(f"'exists' on '{field}' needs true or false.", hint="")
    if not all(isinstance(one, str | int | float | bool) for one in members):
        raise InputError(
            f"The filter on '{field}' compares with {value!r}.",
            hint="Compare with text, a number, true or false.",
        )
    if not all(_can_be_kept(one) for one in (field, *members)):
        raise InputError(
            f"The filter on {field!r} compares with what no document can hold.",
            hint="Compare with text, or with a number of at most 63 bits.",
        )
    return tuple(members) if operator == "in" else value


def _can_be_kept(value: Any) -> bool:
    """Half a surrogate pair, NUL, infinity and huge numbers are refused by some of the stores."""
    if isinstance(value, str):
        return is_storable(value)
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _size(part: Filter) -> int:
    if isinstance(part, Condition):
        return len(part.value) if part.operator == "in" else 1
    if isinstance(part, Not):
        return _size(part.part)
    return sum(_size(one) for one in part.parts)


def _typed(text: str) -> str | int | float | bool:
    """Command-line text as the value it looks like."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
