"""Which files are meant: paths, folders and globs to a list of files with their size and time."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import IngestError
from ragstone.ingest.load.detect import known_suffixes
from ragstone.ingest.load.read import is_wanted

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
