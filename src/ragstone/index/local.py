"""Search a collection with index files in the data directory; `manifest.py` describes them."""

from __future__ import annotations

import logging
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ragstone.catalog.rows import join_ranges
from ragstone.errors import StoreBusyError, StoreError, StoreUnavailableError
from ragstone.files import hold_writer_lock
from ragstone.filters import SearchScope
from ragstone.index import vectors
from ragstone.index.analyze import ANALYZER_VERSION
from ragstone.index.keyword import KeywordIndex, read_language_codes
from ragstone.index.manifest import (
    Manifest,
    add_checksums,
    compact_vectors,
    delete_index,
    delete_unpublished,
    find_damage,
    is_manifest_damaged,
    read_manifest,
    read_stamp,
    refuse_damaged,
    start_generation,
    write_codes,
    write_manifest,
)
from ragstone.index.vectors import (
    EXACT_ROWS,
    KEYS_FILE,
    Codes,
    DamagedVectorsError,
    DenseIndex,
    VectorFile,
)
from ragstone.plugins import IndexContext
from ragstone.protocols import Catalog, Change, IndexCounts, ScoredKey, Vectors

log = logging.getLogger(__name__)

# Chunks per commit: large enough to be fast, small enough for memory.
_BATCH_CHUNKS = 20_000
# How often a reader checks whether a writer ended before it updated the index.
_CATCH_UP_S = 1.0
# Vectors are copied when this share of them is deleted.
_MAX_DEAD_SHARE = 0.25
# tantivy reports damaged files as ValueError, faiss as RuntimeError. An OSError other than a
# missing file is a disk that fails or is full, and says nothing about the files.
_DAMAGE = (FileNotFoundError, ValueError, RuntimeError)
_READ_ATTEMPTS = 3


@dataclass(slots=True)
class _OpenIndex:
    """Hold the open files of one collection's index."""

    stamp: tuple[int, int] | None
    manifest: Manifest
    keyword: KeywordIndex
    dense: DenseIndex
    codes: Codes | None
    checked_at: float
    is_rebuilt: bool = False
    """True if it was just built because scores were impossible: building it again is useless."""

    def counts(self) -> IndexCounts:
        manifest = self.manifest
        return IndexCounts(
            len(self.dense), len(self.keyword), recall=manifest.recall, depth=manifest.depth
        )


class EmbeddedIndex:
    """Implement `Index` with files in the data directory."""

    def __init__(
        self, catalog: Catalog, directory: Path, *, dimension: int, lock_timeout_s: float
    ) -> None:
        self._catalog = catalog
        self._directory = directory
        self._dimension = dimension
        self._lock_timeout_s = lock_timeout_s
        self._nothing = Manifest(dimension, catalog.identity(), analyzer=ANALYZER_VERSION)
        self._indexes: dict[str, _OpenIndex] = {}
        self._folders: dict[str, tuple[float, Path]] = {}
        self._open_lock = threading.RLock()

    @property
    def waits(self) -> bool:
        """Return True when a search may ask a catalog behind a network, to catch up with it."""
        return bool(getattr(self._catalog, "waits", False))

    def refresh(self, collection: str) -> None:
        self._refresh(collection, timeout_s=self._lock_timeout_s)

    def rebuild(self, collection: str) -> None:
        with self._hold_lock(collection):
            self._apply_changes(collection, self._nothing)
        self.delete_others(collection)

    def delete_others(self, collection: str) -> None:
        """Delete the files of other embedders, unless the collection has such vectors too."""
        if getattr(self._catalog, "has_other", lambda name: True)(collection):
            return
        own, first = self._folder(collection), self._directory / collection
        for path in first.glob("@*"):
            if path != own:
                shutil.rmtree(path, ignore_errors=True)
        if own != first:
            delete_index(first)

    def remove_chunks(self, collection: str, ranges: Sequence[range]) -> None:
        """Remove chunks before the change that removes them: this index may be far behind."""
        with self._hold_lock(collection):
            folder = self._folder(collection)
            before = read_manifest(folder, self._nothing)
            if not before.seq:
                return
            removals = [Change(before.seq, "remove", "", k.start, len(k)) for k in ranges]
            try:
                self._publish(folder, self._apply_batch(folder, before, removals))
            except (OSError, *_DAMAGE) as error:
                raise StoreError(
                    f"The index of '{collection}' cannot be written: {error}.",
                    hint=f"Drop it: ragstone reembed --drop -C {shlex.quote(collection)}",
                ) from error

    def counts(self, collection: str) -> IndexCounts:
        return self._get_index(collection).counts()

    def inspect(self, collection: str) -> tuple[IndexCounts, int]:
        """Return the counts of the files as they are, and the last change that is in them.

        Nothing is written. Damaged files are a StoreError.
        """
        folder = self._folder(collection)
        with _explain_outage(collection):
            try:
                if is_manifest_damaged(folder):
                    raise ValueError("its manifest does not match its checksum")
                index = self._read_with_retries(collection, None)
            except _DAMAGE as error:
                raise StoreError(f"The index of '{collection}' is damaged: {error}.") from error
        return index.counts(), index.manifest.seq

    def find_damage(self, collection: str, pause: Callable[[], None] = lambda: None) -> list[str]:
        """Return the names of the index files that do not match their checksums.

        `pause` is called after each piece that was read.
        """
        folder = self._folder(collection)
        for _ in range(_READ_ATTEMPTS):
            stamp = read_stamp(folder)
            damaged = find_damage(folder, self._nothing, pause)
            if not damaged or stamp == read_stamp(folder):
                return damaged
        return []  # they are being replaced again and again

    def confirm_damage(self, collection: str, *, repair: bool) -> list[str]:
        """Look again while nobody writes, and build the index again if it is damaged.

        A writer replaces files before it publishes their checksums.
        """
        with self._hold_lock(collection):
            damaged = find_damage(self._folder(collection), self._nothing)
            if damaged and repair:
                self._apply_changes(collection, self._nothing)
            return damaged

    def last_change(self, collection: str) -> int:
        return self._get_index(collection).manifest.seq

    def search_dense(
        self, collection: str, vector: Vectors, *, limit: int, scope: SearchScope | None = None
    ) -> list[ScoredKey]:
        index = self._get_index(collection)
        try:
            return index.dense.search(vector, limit=limit, scope=scope)
        except DamagedVectorsError as error:
            index = self._replace_damaged(collection, index, error)
        try:
            return index.dense.search(vector, limit=limit, scope=scope)
        except DamagedVectorsError as error:
            raise StoreError(
                f"The vectors of the collection '{collection}' are damaged: {error}.",
                hint="Find the damaged documents with: ragstone doctor --deep",
            ) from error

    def search_keyword(
        self,
        collection: str,
        text: str,
        *,
        limit: int,
        k1: float,
        b: float,
        scope: SearchScope | None = None,
    ) -> list[ScoredKey]:
        index = self._get_index(collection)
        return index.keyword.search(text, limit=limit, k1=k1, b=b, scope=scope)

    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        return self._get_index(collection).dense.vectors(keys)

    def close(self) -> None:
        self._indexes.clear()

    def _folder(self, collection: str) -> Path:
        """Return the folder of a collection's files, which depends on its generation."""
        asked_at, folder = self._folders.get(collection, (0.0, self._directory))
        if not asked_at or time.monotonic() - asked_at > _CATCH_UP_S:
            folder = self._directory / collection
            if (find := getattr(self._catalog, "folder_of", None)) is not None:
                folder /= find(collection)
            self._folders[collection] = (time.monotonic(), folder)
        return folder

    def _hold_lock(
        self, collection: str, timeout_s: float | None = None
    ) -> AbstractContextManager[None]:
        """Hold the lock of the writers; a second generation has one of its own."""
        folder = self._folder(collection)
        place = folder if folder.parent != self._directory else self._directory
        return hold_writer_lock(
            place, timeout_s=self._lock_timeout_s if timeout_s is None else timeout_s
        )

    def _refresh(self, collection: str, *, timeout_s: float) -> None:
        with _explain_outage(collection):
            before = read_manifest(self._folder(collection), self._nothing)
        if self._catalog.last_change(collection) <= before.seq:
            return
        with self._hold_lock(collection, timeout_s), _explain_outage(collection):
            # Another process may have done it meanwhile.
            before = read_manifest(self._folder(collection), self._nothing)
            if not before.seq and read_stamp(self._folder(collection)):
                log.warning(
                    "the index of %r was built by another version or for another embedder and is "
                    "built again from the catalog; no file is read again",
                    collection,
                )
            self._apply_changes(collection, before)

    def _apply_changes(self, collection: str, before: Manifest) -> None:
        """Apply all changes after a manifest; rebuild if its files are damaged."""
        try:
            self._apply_batches(collection, before)
        except (OSError, *_DAMAGE) as error:
            folder = self._folder(collection)
            with suppress(OSError):
                delete_unpublished(folder, read_manifest(folder, self._nothing))
            if not before.seq or not isinstance(error, _DAMAGE):
                raise StoreError(
                    f"The index of '{collection}' cannot be written: {error}.",
                    hint="Free disk space or check permissions; the documents are safe in the "
                    "catalog and are indexed at the next start.",
                ) from error
            log.warning("the index of %r is damaged and is built again: %s", collection, error)
            self._apply_changes(collection, self._nothing)

    def _apply_batches(self, collection: str, before: Manifest) -> None:
        """Apply all changes after a manifest.

        A new index is published only when complete, so that no reader sees a part of it.
        """
        folder = self._folder(collection)
        if before.seq == 0:
            before = start_generation(folder, before)
        after = before
        for batch in self._read_batches(collection, before.seq):
            after = self._apply_batch(folder, after, batch)
            if before.seq:
                after = self._publish(folder, after)
        if not before.seq and after.seq:
            self._publish(folder, after)

    def _read_batches(self, collection: str, seq: int) -> Iterator[list[Change]]:
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

    def _apply_batch(self, folder: Path, before: Manifest, batch: Sequence[Change]) -> Manifest:
        removed = [change.keys for change in batch if change.kind == "remove"]
        added = [change.keys for change in batch if change.kind == "add"]
        chunks, embeddings = self._catalog.chunks_with_vectors(added, dimension=self._dimension)
        codes = read_language_codes(self._catalog, chunks)
        # Added keys are removed first: an interrupted run may have added them already.
        keyword = KeywordIndex.create(before.keyword_folder(folder))
        keyword.apply([*removed, *added], chunks, codes)
        keys = [chunk.key for chunk in chunks]
        rows = vectors.append_vectors(
            before.dense_folder(folder), rows=before.rows, keys=keys, vectors=embeddings
        )
        dead = join_ranges(sorted([*before.dead_ranges(), *removed], key=lambda keys: keys.start))
        return replace(
            before, seq=batch[-1].seq, rows=rows, dead=tuple((k.start, len(k)) for k in dead)
        )

    def _publish(self, folder: Path, manifest: Manifest) -> Manifest:
        """Publish a manifest for readers; first compact and code the vectors where needed."""
        file = VectorFile.open(
            manifest.dense_folder(folder), dimension=self._dimension, rows=manifest.rows
        )
        if manifest.dead_rows() > max(EXACT_ROWS, _MAX_DEAD_SHARE * manifest.rows):
            manifest, file = compact_vectors(folder, manifest, file)
        if manifest.rows > EXACT_ROWS and manifest.dimension % 8 == 0:
            manifest = write_codes(folder, manifest, file)
        manifest = add_checksums(folder, manifest)
        write_manifest(folder, manifest)
        return manifest

    def _get_index(self, collection: str) -> _OpenIndex:
        """Return the open index of a collection; open it again after any process's change."""
        folder = self._folder(collection)
        index = self._indexes.get(collection)
        if index is not None and index.stamp == read_stamp(folder):
            if time.monotonic() - index.checked_at < _CATCH_UP_S:
                return index
            index.checked_at = time.monotonic()
        with self._open_lock, _explain_outage(collection):
            self._catch_up(collection, index)
            if index is None or index.stamp != read_stamp(folder):
                index = self._indexes[collection] = self._open(collection, index)
        return index

    def _catch_up(self, collection: str, index: _OpenIndex | None) -> None:
        """Apply changes that a writer committed but did not index before it ended.

        If that fails, an open index is used as it is; without one the error is raised.
        """
        is_ready = read_manifest(self._folder(collection), self._nothing).seq > 0
        try:
            self._refresh(collection, timeout_s=0 if is_ready else self._lock_timeout_s)
        except StoreBusyError:
            if not is_ready:
                raise
            log.debug("another process is bringing the index of %r up to date", collection)
        except StoreError as error:
            if index is None:
                raise
            log.warning("the index of %r is not up to date: %s", collection, error)

    def _open(self, collection: str, old: _OpenIndex | None) -> _OpenIndex:
        try:
            return self._read_with_retries(collection, old)
        except _DAMAGE as error:
            log.warning("the index of %r is damaged and is built again: %s", collection, error)
        with self._hold_lock(collection):
            try:
                return self._read(collection, None)  # another process may have rebuilt it
            except _DAMAGE:
                self._apply_changes(collection, self._nothing)
                return self._read(collection, None)

    def _replace_damaged(
        self, collection: str, damaged: _OpenIndex, error: DamagedVectorsError
    ) -> _OpenIndex:
        """Rebuild an index, but only once from the same rows: the catalog's may be damaged too."""
        with self._open_lock:
            if self._indexes.get(collection) is damaged and not damaged.is_rebuilt:
                log.warning("the index of %r is damaged and is built again: %s", collection, error)
                self.rebuild(collection)
                self._indexes[collection] = self._open(collection, None)
                self._indexes[collection].is_rebuilt = True
            return self._indexes.get(collection, damaged)

    def _read_with_retries(self, collection: str, old: _OpenIndex | None) -> _OpenIndex:
        """Read the files; again if a writer replaced them meanwhile."""
        for _ in range(_READ_ATTEMPTS):
            stamp = read_stamp(self._folder(collection))
            try:
                return self._read(collection, old)
            except (OSError, *_DAMAGE):
                if stamp == read_stamp(self._folder(collection)):
                    raise
        return self._read(collection, old)

    def _read(self, collection: str, old: _OpenIndex | None) -> _OpenIndex:
        folder = self._folder(collection)
        stamp = read_stamp(folder)
        now = read_manifest(folder, self._nothing)
        file = VectorFile.open(now.dense_folder(folder), dimension=self._dimension, rows=now.rows)
        if now.rows:
            refuse_damaged(folder, now, now.dense_folder(folder) / KEYS_FILE)
        codes = _load_codes(folder, now, old)
        if codes is not None:
            codes.extend(file)
        return _OpenIndex(
            stamp,
            now,
            KeywordIndex(now.keyword_folder(folder) if now.seq else None),
            DenseIndex(file, dead=now.dead_ranges(), codes=codes, depth=now.depth),
            codes,
            time.monotonic(),
        )


@contextmanager
def _explain_outage(collection: str) -> Iterator[None]:
    """Say that the disk fails: the files may be intact, so nobody should rebuild or delete them."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(
            f"The index of '{collection}' cannot be used: {error.strerror or error}.",
            hint="Check the disk, and how many files the process may open.",
        ) from error


def _load_codes(folder: Path, now: Manifest, old: _OpenIndex | None) -> Codes | None:
    """Return the codes in memory if they are of the same rows, else those on the disk."""
    if not now.code_rows:
        return None
    if old is not None and old.codes is not None:
        same = ("dense_generation", "trained_rows")
        if all(getattr(old.manifest, name) == getattr(now, name) for name in same):
            return old.codes
    refuse_damaged(folder, now, now.codes_file(folder))
    return Codes.read(now.codes_file(folder))


def build(context: IndexContext) -> EmbeddedIndex:
    data = context.settings.data
    return EmbeddedIndex(
        context.catalog,
        data.directory / "index",
        dimension=context.embedder.dimension,
        lock_timeout_s=data.lock_timeout_s,
    )
