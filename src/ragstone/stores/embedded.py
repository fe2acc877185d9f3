"""The index that lives beside the catalog: one folder per collection, no server.

The catalog acknowledges a document; this index follows its log of changes. The manifest says how
far it has read and is replaced in one step, after the files it counts are on the disk. A kill in
between costs nothing: the next refresh reads on from the manifest.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ragstone.stages import Catalog, Change, Found, KeyRanges, Vectors
from ragstone.stores import dense
from ragstone.stores.files import replace_file, writing
from ragstone.stores.keyword import KeywordIndex
from ragstone.types import Chunk

log = logging.getLogger(__name__)

# Counts up when an index must be built again: 2 is the analyzer with languages.
_FORMAT = 2
# Changes that are taken in with one commit: large enough to be fast, small enough for memory.
_BATCH_CHUNKS = 20_000


@dataclass(frozen=True, slots=True)
class Manifest:
    """How far an index has read the catalog's changes, and what its files hold then."""

    format: int
    dimension: int
    seq: int = 0
    rows: int = 0
    dead: tuple[tuple[int, int], ...] = ()

    def dead_ranges(self) -> list[range]:
        return [range(first, first + count) for first, count in self.dead]


@dataclass(slots=True)
class _Shelf:
    """One collection's index, open."""

    stamp: tuple[int, int]
    keyword: KeywordIndex
    dense: dense.DenseIndex


class EmbeddedIndex:
    """Keyword and vector search over files in the data directory."""

    def __init__(
        self, catalog: Catalog, directory: Path, *, dimension: int, lock_timeout_s: float
    ) -> None:
        self._catalog = catalog
        self._directory = directory
        self._dimension = dimension
        self._lock_timeout_s = lock_timeout_s
        self._shelves: dict[str, _Shelf] = {}

    def refresh(self, collection: str) -> None:
        manifest = self._manifest(collection)
        if not self._catalog.changes(collection, after=manifest.seq):
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        with writing(self._directory, timeout_s=self._lock_timeout_s):
            manifest = self._manifest(collection)  # another process may have been faster
            pending = self._catalog.changes(collection, after=manifest.seq)
            for batch in _batches(pending):
                manifest = self._apply(collection, manifest, batch)

    def dense(
        self, collection: str, vector: Vectors, *, limit: int, within: KeyRanges = None
    ) -> list[Found]:
        return self._shelf(collection).dense.search(vector, limit=limit, within=within)

    def keyword(
        self, collection: str, text: str, *, limit: int, k1: float, b: float,
        within: KeyRanges = None,
    ) -> list[Found]:  # fmt: skip
        shelf = self._shelf(collection)
        return shelf.keyword.search(text, limit=limit, k1=k1, b=b, within=within)

    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        return self._shelf(collection).dense.vectors(keys)

    def close(self) -> None:
        self._shelves.clear()

    def _folder(self, collection: str) -> Path:
        return self._directory / collection

    def _manifest(self, collection: str) -> Manifest:
        """What is on the disk; an unreadable or foreign manifest counts as nothing."""
        try:
            fields = json.loads((self._folder(collection) / "manifest.json").read_bytes())
            fields["dead"] = tuple((int(a), int(b)) for a, b in fields["dead"])
            manifest = Manifest(**fields)
            if (manifest.format, manifest.dimension) == (_FORMAT, self._dimension):
                return manifest
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as error:
            log.warning("the manifest of %r is damaged, building it again: %s", collection, error)
        return Manifest(_FORMAT, self._dimension)

    def _apply(self, collection: str, before: Manifest, batch: Sequence[Change]) -> Manifest:
        folder = self._folder(collection)
        if before.seq == 0:
            shutil.rmtree(folder, ignore_errors=True)
        removed = [_keys(change) for change in batch if change.kind == "remove"]
        added = [pair for change in batch if change.kind == "add"
                 for pair in self._catalog.indexable(change)]  # fmt: skip
        chunks = [chunk for chunk, _ in added]
        # What a cut-off run may have added already goes first, so that nothing is there twice.
        again = [_keys(change) for change in batch if change.kind == "add"]
        KeywordIndex(folder / "keyword").apply([*removed, *again], chunks)
        rows = dense.append(
            folder / "dense",
            dimension=self._dimension,
            rows=before.rows,
            keys=[chunk.key for chunk in chunks],
            vectors=_stacked(added, self._dimension),
        )
        dead = (*before.dead, *((keys.start, len(keys)) for keys in removed))
        after = replace(before, seq=batch[-1].seq, rows=rows, dead=dead)
        replace_file(folder / "manifest.json", json.dumps(asdict(after)).encode())
        return after

    def _shelf(self, collection: str) -> _Shelf:
        """The open index of a collection, opened again when another process has written."""
        folder = self._folder(collection)
        held = self._shelves.get(collection)
        try:
            status = (folder / "manifest.json").stat()
            stamp = (status.st_mtime_ns, status.st_ino)
        except FileNotFoundError:
            self.refresh(collection)
            stamp = (0, 0)
        if held is None or held.stamp != stamp:
            held = self._shelves[collection] = self._open(collection, stamp)
        return held

    def _open(self, collection: str, stamp: tuple[int, int]) -> _Shelf:
        try:
            return self._read(collection, stamp)
        except (OSError, ValueError) as error:
            # tantivy reports missing and damaged files as ValueError.
            log.warning("the index of %r is damaged, building it again: %s", collection, error)
            (self._folder(collection) / "manifest.json").unlink(missing_ok=True)
            self.refresh(collection)
            return self._read(collection, stamp)

    def _read(self, collection: str, stamp: tuple[int, int]) -> _Shelf:
        folder, manifest = self._folder(collection), self._manifest(collection)
        vectors = dense.DenseIndex(
            folder / "dense",
            dimension=self._dimension,
            rows=manifest.rows,
            dead=manifest.dead_ranges(),
        )
        return _Shelf(stamp, KeywordIndex(folder / "keyword"), vectors)


def _keys(change: Change) -> range:
    return range(change.first_key, change.first_key + change.chunk_count)


def _batches(pending: Sequence[Change]) -> list[list[Change]]:
    batches: list[list[Change]] = []
    size = _BATCH_CHUNKS
    for change in pending:
        if size >= _BATCH_CHUNKS:
            batches.append([])
            size = 0
        batches[-1].append(change)
        size += change.chunk_count
    return batches


def _stacked(added: Sequence[tuple[Chunk, Vectors]], dimension: int) -> Vectors:
    if not added:
        return np.empty((0, dimension), dtype=np.float32)
    return np.stack([vector for _, vector in added])
