"""Find the files to read: paths, folders and globs in, files with their size and time out."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.catalog.originals import UPLOAD_SCHEME
from ragstone.catalog.uploads import split_source
from ragstone.errors import IngestError, InputError
from ragstone.ingest.formats.read import READABLE_HINT, is_wanted

_WILDCARDS = frozenset("*?[")
_SPECIAL = "It is a pipe, a socket or a device and not a file."


@dataclass(frozen=True, slots=True)
class FoundFile:
    """Name a file to read: where it is, how it is shown, and the source it is stored under."""

    path: Path
    name: str
    source: str
    size: int = -1
    mtime_ns: int = -1


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """List the files to read, and the folders that were searched."""

    files: tuple[FoundFile, ...]
    roots: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Names of files and folders that are not read, each with the reason."""


def find_files(paths: Sequence[Path], *, may_be_empty: bool = False) -> FoundFiles:
    """Return every file named, and every readable file below every folder, in a fixed order."""
    found: dict[str, FoundFile] = {}
    skipped: dict[str, str] = {}
    roots: list[str] = []
    for path in (match for given in paths for match in _expand_glob(given)):
        if path.is_dir():
            root = path.resolve()
            roots.append(escape_path(root))
            inside = list(_walk_folder(root, skipped))
            if not inside and not skipped and not may_be_empty:
                raise IngestError(
                    f"The folder '{path}' holds no documents.",
                    hint=READABLE_HINT,
                )
        elif _is_special(path):
            skipped[escape_path(path)] = _SPECIAL
            continue
        elif path.exists():
            inside = [_read_status(path.resolve(), path.name)]
        elif may_be_empty:
            roots.append(escape_path(path.resolve()))
            continue
        else:
            raise IngestError(
                f"There is no file or folder '{path}'.", hint="Check the spelling of the path."
            )
        for file in inside:
            found.setdefault(file.source, file)
    return FoundFiles(tuple(found.values()), tuple(roots), tuple(skipped.items()))


def name_source(found: FoundFiles, name: str) -> FoundFiles:
    """Put the name of a machine or share before all paths: those of others are not touched."""
    if not name:
        return found
    if split_source(f"{name}:/") != (name, "/") or f"{name}:" == UPLOAD_SCHEME:
        raise InputError(
            f"'{name}' cannot be the name of a source.",
            hint="Use two or more letters, digits, dots, hyphens or underscores, but not 'upload'.",
        )
    return replace(
        found,
        files=tuple(replace(file, source=f"{name}:{file.source}") for file in found.files),
        roots=tuple(f"{name}:{root}" for root in found.roots),
    )


def escape_path(path: Path | str) -> str:
    """Return a path as text that can be stored and shown: bytes that are not UTF-8 become \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _expand_glob(path: Path) -> list[Path]:
    """Return the files that match a pattern, or the path itself if it has no wildcard or exists."""
    try:
        if path.exists() or not _WILDCARDS & set(str(path)):
            return [path]
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  absolute paths too
        return [Path(match) for match in matches if Path(match).is_file()]
    except OSError as error:  # no permission for a folder above it, or the name is too long
        raise IngestError(
            f"'{escape_path(path)}' cannot be reached: {error.strerror}.",
            hint="Check the permissions of the folders above it.",
        ) from error


def _walk_folder(root: Path, skipped: dict[str, str]) -> Iterator[FoundFile]:
    def refuse(error: OSError) -> None:
        raise IngestError(
            f"The folder '{error.filename}' cannot be read: {error.strerror}.",
            hint="Check its permissions.",
        ) from error

    for folder, folders, names in os.walk(root, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in [*links, *sorted(filter(is_wanted, names))]:
            path = Path(folder, name)
            shown = path.relative_to(root).as_posix()
            if reason := _find_reason_to_skip(root, path):
                skipped[escape_path(shown)] = reason
            elif name not in links:
                yield _read_status(path, shown)


def _find_reason_to_skip(root: Path, path: Path) -> str:
    """Say why a file below a folder is not read; empty if it is."""
    if path.is_symlink():
        target = path.resolve()
        # Whoever may write into the folder must not choose which files of the machine are read.
        if not target.is_relative_to(root):
            return "It is a link to a place outside the folder."
        if target.is_dir():
            return "It is a link to a folder that is read under its own name."
    return _SPECIAL if _is_special(path) else ""


def _is_special(path: Path) -> bool:
    """Tell whether a path is a pipe, a socket or a device: reading it may never end."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _read_status(path: Path, name: str) -> FoundFile:
    name, source = escape_path(name), escape_path(path)
    try:
        status = path.stat()
    except OSError:
        return FoundFile(path, name, source)  # the parser reports what is wrong with it
    return FoundFile(path, name, source, status.st_size, status.st_mtime_ns)
