"""Store uploaded files under their hash: a client's file name is never used as a path."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.system import lock_file, remove_locked_file

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Originals:
    """Manage `originals/` of the data directory, and `spool/` for files being received."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "originals"
        self.spool = Spool(directory / "spool")

    def new_path(self) -> Path:
        """Return an unused path for a file that is being received."""
        return self.spool.new_path()

    def store(self, file: Path) -> str:
        """Move a received file to `originals/` and return its hash."""
        with file.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        path = self._path(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        file.replace(path)
        return sha256

    def find(self, sha256: str) -> Path | None:
        path = self._path(sha256)
        return path if path.is_file() else None

    def remove(self, sha256: str) -> None:
        self._path(sha256).unlink(missing_ok=True)

    def _path(self, sha256: str) -> Path:
        assert _SHA256.fullmatch(sha256), f"not a SHA-256 hash: {sha256!r}"
        return self._directory / sha256[:2] / sha256


_LOCK_SUFFIX, _UPLOAD_SUFFIX = ".lock", ".upload"


@dataclass(frozen=True, slots=True)
class InterruptedUpload:
    """Name an upload whose process ended before it was finished, and its files."""

    upload_id: str
    names: tuple[str, ...]


class Spool:
    """Manage `spool/` of a data directory: one locked folder per process, created when needed."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._descriptor = -1

    def new_path(self) -> Path:
        """Return an unused path for a file that is being received."""
        return self._open_folder() / uuid.uuid4().hex

    def begin_upload(self, upload_id: str, names: Sequence[str]) -> None:
        """Write down that an upload is being read, before anything else refers to it."""
        note = self._open_folder() / f"{upload_id}{_UPLOAD_SUFFIX}"
        note.write_text(json.dumps(list(names)), "utf-8")

    def end_upload(self, upload_id: str) -> None:
        if self._folder is not None:
            (self._folder / f"{upload_id}{_UPLOAD_SUFFIX}").unlink(missing_ok=True)

    def clear_abandoned(self) -> Iterator[InterruptedUpload]:
        """Delete the folders of ended processes; yield their unfinished uploads."""
        for lock in sorted(self._root.glob(f"*{_LOCK_SUFFIX}")):
            descriptor = lock_file(lock)
            if descriptor is None:
                continue
            folder = lock.with_suffix("")
            for note in sorted(folder.glob(f"*{_UPLOAD_SUFFIX}")):
                yield InterruptedUpload(note.stem, _read_names(note))
            # The lock file is deleted last: after a kill here, the next start finds the rest.
            shutil.rmtree(folder, ignore_errors=True)
            remove_locked_file(lock, descriptor)

    def close(self) -> None:
        with self._lock:
            if self._folder is None:
                return
            shutil.rmtree(self._folder, ignore_errors=True)
            remove_locked_file(self._folder.with_suffix(_LOCK_SUFFIX), self._descriptor)
            self._folder = None

    def _open_folder(self) -> Path:
        with self._lock:
            while self._folder is None:
                self._root.mkdir(parents=True, exist_ok=True)
                lock = self._root / f"{uuid.uuid4().hex}{_LOCK_SUFFIX}"
                lock.touch()
                descriptor = lock_file(lock)
                if descriptor is None:  # another process cleared it between the two lines
                    continue
                self._descriptor, self._folder = descriptor, lock.with_suffix("")
                self._folder.mkdir()
            return self._folder


def _read_names(note: Path) -> tuple[str, ...]:
    try:
        return tuple(str(name) for name in json.loads(note.read_text("utf-8")))
    except (OSError, ValueError):  # the process ended while it was writing
        return ()
