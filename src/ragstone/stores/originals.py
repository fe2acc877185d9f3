"""Files as they came, kept by their hash: the name that a client gave is never a path here."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from ragstone.stores.spool import Spool

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
