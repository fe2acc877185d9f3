"""Store uploaded files under their hash: a client's file name is never used as a path.

Files are received into `spool/` of this machine, then moved to a `FileStore`: the folder
`originals/`, or a bucket of an object store (`s3.py`) that several machines share.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ragstone.files import hold_writer_lock, sync_file
from ragstone.protocols import ReceivedFile
from ragstone.settings.services import OriginalsSettings
from ragstone.system import lock_file, remove_locked_file, sync_directory

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileStore(Protocol):
    """Store files under their SHA-256, in a folder or in an object store."""

    is_local: bool
    """Whether reading all files costs nothing but time."""

    def put(self, files: Mapping[str, Path]) -> None:
        """Store local files by their hashes; no kill loses them after this. The files are gone."""
        ...

    def find(self, sha256: str) -> Path | None:
        """Return a local file with these bytes, or None if the store has none."""
        ...

    def remove(self, sha256: str) -> None: ...
    def list_hashes(self) -> Iterator[str]: ...
    def delete_old_copies(self) -> None:
        """Delete what was only copied here to be read."""
        ...

    def close(self) -> None: ...


class FolderStore:
    """Implement `FileStore` on the folder `originals/` of a data directory."""

    is_local = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, files: Mapping[str, Path]) -> None:
        """Move received files in place; they survive a power cut."""
        folders = {self.path(sha256).parent for sha256 in files}
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for sha256, file in files.items():
            file.replace(self.path(sha256))
        for folder in {*folders, self._directory}:
            sync_directory(folder)

    def find(self, sha256: str) -> Path | None:
        path = self.path(sha256)
        return path if path.is_file() else None

    def remove(self, sha256: str) -> None:
        self.path(sha256).unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Return the place of a file with this hash, whether it exists or not."""
        assert _SHA256.fullmatch(sha256), f"not a SHA-256 hash: {sha256!r}"
        return self._directory / sha256[:2] / sha256

    def list_hashes(self) -> Iterator[str]:
        """Yield the hash of every stored file, by its name."""
        for path in sorted(self._directory.glob("??/*")):
            if _SHA256.fullmatch(path.name):
                yield path.name

    def delete_old_copies(self) -> None:
        """Do nothing: files are read where they are."""

    def close(self) -> None:
        """Do nothing: it holds no connection."""


class Originals:
    """Receive files into `spool/` of the data directory, and store them under their hashes."""

    def __init__(self, directory: Path, files: FileStore | None = None) -> None:
        self._root = directory
        self.files: FileStore = files or FolderStore(directory / "originals")
        self.spool = Spool(directory / "spool")

    @classmethod
    def from_settings(cls, directory: Path, options: OriginalsSettings) -> Originals:
        """Open the bucket that the settings name, or the folder in the data directory."""
        if not options.bucket:
            return cls(directory)
        from ragstone.catalog.s3 import S3Store

        return cls(directory, S3Store(options, directory / "copies"))

    def new_path(self) -> Path:
        """Return an unused path for a file that is being received."""
        return self.spool.new_path()

    def receive(self, name: str, file: Path) -> ReceivedFile:
        """Make a received file durable and return its hash; it is not in the store yet."""
        sync_file(file)
        with file.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        return ReceivedFile(name, sha256, file.stat().st_size)

    @contextmanager
    def keep_all(self, *, timeout_s: float) -> Iterator[None]:
        """Let no process remove a file meanwhile: a backup needs all that its catalog names."""
        with hold_writer_lock(self._root, timeout_s=timeout_s, name="files.lock"):
            yield


_LOCK_SUFFIX = ".lock"


class Spool:
    """Manage `spool/` of a data directory: one locked folder per process, created when needed."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._descriptor = -1

    @property
    def name(self) -> str:
        """The name of this process's folder; it stays locked as long as the process lives."""
        return self._open_folder().name

    def new_path(self) -> Path:
        """Return an unused path for a file that is being received."""
        return self._open_folder() / uuid.uuid4().hex

    def clear_abandoned(self) -> Iterator[str]:
        """Yield the names of ended processes, then delete what they had received only in part."""
        for lock in sorted(self._root.glob(f"*{_LOCK_SUFFIX}")):
            descriptor = lock_file(lock)
            if descriptor is None:
                continue
            yield lock.stem
            # The lock file is deleted last: after a kill here, the next start finds the rest.
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            remove_locked_file(lock, descriptor)

    def close(self, *, is_finished: bool = True) -> None:
        """Release the folder; the next process takes over what is not finished."""
        with self._lock:
            if self._folder is None:
                return
            shutil.rmtree(self._folder, ignore_errors=True)
            if is_finished:
                remove_locked_file(self._folder.with_suffix(_LOCK_SUFFIX), self._descriptor)
            else:
                os.close(self._descriptor)
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
