"""What an embedded index holds: one small file that is replaced in one step.

It names the folders that count and how far the catalog's changes have been taken in. Files that
it does not name are left-overs of a run that was cut off.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ragstone.catalog.rows import joined
from ragstone.errors import StoreBusyError, StoreError
from ragstone.files import replace_file, sync_file, writing
from ragstone.index import vectors
from ragstone.index.keyword import KeywordIndex
from ragstone.index.vectors import EXACT_ROWS, Codes, DenseIndex, VectorFile, covered
from ragstone.plugins import IndexContext
from ragstone.protocols import Catalog, Change, Found, IndexCounts, Vectors, Within

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


def read_manifest(shelf: Path, nothing: Manifest) -> Manifest:
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


def write_manifest(shelf: Path, manifest: Manifest) -> None:
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


def manifest_stamp(shelf: Path) -> tuple[int, int] | None:
    """Changes whenever the manifest does; None when there is none."""
    try:
        status = (shelf / _NAME).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


# Chunks that are taken in with one commit: large enough to be fast, small enough for memory.
_BATCH_CHUNKS = 20_000
# How often a reader asks whether a writer died before it had told the index.
_CATCH_UP_SECONDS = 1.0
# Codes are written anew when this share of the rows is not in the file, and learnt anew when the
# collection has grown this many times; vectors are written anew when this share of them is dead.
_UNWRITTEN_SHARE = 0.25
_GROWTH_UNTIL_TRAINED = 4
_DEAD_SHARE = 0.25
# tantivy reports missing, damaged and unwritable files as ValueError, faiss as RuntimeError.
_DAMAGE = (OSError, ValueError, RuntimeError)
_LOOKS = 3


@dataclass(slots=True)
class _Shelf:
    """One collection's index, open."""

    stamp: tuple[int, int] | None
    manifest: Manifest
    keyword: KeywordIndex
    dense: DenseIndex
    codes: Codes | None
    checked_at: float


class EmbeddedIndex:
    """Keyword and vector search over files in the data directory."""

    def __init__(
        self, catalog: Catalog, directory: Path, *, dimension: int, lock_timeout_s: float
    ) -> None:
        self._catalog = catalog
        self._directory = directory
        self._dimension = dimension
        self._lock_timeout_s = lock_timeout_s
        self._nothing = Manifest(dimension, catalog.identity())
        self._shelves: dict[str, _Shelf] = {}
        self._opening = threading.RLock()

    def refresh(self, collection: str) -> None:
        self._refresh(collection, timeout_s=self._lock_timeout_s)

    def rebuild(self, collection: str) -> None:
        with writing(self._directory, timeout_s=self._lock_timeout_s):
            self._take_in(collection, self._nothing)

    def counts(self, collection: str) -> IndexCounts:
        shelf = self._shelf(collection)
        return IndexCounts(dense=len(shelf.dense), keyword=len(shelf.keyword))

    def last_change(self, collection: str) -> int:
        return self._shelf(collection).manifest.seq

    def dense(
        self, collection: str, vector: Vectors, *, limit: int, within: Within | None = None
    ) -> list[Found]:
        return self._shelf(collection).dense.search(vector, limit=limit, within=within)

    def keyword(
        self, collection: str, text: str, *, limit: int, k1: float, b: float,
        within: Within | None = None,
    ) -> list[Found]:  # fmt: skip
        shelf = self._shelf(collection)
        return shelf.keyword.search(text, limit=limit, k1=k1, b=b, within=within)

    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        return self._shelf(collection).dense.vectors(keys)

    def close(self) -> None:
        self._shelves.clear()

    def _folder(self, collection: str) -> Path:
        return self._directory / collection

    def _refresh(self, collection: str, *, timeout_s: float) -> None:
        before = read_manifest(self._folder(collection), self._nothing)
        if not self._catalog.changes(collection, after=before.seq, limit=1):
            return
        with writing(self._directory, timeout_s=timeout_s):
            # Another process may have been faster.
            before = read_manifest(self._folder(collection), self._nothing)
            self._take_in(collection, before)

    def _take_in(self, collection: str, before: Manifest) -> None:
        """Follow the changes after a manifest; if its files are damaged, from the beginning."""
        try:
            self._follow(collection, before)
        except _DAMAGE as error:
            shelf = self._folder(collection)
            clear_unpublished(shelf, read_manifest(shelf, self._nothing))
            if not before.seq:
                raise StoreError(
                    f"The index of '{collection}' cannot be written: {error}.",
                    hint="Make room or check permissions; the documents are safe in the catalog "
                    "and are indexed at the next start.",
                ) from error
            log.warning("the index of %r is damaged and is built again: %s", collection, error)
            self._take_in(collection, self._nothing)

    def _follow(self, collection: str, before: Manifest) -> None:
        """Apply all changes after a manifest. From nothing, it is published only when whole, so
        that no reader ever sees half an index."""
        shelf = self._folder(collection)
        if before.seq == 0:
            before = _next_generation(shelf, before)
        after = before
        for batch in self._batches(collection, before.seq):
            after = self._apply(shelf, after, batch)
            if before.seq:
                after = self._publish(shelf, after)
        if not before.seq and after.seq:
            self._publish(shelf, after)

    def _batches(self, collection: str, seq: int) -> Iterator[list[Change]]:
        while pending := self._catalog.changes(collection, after=seq, limit=_BATCH_CHUNKS):
            batch: list[Change] = []
            size = 0
            for change in pending:
                if size >= _BATCH_CHUNKS:
                    break
                batch.append(change)
                size += change.chunk_count
            yield batch
            seq = batch[-1].seq

    def _apply(self, shelf: Path, before: Manifest, batch: Sequence[Change]) -> Manifest:
        removed = [change.keys for change in batch if change.kind == "remove"]
        added = [change.keys for change in batch if change.kind == "add"]
        chunks, embeddings = self._catalog.indexable(added, dimension=self._dimension)
        # What a run that was cut off may have added goes first, so that nothing is there twice.
        KeywordIndex.create(before.keyword_folder(shelf)).apply([*removed, *added], chunks)
        keys = [chunk.key for chunk in chunks]
        rows = vectors.append(
            before.dense_folder(shelf), rows=before.rows, keys=keys, vectors=embeddings
        )
        dead = joined(sorted([*before.dead_ranges(), *removed], key=lambda keys: keys.start))
        return replace(before, seq=batch[-1].seq, rows=rows, dead=_pairs(dead))

    def _publish(self, shelf: Path, given: Manifest) -> Manifest:
        """Make a manifest what readers see, tidied up where that is due."""
        file = VectorFile.open(
            given.dense_folder(shelf), dimension=self._dimension, rows=given.rows
        )
        if given.dead_rows() > max(EXACT_ROWS, _DEAD_SHARE * given.rows):
            given, file = _compacted(shelf, given, file)
        if given.rows > EXACT_ROWS and given.dimension % 8 == 0:
            given = _coded(shelf, given, file)
        write_manifest(shelf, given)
        return given

    def _shelf(self, collection: str) -> _Shelf:
        """The open index of a collection, opened again when any process has written."""
        folder = self._folder(collection)
        held = self._shelves.get(collection)
        if held is not None and held.stamp == manifest_stamp(folder):
            if time.monotonic() - held.checked_at < _CATCH_UP_SECONDS:
                return held
            held.checked_at = time.monotonic()
        with self._opening:
            self._catch_up(collection, held)
            if held is None or held.stamp != manifest_stamp(folder):
                held = self._shelves[collection] = self._open(collection, held)
        return held

    def _catch_up(self, collection: str, held: _Shelf | None) -> None:
        """Take in what a writer acknowledged and then died before indexing. Whoever has an index
        goes on with it when that fails; whoever has none must wait for it."""
        ready = read_manifest(self._folder(collection), self._nothing).seq > 0
        try:
            self._refresh(collection, timeout_s=0 if ready else self._lock_timeout_s)
        except StoreBusyError:
            if not ready:
                raise
            log.debug("another process is bringing the index of %r up to date", collection)
        except StoreError as error:
            if held is None:
                raise
            log.warning("the index of %r is not up to date: %s", collection, error)

    def _open(self, collection: str, held: _Shelf | None) -> _Shelf:
        try:
            return self._read_steadily(collection, held)
        except _DAMAGE as error:
            log.warning("the index of %r is damaged and is built again: %s", collection, error)
        with writing(self._directory, timeout_s=self._lock_timeout_s):
            try:
                return self._read(collection, None)  # somebody else may have built it meanwhile
            except _DAMAGE:
                self._take_in(collection, self._nothing)
                return self._read(collection, None)

    def _read_steadily(self, collection: str, held: _Shelf | None) -> _Shelf:
        """Read again when a writer has replaced the files between two looks."""
        for _ in range(_LOOKS):
            stamp = manifest_stamp(self._folder(collection))
            try:
                return self._read(collection, held)
            except _DAMAGE:
                if stamp == manifest_stamp(self._folder(collection)):
                    raise
        return self._read(collection, held)

    def _read(self, collection: str, held: _Shelf | None) -> _Shelf:
        folder = self._folder(collection)
        stamp = manifest_stamp(folder)
        now = read_manifest(folder, self._nothing)
        file = VectorFile.open(now.dense_folder(folder), dimension=self._dimension, rows=now.rows)
        codes = self._codes(folder, now, held)
        if codes is not None:
            codes.extend(file)
        return _Shelf(
            stamp,
            now,
            KeywordIndex(now.keyword_folder(folder) if now.seq else None),
            DenseIndex(file, dead=now.dead_ranges(), codes=codes),
            codes,
            time.monotonic(),
        )

    def _codes(self, folder: Path, now: Manifest, held: _Shelf | None) -> Codes | None:
        """The codes in memory if they are of the same rows, else those on the disk."""
        if not now.code_rows:
            return None
        if held is not None and held.codes is not None:
            same = ("dense_generation", "trained_rows")
            if all(getattr(held.manifest, name) == getattr(now, name) for name in same):
                return held.codes
        return Codes.read(now.codes_file(folder))


def _pairs(ranges: Sequence[range]) -> tuple[tuple[int, int], ...]:
    return tuple((keys.start, len(keys)) for keys in ranges)


def _next_generation(shelf: Path, empty: Manifest) -> Manifest:
    """A manifest for folders that nothing has been written to yet."""
    shelf.mkdir(parents=True, exist_ok=True)
    numbers = [int(path.name.rpartition("-")[2]) for path in shelf.glob("*-*") if path.is_dir()]
    fresh = max(numbers, default=0) + 1
    return replace(empty, keyword_generation=fresh, dense_generation=fresh)


def _compacted(shelf: Path, given: Manifest, file: VectorFile) -> tuple[Manifest, VectorFile]:
    """The same vectors without the dead ones, in a new folder."""
    alive = ~covered(file.keys, given.dead_ranges())
    after = replace(
        given, dense_generation=_next_generation(shelf, given).dense_generation,
        dead=(), code_rows=0, trained_rows=0,
    )  # fmt: skip
    rows = vectors.copy_living(file, alive, after.dense_folder(shelf))
    after = replace(after, rows=rows)
    return after, VectorFile.open(
        after.dense_folder(shelf), dimension=given.dimension, rows=after.rows
    )


def _coded(shelf: Path, given: Manifest, file: VectorFile) -> Manifest:
    """Write the codes anew when the file lags behind; the rest is coded at opening."""
    if given.rows - given.code_rows <= _UNWRITTEN_SHARE * given.rows:
        return given
    if given.rows >= _GROWTH_UNTIL_TRAINED * given.trained_rows:
        codes, trained = Codes.train(file), given.rows
    else:
        codes, trained = Codes.read(given.codes_file(shelf)), given.trained_rows
        codes.extend(file)
    after = replace(given, code_rows=given.rows, trained_rows=trained)
    codes.write(after.codes_file(shelf))
    sync_file(after.codes_file(shelf))
    return after


def build(context: IndexContext) -> EmbeddedIndex:
    data = context.settings.data
    return EmbeddedIndex(
        context.catalog,
        data.directory / "index",
        dimension=context.embedder.dimension,
        lock_timeout_s=data.lock_timeout_s,
    )
