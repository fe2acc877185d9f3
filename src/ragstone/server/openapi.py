"""The OpenAPI says of every door what a refusal looks like (RFC 9457), and shows what was sent
and what came back once (`examples.json`, see scripts/openapi_examples.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from fastapi import FastAPI

from ragstone.server.schemas import Problem

_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_CONTENT = {"application/problem+json": {"schema": _REFERENCE}}


BINARY = {"type": "string", "format": "binary"}
JSON_OBJECT = {"type": "string", "description": "A JSON object."}


def form(
    fields: Mapping[str, Any], *, required: Sequence[str] = (), example: Mapping[str, Any],
    or_else: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A body that is a form with files; `or_else` are other kinds that the door takes."""
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = list(required)
    content = {"multipart/form-data": {"schema": schema, "example": example}, **(or_else or {})}
    return {"requestBody": {"required": True, "content": content}}


def install(app: FastAPI) -> None:
    """Describe the failures of all doors, in one place."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        fresh = app.openapi_schema is None
        schema = plain()
        if fresh:
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas.setdefault("Problem", Problem.model_json_schema())
            shown = _examples()
            for path, operations in schema["paths"].items():
                for method, operation in operations.items():
                    _describe(operation["responses"])
                    _show(operation, shown.get(f"{method.upper()} {path}"))
        return schema

    # Replacing the method is how FastAPI wants its schema extended.
    app.openapi = described  # type: ignore[method-assign]


def _describe(responses: dict[str, Any]) -> None:
    for code, response in responses.items():
        if code[0] in "45":
            response["content"] = _CONTENT
        # A stream has no schema: it is no one value.
        response.get("content", {}).get("text/event-stream", {}).pop("schema", None)
    responses.setdefault(
        "default",
        {"description": "What went wrong, and what to do about it.", "content": _CONTENT},
    )


def _examples() -> dict[str, Any]:
    text = (resources.files("ragstone.server") / "examples.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _show(operation: dict[str, Any], example: dict[str, Any] | None) -> None:
    if example is None:
        return
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example["params"]:
            parameter["example"] = example["params"][parameter["name"]]
    for which, reply in example["replies"].items():
        status, _, kind = which.partition(" ")
        operation["responses"][status]["content"][kind]["example"] = reply
