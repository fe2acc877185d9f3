"""What every section of the settings is made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, description: str, *names: str, **bounds: Any) -> Any:
    """A described, bounded field that also answers to the design documents' variable `names`."""
    return Field(default, description=description, json_schema_extra={"names": [*names]}, **bounds)


class Section(BaseModel):
    """A part of the settings. Errors do not quote what was given: it may be a secret."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )
