"""Which files are meant: paths, folders and globs to a list of files with their size and time."""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.blocks import Loaded
from ragstone.errors import IngestError, InputError
from ragstone.ingest.formats.compose import clean
from ragstone.ingest.formats.detect import is_wanted, known_suffixes

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read, the name it is shown by, and the source it is known as."""

    path: Path
    name: str
    source: str
    size: int = -1
    mtime_ns: int = -1


@dataclass(frozen=True, slots=True)
class Found:
    """The files that were meant, and the folders they were looked for in."""

    files: tuple[FoundFile, ...]
    roots: tuple[str, ...]


def find_files(paths: Sequence[Path], *, may_be_empty: bool = False) -> Found:
    """Every file named, and every readable type below every folder named, in a fixed order."""
    found: dict[str, FoundFile] = {}
    roots: list[str] = []
    for path in (one for given in paths for one in _reachable(given)):
        if path.is_dir():
            root = path.resolve()
            roots.append(str(root))
            inside = list(_walk(root))
            if not inside and not may_be_empty:
                raise IngestError(
                    f"The folder '{path}' holds no documents.",
                    hint=f"Ragstone reads {', '.join(sorted(known_suffixes()))} files.",
                )
        elif path.exists():
            inside = [_with_status(path.resolve(), path.name)]
        elif may_be_empty:
            roots.append(str(path.resolve()))
            continue
        else:
            raise IngestError(
                f"There is no file or folder '{path}'.", hint="Check the spelling of the path."
            )
        for file in inside:
            found.setdefault(file.source, file)
    return Found(tuple(found.values()), tuple(roots))


def _reachable(path: Path) -> list[Path]:
    try:
        return _expanded(path)
    except OSError as error:  # a folder above it is locked, or its name is too long for any file
        raise IngestError(
            f"'{printable(path)}' cannot be reached: {error.strerror}.",
            hint="Check the permissions of the folders above it.",
        ) from error


def printable(path: Path | str) -> str:
    """A path as text that can be stored and shown: bytes that are no UTF-8 become \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _expanded(path: Path) -> list[Path]:
    """A path, or what a pattern in it stands for; a file of that very name comes first."""
    if path.exists() or not _WILDCARDS & set(str(path)):
        return [path]
    matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  takes ~ and absolute
    return [Path(match) for match in matches if Path(match).is_file()]


def _walk(root: Path) -> Iterator[FoundFile]:
    def refuse(error: OSError) -> None:
        raise IngestError(
            f"The folder '{error.filename}' cannot be read: {error.strerror}.",
            hint="Check its permissions.",
        ) from error

    for folder, folders, names in os.walk(root, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if is_wanted(name):
                path = Path(folder, name)
                yield _with_status(path, path.relative_to(root).as_posix())


def _with_status(path: Path, name: str) -> FoundFile:
    shown, source = printable(name), printable(path)
    try:
        status = path.stat()
    except OSError:
        return FoundFile(path, shown, source)  # its reader says what is wrong with it
    return FoundFile(path, shown, source, status.st_size, status.st_mtime_ns)


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


# More text does not change the verdict, and the classifier's time grows with it.
_LANGUAGE_CHARS = 2_000
_LETTER = re.compile(r"[^\W\d_]")


def describe(loaded: Loaded) -> dict[str, Any]:
    """The loader's metadata with a title and a language, where the text tells."""
    metadata = dict(loaded.metadata)
    if not metadata.get("title") and loaded.headings:
        metadata["title"] = loaded.headings[0].title
    language = detect_language(loaded.text)
    if language:
        metadata["language"] = language
    return metadata


def detect_language(text: str) -> str | None:
    """The ISO 639-1 code of the language a text is most likely in; None for too little text."""
    sample = text[:_LANGUAGE_CHARS]
    if len(_LETTER.findall(sample)) < 20:
        return None
    import py3langid

    return str(py3langid.classify(sample)[0])
