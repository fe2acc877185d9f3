"""The OpenAPI says of every door what a refusal looks like: a problem document (RFC 9457)."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from ragstone.server.schemas import Problem

_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_CONTENT = {"application/problem+json": {"schema": _REFERENCE}}


def install(app: FastAPI) -> None:
    """Describe the failures of all doors, in one place."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        fresh = app.openapi_schema is None
        schema = plain()
        if fresh:
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            schemas.setdefault("Problem", Problem.model_json_schema())
            for path in schema["paths"].values():
                for operation in path.values():
                    _describe(operation["responses"])
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
