"""The OpenAPI is whole: every operation says what it does and shows what goes in and comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import httpx
import jsonschema
import pytest

from ..patience import LONG_S

SHORT_REPLIES = {"POST /chat/{chat_id}/documents"}  # leave out what has its default
Operation = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def document(address: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{address}/openapi.json", timeout=LONG_S).json()
    return found


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def test_every_operation_is_described_and_shows_its_parameters(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["description"], name
        for parameter in operation.get("parameters", ()):
            is_needed = parameter["required"] or parameter["name"] == "collection"
            assert "example" in parameter or not is_needed, (name, parameter["name"])


def test_every_endpoint_with_an_example_is_served(document: dict[str, Any]) -> None:
    examples = json.loads((resources.files("ragstone.server") / "examples.json").read_text("utf-8"))
    assert examples.keys() == {name for name, _ in operations(document)}


def test_every_body_has_an_example_of_its_own_shape(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        if name.startswith("POST") and name != "POST /v1/consent":  # to send it is to agree
            assert "requestBody" in operation, name
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            schema = resolved(document, content.get("schema", {}))
            shown = content.get("example") or (schema.get("examples") or [None])[0]
            assert shown is not None, (name, kind)
            if kind == "application/json" and schema:
                _check(document, schema, shown)


def test_every_reply_has_an_example_of_its_own_shape(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            if not status.startswith("2"):
                continue
            for kind, content in response.get("content", {}).items():
                assert "example" in content, (name, status, kind)
                if kind == "application/json":
                    _check(document, content["schema"], content["example"])
                    missing = set(_find_missing(document, content["schema"], content["example"]))
                    hint = "Run: python scripts/openapi_examples.py"
                    assert not missing or name in SHORT_REPLIES, (
                        f"The example of {name} lacks {missing}. {hint}"
                    )


def _find_missing(
    document: dict[str, Any], schema: dict[str, Any], example: Any, place: str = ""
) -> Iterator[str]:
    """Yield the fields that a schema has and its example lacks."""
    schema = resolved(document, schema)
    if isinstance(example, list):
        for one in example:
            yield from _find_missing(document, schema.get("items", {}), one, f"{place}[]")
    if isinstance(example, dict):
        for name, inner in schema.get("properties", {}).items():
            if name not in example:
                yield f"{place}.{name}"
            else:
                yield from _find_missing(document, inner, example[name], f"{place}.{name}")


def _check(document: dict[str, Any], schema: dict[str, Any], example: Any) -> None:
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(example)
