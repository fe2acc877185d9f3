"""Our filters as Qdrant's, and the payload that they ask.

What Qdrant cannot express (an order of texts, say) is asked by chunk keys instead, which the
catalog has worked out: never another answer, only a longer request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from qdrant_client import models

from ragstone.filters import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    And,
    Condition,
    Filter,
    Not,
    Or,
    timestamp,
)
from ragstone.stages import Within
from ragstone.types import Chunk


class _CannotSayError(Exception):
    """A condition that Qdrant has no word for."""


def payload_of(chunk: Chunk, document: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a filter may ask of a chunk; metadata in a drawer of its own."""
    own = {name: document.get(name) for name in DOCUMENT_FIELDS}
    metadata = {name: value for name, value in document.items() if name not in DOCUMENT_FIELDS}
    return {
        **own,
        "key": chunk.key,
        "page": chunk.page,
        "content_type": chunk.content_type,
        "metadata": metadata,
    }


def translated(within: Within) -> models.Filter:
    try:
        return models.Filter(must=[_condition(within.filter)])
    except _CannotSayError:
        spans: list[Any] = [
            models.FieldCondition(key="key", range=models.Range(gte=keys.start, lte=keys.stop - 1))
            for keys in within.ranges
        ]
        # A filter that lets nothing through must not become one without conditions.
        nothing = models.FieldCondition(key="key", range=models.Range(lt=0))
        return models.Filter(should=spans or [nothing])


def _condition(part: Filter) -> Any:
    if isinstance(part, And):
        return models.Filter(must=[_condition(one) for one in part.parts])
    if isinstance(part, Or):
        return models.Filter(should=[_condition(one) for one in part.parts])
    if isinstance(part, Not):
        return models.Filter(must_not=[_condition(part.part)])
    return _compared(part)


def _compared(condition: Condition) -> Any:
    key, value = _path(condition.field), condition.value
    if condition.operator == "exists":
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
        return models.Filter(must_not=[empty]) if value else empty
    if condition.operator == "in":
        if not value:
            raise _CannotSayError  # Qdrant takes no condition for no limit
        return models.Filter(should=[_equal(condition.field, key, one) for one in value])
    if condition.operator == "eq":
        return _equal(condition.field, key, value)
    number = _number(condition.field, value)
    limits: dict[str, float] = {condition.operator: number}
    return models.FieldCondition(key=key, range=models.Range(**limits))


def _equal(field: str, key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    if isinstance(value, str) and field != "created_at":
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    number = _number(field, value)
    return models.FieldCondition(key=key, range=models.Range(gte=number, lte=number))


def _number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _CannotSayError
    if isinstance(value, int | float):
        return float(value)
    moment = timestamp(value) if field == "created_at" else None
    if moment is None:
        raise _CannotSayError
    return moment


_PLAIN = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _path(field: str) -> str:
    if not _PLAIN.fullmatch(field):
        raise _CannotSayError
    if field in CHUNK_FIELDS or field in DOCUMENT_FIELDS:
        return field
    return f"metadata.{field.removeprefix('metadata.')}"
