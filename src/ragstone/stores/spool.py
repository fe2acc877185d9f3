"""Files that are still coming in, and the uploads they belong to: what a killed process leaves
behind can be told from what a living one is working on.

Every process has a folder of its own here, and holds a lock beside it for as long as it lives. A
lock that can be taken belongs to nobody any more: its folder holds received files that nobody will
read, and a note for each upload that never came to its end.
"""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragstone.system import lock_file, remove_locked_file

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
