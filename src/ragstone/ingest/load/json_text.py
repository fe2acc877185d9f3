"""JSON and JSON Lines: laid out for reading, each record kept whole where it fits."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from ragstone.errors import IngestError
from ragstone.ingest.load.compose import Composer
from ragstone.ingest.load.text import decode
from ragstone.reading import Loaded, LoadOptions


class JsonLoader:
    """One value, or one per line."""

    media_type: ClassVar[str] = "application/json"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson", ".geojson", ".ipynb")

    def load(self, content: bytes, options: LoadOptions) -> Loaded:
        text = decode(content)
        composer = Composer()
        for record in _records(text):
            if _is_notebook(record):
                _notebook(record, composer)
            elif isinstance(record, dict) and "text" not in record and len(record) <= 200:
                _object(record, composer)
            else:
                composer.code(_laid_out(record))
        return composer.loaded(self.media_type)


def _records(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise IngestError(
            "The JSON is nested too deeply to be read.", hint="Flatten it first."
        ) from error
    except json.JSONDecodeError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            return [json.loads(line) for line in lines]
        except (json.JSONDecodeError, RecursionError):
            raise IngestError(
                f"The JSON is damaged: {error}.", hint="Check it with a JSON validator."
            ) from error
    return list(value) if isinstance(value, list) else [value]


def _laid_out(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1)


def _object(record: dict[str, Any], composer: Composer) -> None:
    """The members of an object one by one, so that none is cut that fits."""
    for key, value in record.items():
        composer.code(f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(value)}")


def _is_notebook(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("cells"), list)
        and ("nbformat" in record)
    )


def _notebook(record: dict[str, Any], composer: Composer) -> None:
    for cell in record["cells"]:
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", "")
        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
        if cell.get("cell_type") == "code":
            composer.code(text)
        else:
            for line in text.split("\n\n"):
                marks = len(line) - len(line.lstrip("#"))
                if 1 <= marks <= 6 and line[marks : marks + 1] == " ":
                    composer.heading(marks, line[marks:].split("\n")[0])
                    composer.paragraph(line.partition("\n")[2])
                else:
                    composer.paragraph(line)
