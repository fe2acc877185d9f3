"""What an embedded index holds: one small file that is replaced in one step.

It names the folders that count and how far the catalog's changes have been taken in. Files that
it does not name are left-overs of a run that was cut off.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from ragstone.stores.files import replace_file

log = logging.getLogger(__name__)

# Counts up when an index must be built again.
FORMAT = 6
_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """`generation` numbers the folders; `dead` are spans of keys (first, count)."""

    dimension: int
    catalog: int
    format: int = FORMAT
    seq: int = 0
    keyword_generation: int = 0
    dense_generation: int = 0
    rows: int = 0
    dead: tuple[tuple[int, int], ...] = ()
    code_rows: int = 0
    trained_rows: int = 0

    def dead_ranges(self) -> list[range]:
        return [range(first, first + count) for first, count in self.dead]

    def dead_rows(self) -> int:
        return sum(count for _, count in self.dead)

    def keyword_folder(self, shelf: Path) -> Path:
        return shelf / f"keyword-{self.keyword_generation}"

    def dense_folder(self, shelf: Path) -> Path:
        return shelf / f"dense-{self.dense_generation}"

    def codes_file(self, shelf: Path) -> Path:
        return self.dense_folder(shelf) / f"codes-{self.code_rows}.faiss"


def read(shelf: Path, nothing: Manifest) -> Manifest:
    """What is on the disk. A manifest that is missing, damaged, of another format or dimension,
    or that follows another catalog, counts as `nothing`."""
    try:
        fields = json.loads((shelf / _NAME).read_bytes())
        fields["dead"] = tuple((int(first), int(count)) for first, count in fields["dead"])
        found = Manifest(**fields)
    except OSError:
        return nothing
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the manifest of the index %s is damaged: %s", shelf.name, error)
        return nothing
    same = ("format", "dimension", "catalog")
    return found if all(getattr(found, n) == getattr(nothing, n) for n in same) else nothing


def write(shelf: Path, manifest: Manifest) -> None:
    """Publish, then clear away what is no longer named."""
    replace_file(shelf / _NAME, json.dumps(asdict(manifest)).encode())
    clear_unpublished(shelf, manifest)
    for codes in manifest.dense_folder(shelf).glob("codes-*.faiss"):
        if codes != manifest.codes_file(shelf):
            codes.unlink(missing_ok=True)


def clear_unpublished(shelf: Path, published: Manifest) -> None:
    """Remove the folders that a failed build left; they may fill the disk."""
    named = {published.keyword_folder(shelf), published.dense_folder(shelf)}
    for folder in shelf.glob("*-*"):
        if folder.is_dir() and folder not in named:
            shutil.rmtree(folder, ignore_errors=True)


def stamp(shelf: Path) -> tuple[int, int] | None:
    """Changes whenever the manifest does; None when there is none."""
    try:
        status = (shelf / _NAME).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
