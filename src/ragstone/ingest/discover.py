"""Find the files to read: paths, folders and globs in, files with their size and time out."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragstone.catalog.originals import UPLOAD_SCHEME
from ragstone.catalog.uploads import split_source
from ragstone.errors import IngestError, InputError
from ragstone.ingest.formats.read import READABLE_HINT, is_hidden, is_wanted

_WILDCARDS = frozenset("*?[")
# A watched folder in which nothing changes is read again after this time: a file or a store may
# have failed for a reason that has passed.
FAILED_AGAIN_S = 60.0
# Larger files are read last, the largest at the end.
_LARGE_BYTES = 500_000
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
class UnreadFolder:
    """Name a folder below a given one that could not be listed, and the reason."""

    name: str
    source: str
    error: str
    hint: str = "Check its permissions."

    def holds(self, source: str) -> bool:
        """Return whether a source is in this folder, so that it may still exist."""
        return source.startswith((f"{self.source}/", f"{self.source}\\"))


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """List the files to read, and the folders that were searched."""

    files: tuple[FoundFile, ...]
    roots: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Names of files and folders that are not read, each with the reason."""
    unread: tuple[UnreadFolder, ...] = ()
    left_out: tuple[str, ...] = ()
    """Names of files below a folder whose type is not read."""

    @property
    def listing(self) -> frozenset[tuple[str, int, int]]:
        """What is different as soon as a file is new, changed or gone."""
        return frozenset((file.source, file.size, file.mtime_ns) for file in self.files)


@dataclass(slots=True)
class _Listing:
    """Collect what is found, by its source or name."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    unread: list[UnreadFolder] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, files: Iterable[FoundFile]) -> int:
        """Add files that are not listed yet; return how many were given."""
        given = list(files)
        for file in given:
            self.files.setdefault(file.source, file)
        return len(given)


def find_files(paths: Sequence[Path], *, may_be_empty: bool = False) -> FoundFiles:
    """Return every file named, and every readable file below every folder, in a fixed order.

    A path that does not exist, a pattern that matches no file and an empty folder are errors,
    unless the list `may_be_empty`.
    """
    found = _Listing()
    for given in paths:
        matches = _expand_glob(given)
        if not matches and not may_be_empty:
            raise IngestError(
                f"No file matches '{escape_path(given)}'.",
                hint="Nothing was read. Check the spelling of the pattern."
                if len(paths) > 1
                else "Check the spelling of the pattern.",
            )
        for path in matches:
            if path.exists() or may_be_empty:
                _add_path(path, found, may_be_empty=may_be_empty)
                continue
            raise IngestError(
                f"There is no file or folder '{path}'.",
                hint="Nothing was read. Check the spelling of the path."
                if len(paths) > 1
                else "Check the spelling of the path.",
            )
    return FoundFiles(
        tuple(found.files.values()),
        tuple(found.roots),
        tuple(found.skipped.items()),
        tuple(found.unread),
        tuple(found.left_out),
    )


def _add_path(path: Path, found: _Listing, *, may_be_empty: bool) -> None:
    if path.is_dir():
        root = path.resolve()
        found.roots.append(escape_path(root))
        count = found.add(_walk_folder(root, found))
        if not (count or found.skipped or found.unread or may_be_empty):
            raise IngestError(f"The folder '{path}' holds no documents.", hint=READABLE_HINT)
    elif _is_special(path):
        found.skipped[escape_path(path)] = _SPECIAL
    elif path.exists():
        found.add([_read_status(path.resolve(), path.name)])
    else:
        found.roots.append(escape_path(path.resolve()))


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
        unread=tuple(replace(one, source=f"{name}:{one.source}") for one in found.unread),
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


def _walk_folder(root: Path, found: _Listing) -> Iterator[FoundFile]:
    def record(error: OSError) -> None:
        """Go on without a folder that cannot be listed, unless it is the one that was given."""
        reason = f"The folder '{error.filename}' cannot be read: {error.strerror}."
        folder = Path(error.filename)
        if folder == root:
            raise IngestError(reason, hint="Check its permissions.") from error
        name = escape_path(folder.relative_to(root).as_posix())
        found.unread.append(UnreadFolder(name, escape_path(folder), reason))

    for folder, folders, names in os.walk(root, onerror=record):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in [*links, *sorted(names)]:
            path = Path(folder, name)
            shown = path.relative_to(root).as_posix()
            if name not in links and not is_wanted(name):
                if not is_hidden(name):
                    found.left_out.append(escape_path(shown))
            elif reason := _find_reason_to_skip(root, path):
                found.skipped[escape_path(shown)] = reason
            elif name not in links:
                yield _read_status(path, shown)


def _find_reason_to_skip(root: Path, path: Path) -> str:
    """Say why a file below a folder is not read; empty if it is."""
    if path.is_symlink():
        if not path.exists():
            return "It is a link to a place that does not exist."
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


def measure_if_large(file: FoundFile) -> int:
    """Return the size of a large file, 0 for others: they stay in their order."""
    size = file.size
    if size < 0:  # an upload
        with suppress(OSError):
            size = file.path.stat().st_size
    return size if size > _LARGE_BYTES else 0
