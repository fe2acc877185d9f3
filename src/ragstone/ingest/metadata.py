"""Check, convert and complete the metadata of documents: it must be JSON that can be sent back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ragstone.blocks import LoadedDocument
from ragstone.errors import InputError
from ragstone.ingest.formats.compose import clean_text
from ragstone.text import is_storable

_MAX_DEPTH = 20
_MAX_CHARS = 100_000
_HINT = "Use texts, numbers, true, false, null, lists and objects of these."
# More text does not change the result, and the classifier's time grows with it.
_LANGUAGE_CHARS = 2_000
_LETTER = re.compile(r"[^\W\d_]")


def to_json_value(value: Any, *, depth: int = 0) -> Any:
    """Convert any value to JSON: drop unprintable characters, turn other types into text."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool | int | None):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth < _MAX_DEPTH:  # YAML can refer back to itself without end
        if isinstance(value, Mapping):
            return {
                clean_text(str(key)): to_json_value(inner, depth=depth + 1)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [to_json_value(inner, depth=depth + 1) for inner in value]
    return clean_text(str(value))


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Refuse metadata that is too large or that JSON cannot hold."""
    if _count_chars(metadata, depth=0) > _MAX_CHARS:
        raise InputError(
            f"The metadata is longer than {_MAX_CHARS} characters.",
            hint="Put long texts into the document itself.",
        )


def _count_chars(value: Any, *, depth: int) -> int:
    """Count the characters, roughly; raise an InputError for a value that JSON cannot hold."""
    if depth > _MAX_DEPTH:
        raise InputError(
            f"The metadata is nested deeper than {_MAX_DEPTH} levels.", hint="Flatten it."
        )
    if isinstance(value, Mapping):
        return sum(_count_chars(part, depth=depth + 1) for item in value.items() for part in item)
    if isinstance(value, list | tuple):
        return sum(_count_chars(inner, depth=depth + 1) for inner in value)
    if isinstance(value, str):
        if not is_storable(value):
            raise InputError(
                "The metadata holds a NUL or an incomplete Unicode character.", hint=_HINT
            )
        return len(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"The metadata holds a number that JSON cannot hold: {value}.", hint=_HINT)
    if not isinstance(value, int | float | bool | None):
        raise InputError(f"The metadata holds a value of type {type(value).__name__}.", hint=_HINT)
    return len(str(value))


def complete_metadata(loaded: LoadedDocument) -> dict[str, Any]:
    """Add a title and a language to the loader's metadata, if the text has them."""
    metadata = dict(loaded.metadata)
    # The first heading of a workbook is the name of its first sheet.
    is_workbook = "spreadsheet" in loaded.media_type
    if not metadata.get("title") and loaded.headings and not is_workbook:
        metadata["title"] = loaded.headings[0].title
    language = detect_language(loaded.text)
    if language:
        metadata["language"] = language
    return metadata


def detect_language(text: str) -> str | None:
    """Return the ISO 639-1 code of the most likely language; None for too little text."""
    sample = text[:_LANGUAGE_CHARS]
    if len(_LETTER.findall(sample)) < 20:
        return None
    import py3langid

    return str(py3langid.classify(sample)[0])
