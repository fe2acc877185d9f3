"""Describe the HTTP API: replies that routes share, forms with files, examples, problems."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, TypeAlias

from fastapi import FastAPI

from ragstone.server.schemas import Problem

Replies: TypeAlias = dict[int | str, dict[str, Any]]

NOT_FOUND: Replies = {404: {"model": Problem, "description": "Nothing has that id."}}
INVALID: Replies = {422: {"model": Problem, "description": "The request cannot be used."}}
SEARCH_PROBLEMS: Replies = {
    404: {"model": Problem, "description": "There is no such collection."},
    **INVALID,
}
TOTAL_HEADER = "X-Total-Count"
PAGED: Replies = {
    200: {
        "description": "One page; the header has the number of all.",
        "headers": {TOTAL_HEADER: {"schema": {"type": "integer"}, "description": "All of them."}},
    }
}
BINARY = {"type": "string", "format": "binary"}
JSON_OBJECT = {"type": "string", "description": "A JSON object."}

_PROBLEM_CONTENT = {
    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
}


def describe_form(
    fields: Mapping[str, Any],
    *,
    required: Sequence[str] = (),
    example: Mapping[str, Any],
    alternatives: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Describe a body that is a form with files; `alternatives` are other accepted bodies."""
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = list(required)
    form = {"schema": schema, "example": example}
    content = {"multipart/form-data": form, **(alternatives or {})}
    return {"requestBody": {"required": True, "content": content}}


def install_openapi(app: FastAPI) -> None:
    """Add the problems and the examples of all endpoints to the OpenAPI document."""
    build = app.openapi

    def build_with_examples() -> dict[str, Any]:
        is_new = app.openapi_schema is None
        schema = build()
        if is_new:
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas.setdefault("Problem", Problem.model_json_schema())
            examples = _load_examples()
            for path, operations in schema["paths"].items():
                for method, operation in operations.items():
                    _add_problems(operation["responses"])
                    _add_example(operation, examples.get(f"{method.upper()} {path}"))
        return schema

    # FastAPI documents this as the way to extend its schema.
    app.openapi = build_with_examples  # type: ignore[method-assign]


def _add_problems(responses: dict[str, Any]) -> None:
    for code, response in responses.items():
        if code[0] in "45":
            response["content"] = _PROBLEM_CONTENT
        # A stream has no schema: it is not one value.
        response.get("content", {}).get("text/event-stream", {}).pop("schema", None)
    responses.setdefault(
        "default",
        {"description": "What went wrong, and what to do about it.", "content": _PROBLEM_CONTENT},
    )


def _load_examples() -> dict[str, Any]:
    text = (resources.files("ragstone.server") / "examples.json").read_text("utf-8")
    examples: dict[str, Any] = json.loads(text)
    return examples


def _add_example(operation: dict[str, Any], example: dict[str, Any] | None) -> None:
    if example is None:
        return
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example["params"]:
            parameter["example"] = example["params"][parameter["name"]]
    for key, reply in example["replies"].items():
        status, _, media_type = key.partition(" ")
        operation["responses"][status]["content"][media_type]["example"] = reply
