"""Translate filters and chunks for Qdrant.

A filter that Qdrant cannot express (an order of texts, for example) is sent as the chunk keys that
the catalog found: the same result with a longer request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from ragstone.filters import (
    CHUNK_FIELDS,
    DOCUMENT_FIELDS,
    And,
    Condition,
    Filter,
    Not,
    Or,
    SearchScope,
    parse_timestamp,
)
from ragstone.types import Chunk

Json: TypeAlias = dict[str, Any]


class _UnsupportedFilterError(Exception):
    """Report a condition that Qdrant cannot express."""


def build_payload(chunk: Chunk, document: Mapping[str, Any]) -> Json:
    """Return the fields of a chunk that filters can compare, with the metadata nested."""
    own = {name: document.get(name) for name in DOCUMENT_FIELDS}
    metadata = {name: value for name, value in document.items() if name not in DOCUMENT_FIELDS}
    return {
        **own,
        "key": chunk.key,
        "page": chunk.page,
        "content_type": chunk.content_type,
        "metadata": metadata,
    }


def build_filter(tenant: str, scope: SearchScope | None) -> Json:
    """Return the conditions of a search: the tenant, and the scope if there is one."""
    own: Json = {"key": "tenant", "match": {"value": tenant}}
    if scope is None:
        return {"must": [own]}
    try:
        return {"must": [own, _translate(scope.filter)]}
    except _UnsupportedFilterError:
        ranges = [
            {"key": "key", "range": {"gte": keys.start, "lte": keys.stop - 1}}
            for keys in scope.ranges
        ]
        # A filter that matches nothing must not become one without conditions.
        nothing = {"key": "key", "range": {"lt": 0}}
        return {"must": [own, {"should": ranges or [nothing]}]}


def _translate(part: Filter) -> Json:
    if isinstance(part, And):
        return {"must": [_translate(one) for one in part.parts]}
    if isinstance(part, Or):
        return {"should": [_translate(one) for one in part.parts]}
    if isinstance(part, Not):
        return {"must_not": [_translate(part.part)]}
    return _translate_condition(part)


def _translate_condition(condition: Condition) -> Json:
    key, value = _to_payload_key(condition.field), condition.value
    if condition.operator == "exists":
        empty = {"is_empty": {"key": key}}
        return {"must_not": [empty]} if value else empty
    if condition.operator == "in":
        if not value:
            raise _UnsupportedFilterError  # to Qdrant no condition means no limit
        return {"should": [_match_value(condition.field, key, one) for one in value]}
    if condition.operator == "eq":
        return _match_value(condition.field, key, value)
    return {"key": key, "range": {condition.operator: _to_number(condition.field, value)}}


def _match_value(field: str, key: str, value: Any) -> Json:
    if isinstance(value, bool) or (isinstance(value, str) and field != "created_at"):
        return {"key": key, "match": {"value": value}}
    number = _to_number(field, value)
    return {"key": key, "range": {"gte": number, "lte": number}}


def _to_number(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _UnsupportedFilterError
    if isinstance(value, int | float):
        return float(value)
    moment = parse_timestamp(value) if field == "created_at" else None
    if moment is None:
        raise _UnsupportedFilterError
    return moment


_PLAIN_FIELD = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def _to_payload_key(field: str) -> str:
    if not _PLAIN_FIELD.fullmatch(field):
        raise _UnsupportedFilterError
    if field in CHUNK_FIELDS or field in DOCUMENT_FIELDS:
        return field
    return f"metadata.{field.removeprefix('metadata.')}"


# Fields of the payload with an index, besides the metadata; the tenant comes first.
PAYLOAD_TYPES: Mapping[str, Any] = {
    "tenant": {"type": "keyword", "is_tenant": True},
    "key": "integer",
    "build": "integer",
    "page": "integer",
    "created_at": "float",
    "document_id": "keyword",
    "upload_id": "keyword",
    "content_type": "keyword",
}


def find_payload_types(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the index types for the metadata of a document, by the name in the payload."""
    found: dict[str, str] = {}
    for name, value in document.items():
        first = value[0] if isinstance(value, list | tuple) and value else value
        if name in DOCUMENT_FIELDS or not _PLAIN_FIELD.fullmatch(name):
            continue
        if isinstance(first, bool):
            found[f"metadata.{name}"] = "bool"
        elif isinstance(first, int | float):
            found[f"metadata.{name}"] = "float"
        elif isinstance(first, str):
            found[f"metadata.{name}"] = "keyword"
    return found
