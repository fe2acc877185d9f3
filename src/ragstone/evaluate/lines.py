"""Files of JSON lines and of tab-separated values: every refusal names the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragstone.errors import InputError


def bad_line(path: Path, number: int, what: str, hint: str) -> InputError:
    unit = "entry" if path.suffix == ".json" else "line"  # there objects are counted
    return InputError(f"{path}, {unit} {number}: {what}.", hint=hint)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers from 1. Blank ones may stand at the end and nowhere else."""
    blank = 0
    for number, raw in enumerate(_content(path).split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise bad_line(
                path, number, f"the byte 0x{raw[error.start]:02x} is not UTF-8",
                "Save the file in UTF-8.",
            ) from error  # fmt: skip
        if not line.strip():
            blank = blank or number
            continue
        if blank:
            raise bad_line(path, blank, "it is empty", "Remove the line, or fill it.")
        yield number, line


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"The file '{path}' cannot be read: {error.strerror}.", hint="Check its name."
        ) from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise bad_line(path, 1, "the file is in UTF-16", "Save the file in UTF-8.")
    return content.removeprefix(b"\xef\xbb\xbf")


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """One JSON object per line."""
    for number, line in text_lines(path):
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise bad_line(
                path, number, f"it is no JSON ({error.msg}, column {error.colno})",
                "Every line must be one JSON object.",
            ) from error  # fmt: skip
        except RecursionError as error:
            raise bad_line(path, number, "it is nested too deeply", "Write it flat.") from error
        if not isinstance(value, dict):
            raise bad_line(
                path, number, "it is no JSON object", 'Every line must look like {"…": …}.'
            )
        yield number, value


def text_field(path: Path, number: int, row: Mapping[str, Any], *names: str) -> str:
    """The first of the named fields, which must be a text that is not empty."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        if value is not None:
            raise bad_line(
                path, number, f"the field '{name}' holds no text", "Give it a text, or an id."
            )
    raise bad_line(
        path, number, f"the field '{names[0]}' is missing",
        f"It has: {', '.join(map(str, row)) or 'nothing'}.",
    )  # fmt: skip


def texts_field(path: Path, number: int, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A text or a list of texts; nothing when the field is missing or null."""
    value = row.get(name)
    listed = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int) for one in listed):
        raise bad_line(path, number, f"the field '{name}' is no list of texts", 'Write ["…", "…"].')
    return tuple(str(one) for one in listed if str(one).strip())
