"""Files as they came, kept by their hash: the name that a client gave is never a path here."""

from __future__ import annotations

import hashlib
import json
import os
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
    """`originals/` of the data directory, and `spool/` for what is still coming in."""

    def __init__(self, directory: Path) -> None:
        self._kept = directory / "originals"
        self.spool = Spool(directory / "spool")

    def incoming(self) -> Path:
        """A fresh place for a file that is being received."""
        return self.spool.incoming()

    def keep(self, file: Path) -> str:
        """Move a received file to its place and return its hash."""
        with file.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        place = self._place(sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, place)  # noqa: PTH105  one step, also over an equal file
        return sha256

    def find(self, sha256: str) -> Path | None:
        place = self._place(sha256)
        return place if place.is_file() else None

    def remove(self, sha256: str) -> None:
        self._place(sha256).unlink(missing_ok=True)

    def _place(self, sha256: str) -> Path:
        assert _SHA256.fullmatch(sha256), "a hash and nothing else may name a file"
        return self._kept / sha256[:2] / sha256


_LOCK, _NOTE = ".lock", ".upload"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """An upload that its process did not live to finish, and the names of its files."""

    upload_id: str
    names: tuple[str, ...]


class Spool:
    """The folder `spool/` of a data directory; nothing is created before the first file comes."""

    def __init__(self, directory: Path) -> None:
        self._root = directory
        self._making = threading.Lock()
        self._own: Path | None = None
        self._descriptor = -1

    def incoming(self) -> Path:
        """A fresh place for a file that is being received."""
        return self._folder() / uuid.uuid4().hex

    def begin(self, upload_id: str, names: Sequence[str]) -> None:
        """Note that an upload is being read, before anything else knows of it."""
        note = self._folder() / f"{upload_id}{_NOTE}"
        note.write_text(json.dumps(list(names)), "utf-8")

    def end(self, upload_id: str) -> None:
        if self._own is not None:
            (self._own / f"{upload_id}{_NOTE}").unlink(missing_ok=True)

    def clear(self) -> Iterator[Interrupted]:
        """What dead processes left: each of their uploads; their files are removed."""
        for lock in sorted(self._root.glob(f"*{_LOCK}")):
            descriptor = lock_file(lock)
            if descriptor is None:
                continue
            folder = lock.with_suffix("")
            for note in sorted(folder.glob(f"*{_NOTE}")):
                yield Interrupted(note.stem, _names(note))
            # The lock goes last: killed here, the next start finds the rest.
            shutil.rmtree(folder, ignore_errors=True)
            remove_locked_file(lock, descriptor)

    def close(self) -> None:
        with self._making:
            if self._own is None:
                return
            shutil.rmtree(self._own, ignore_errors=True)
            remove_locked_file(self._own.with_suffix(_LOCK), self._descriptor)
            self._own = None

    def _folder(self) -> Path:
        with self._making:
            while self._own is None:
                self._root.mkdir(parents=True, exist_ok=True)
                lock = self._root / f"{uuid.uuid4().hex}{_LOCK}"
                lock.touch()
                descriptor = lock_file(lock)
                if descriptor is None:  # somebody cleared up between the two lines
                    continue
                self._descriptor, self._own = descriptor, lock.with_suffix("")
                self._own.mkdir()
            return self._own


def _names(note: Path) -> tuple[str, ...]:
    try:
        return tuple(str(name) for name in json.loads(note.read_text("utf-8")))
    except (OSError, ValueError):  # killed while it was being written
        return ()
