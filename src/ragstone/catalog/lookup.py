"""Keep what lookups need beside the documents, so that none reads a whole collection.

Rows for the values of the metadata, for headings by prefix, and the counts of each collection
change with the documents, in the same transactions. A filter becomes a condition in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, and_, false, not_, or_, select

from ragstone.catalog.schema import (
    document_counts,
    document_values,
    documents,
    headings,
    insert_into,
)
from ragstone.filters import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    And,
    Condition,
    Filter,
    Not,
    Or,
    parse_timestamp,
)

# PostgreSQL has no index on longer texts; of these only the begin is stored.
_MAX_TEXT = 500
_MAX_VALUES = 1000
_MAX_HEADINGS = 200
_MAX_WORDS = 8
# Integers above have no exact floating-point number.
_MAX_EXACT = 2**53
_LAST_CHARACTER = "\U0010ffff"


def insert_lookups(
    connection: Connection, row: Any, heading_paths: Iterable[Sequence[str]]
) -> None:
    """Add a document that is current from now on; `row` has the columns of its table."""
    here = {"document_id": row.id, "collection": row.collection}
    values = {(one["field"], one["position"]): one for one in _list_values(row.metadata)}
    if values:
        rows = [{**here, **one} for one in values.values()]
        connection.execute(document_values.insert(), rows[:_MAX_VALUES])
    # The header row of a table is in its chunks' paths, but is not a heading.
    titles = dict.fromkeys(one for path in heading_paths for one in path if " | " not in one)
    prefixes: dict[tuple[str, int], str] = {}
    for title in list(titles)[:_MAX_HEADINGS]:
        for folded, is_start in _list_prefixes(title):
            prefixes.setdefault((folded, is_start), title)
    if prefixes:
        rows = [
            {**here, "folded": folded, "is_start": is_start, "title": title}
            for (folded, is_start), title in prefixes.items()
        ]
        connection.execute(headings.insert(), rows)
    _add_row_counts(connection, row, 1)


def delete_lookups(connection: Connection, row: Any) -> None:
    """Take away a document that was current until now."""
    for table in (document_values, headings):
        connection.execute(table.delete().where(table.c.document_id == row.id))
    _add_row_counts(connection, row, -1)


def _add_row_counts(connection: Connection, row: Any, sign: int) -> None:
    is_indexed = row.status == "indexed"
    more = {
        "documents": sign * is_indexed,
        "failed": sign * (not is_indexed),
        "chunks": sign * row.chunk_count,
    }
    insert = insert_into(connection, document_counts).values(collection=row.collection, **more)
    added = {name: document_counts.c[name] + value for name, value in more.items()}
    connection.execute(insert.on_conflict_do_update(index_elements=["collection"], set_=added))


def read_counts(connection: Connection, collection: str) -> tuple[int, int, int]:
    """Return the documents that were read, those that failed, and the chunks."""
    query = select(
        document_counts.c.documents, document_counts.c.failed, document_counts.c.chunks
    ).where(document_counts.c.collection == collection)
    row = connection.execute(query).first()
    return (0, 0, 0) if row is None else (row.documents, row.failed, row.chunks)


def find_headings(connection: Connection, collection: str, prefix: str, *, limit: int) -> list[str]:
    """Return headings that begin with the prefix, then those with a word that does.

    Each is one step in the index, however many documents have it.
    """
    folded = " ".join(prefix.casefold().split())
    found: dict[str, None] = {}
    for is_start in (1, 0) if folded else (1,):
        last, is_first = folded, True
        while len(found) < limit:
            after = headings.c.folded >= last if is_first else headings.c.folded > last
            query = select(headings.c.folded, headings.c.title).where(
                headings.c.collection == collection,
                headings.c.is_start == is_start,
                after,
                headings.c.folded < folded + _LAST_CHARACTER,
            )
            row = connection.execute(query.order_by(headings.c.folded).limit(1)).first()
            if row is None:
                break
            last, is_first = row.folded, False
            found.setdefault(row.title)
    return list(found)


def _list_prefixes(title: str) -> Iterator[tuple[str, int]]:
    words = title.casefold().split()
    for at in range(min(len(words), _MAX_WORDS)):
        yield " ".join(words[at:])[:_MAX_TEXT], int(at == 0)


def _list_values(metadata: Mapping[str, Any], above: str = "") -> Iterator[dict[str, Any]]:
    """Yield a row for each value; a list or an object has one too, because it exists."""
    for name, value in metadata.items():
        if above and "." in name:
            continue  # no filter can name it
        if not above and (name in CHUNK_FIELDS or name in DOCUMENT_FIELDS):
            continue  # the document's own field hides it
        field = f"{above}{name}"
        if value is None:
            continue
        members = list(value) if isinstance(value, list | tuple) else [value]
        if isinstance(value, list | tuple | Mapping):
            yield {"field": field, "position": -1, **_to_row(None)}
        if isinstance(value, Mapping):
            yield from _list_values(value, f"{field}.")
            continue
        for position, member in enumerate(members):
            if isinstance(member, str | int | float):
                yield {"field": field, "position": position, **_to_row(member)}


def _to_row(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"kind": "bool", "text": None, "number": float(value)}
    if isinstance(value, int | float):
        return {"kind": "number", "text": None, "number": float(value)}
    if isinstance(value, str):
        kind = "text" if len(value) <= _MAX_TEXT else "long"
        return {"kind": kind, "text": value[:_MAX_TEXT], "number": None}
    return {"kind": "other", "text": None, "number": None}


_Clause: TypeAlias = tuple[ColumnElement[bool] | None, bool]
"""A condition that every match fulfils (None: no condition), and whether it decides alone."""


def translate_filter(part: Filter, collection: str) -> _Clause:
    """Translate a filter to SQL as far as possible."""
    if isinstance(part, Condition):
        return _translate_condition(part, collection)
    if isinstance(part, Not):
        clause, is_exact = translate_filter(part.part, collection)
        return (not_(clause), True) if clause is not None and is_exact else (None, False)
    each = [translate_filter(one, collection) for one in part.parts]
    is_exact = all(exact for _, exact in each)
    clauses = [clause for clause, _ in each if clause is not None]
    if isinstance(part, And):
        return (and_(*clauses) if clauses else None), is_exact
    assert isinstance(part, Or)
    return (or_(*clauses), is_exact) if len(clauses) == len(each) else (None, False)


_COLUMNS = {
    "document_id": documents.c.id,
    "document_name": documents.c.name,
    "upload_id": documents.c.upload_id,
    "media_type": documents.c.media_type,
    "created_at": documents.c.created_at,
}


def _translate_condition(condition: Condition, collection: str) -> _Clause:
    if condition.field in CHUNK_FIELDS:
        return None, False
    field = condition.field.removeprefix("metadata.")
    values = condition.value if condition.operator == "in" else (condition.value,)
    if condition.operator == "exists":
        column = _COLUMNS.get(field)
        has_it = _has_value(collection, field) if column is None else column.is_not(None)
        return (has_it if condition.value else not_(has_it)), True
    if field in _COLUMNS:
        return _translate_own(field, condition.operator, values)
    return _translate_metadata(collection, field, condition.operator, values)


def _translate_own(field: str, operator: str, values: tuple[Any, ...]) -> _Clause:
    column: Any = _COLUMNS[field]
    if field == "created_at":
        numbers = [number for one in values if (number := _to_number(one)) is not None]
        return _compare(column, operator, numbers), True
    if operator not in ("eq", "in"):
        return None, False  # databases order texts in their own way
    return column.in_([one for one in values if isinstance(one, str)]), True


def _translate_metadata(
    collection: str, field: str, operator: str, values: tuple[Any, ...]
) -> _Clause:
    table = document_values.c
    is_exact, either = True, []
    for value in values:
        if isinstance(value, bool):
            if operator in ("eq", "in"):
                either.append(and_(table.kind == "bool", table.number == float(value)))
            else:
                is_exact = False
                either.append(table.kind == "bool")
            continue
        number = _to_number(value)
        if number is not None:
            is_exact = is_exact and abs(number) < _MAX_EXACT
            either.append(and_(table.kind == "number", _compare(table.number, operator, [number])))
        if isinstance(value, str) and operator in ("eq", "in"):
            kind = "text" if len(value) <= _MAX_TEXT else "long"
            is_exact = is_exact and kind == "text"
            either.append(and_(table.kind == kind, table.text == value[:_MAX_TEXT]))
        elif isinstance(value, str):
            is_exact = False
            either.append(table.kind.in_(("text", "long")))
    if not either:
        return false(), True
    # A comparison that many documents pass is checked for those that pass the rest.
    is_selective = operator in ("eq", "in")
    return _has_value(collection, field, or_(*either), is_selective=is_selective), is_exact


def _has_value(
    collection: str, field: str, *conditions: ColumnElement[bool], is_selective: bool = False
) -> ColumnElement[bool]:
    table = document_values.c
    found = select(table.document_id).where(table.field == field, *conditions)
    if is_selective:
        return documents.c.id.in_(found.where(table.collection == collection))
    # Without the collection: SQLite would read all its values for each document.
    return found.where(table.document_id == documents.c.id).correlate(documents).exists()


def is_selective(part: Filter) -> bool:
    """Return whether a filter names values that an index finds, as far as can be seen."""
    if isinstance(part, Condition):
        field = part.field.removeprefix("metadata.")
        is_listed = field in ("document_id", "upload_id") or field not in _COLUMNS
        return part.operator in ("eq", "in") and is_listed and part.field not in CHUNK_FIELDS
    if isinstance(part, Not):
        return False
    return (any if isinstance(part, And) else all)(map(is_selective, part.parts))


def _compare(column: Any, operator: str, numbers: list[float]) -> ColumnElement[bool]:
    if operator in ("eq", "in"):
        equal: ColumnElement[bool] = column.in_(numbers)
        return equal
    if not numbers:
        return false()
    (number,) = numbers
    signs: dict[str, ColumnElement[bool]] = {
        "gt": column > number,
        "gte": column >= number,
        "lt": column < number,
    }
    at_most: ColumnElement[bool] = column <= number
    return signs.get(operator, at_most)


def _to_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return parse_timestamp(value) if isinstance(value, str) else None
