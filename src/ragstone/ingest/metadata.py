"""What is said about documents: JSON that every store can keep and every reply can hold.

A file's own metadata → made plain; a caller's → refused with the reason where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ragstone.errors import InputError
from ragstone.ingest.load.compose import clean

_DEEPEST = 20
_LARGEST_CHARS = 100_000
_HINT = "Use texts, numbers, true, false, null, lists and objects of these."


def plain(value: Any, *, depth: int = 0) -> Any:
    """Any value as JSON has it: what cannot be shown is left out, what JSON lacks becomes text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool | int | None):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth < _DEEPEST:  # what YAML refers back to may have no end
        if isinstance(value, Mapping):
            return {clean(str(key)): plain(inner, depth=depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner, depth=depth + 1) for inner in value]
    return clean(str(value))


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Refuse what could be stored but never be sent back, and what is no description any more."""
    size = _check(metadata, depth=0)
    if size > _LARGEST_CHARS:
        raise InputError(
            f"The metadata is longer than {_LARGEST_CHARS} characters.",
            hint="Put what is to be found into the document.",
        )


def _check(value: Any, *, depth: int) -> int:
    """The size in characters, roughly."""
    if depth > _DEEPEST:
        raise InputError(f"The metadata is nested deeper than {_DEEPEST}.", hint="Flatten it.")
    if isinstance(value, Mapping):
        return sum(_check(part, depth=depth + 1) for item in value.items() for part in item)
    if isinstance(value, list | tuple):
        return sum(_check(inner, depth=depth + 1) for inner in value)
    if isinstance(value, str):
        if value != value.encode("utf-8", "ignore").decode().replace("\0", ""):
            raise InputError("The metadata holds a character that is no text.", hint=_HINT)
        return len(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"The metadata holds a number that JSON lacks: {value}.", hint=_HINT)
    if not isinstance(value, int | float | bool | None):
        raise InputError(f"The metadata holds a {type(value).__name__}.", hint=_HINT)
    return len(str(value))
