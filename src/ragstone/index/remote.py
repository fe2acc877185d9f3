"""Search an index on a server (Qdrant, Pinecone) that follows the change log of the catalog.

The server is behind a `ChunkStore`. Catalogs with the same prefix, and a catalog before and after a
restore, never meet there. The best keyword hits are scored again with the rarity of the terms and
the average length of the whole collection, so neither the shards nor the order of ingestion change
a ranking.

A search applies a few outstanding changes, and never deletes or rebuilds: what does not fit is an
error that names the command which repairs it.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from ragstone.catalog.documents import refuse_other_embedder
from ragstone.catalog.schema import split_batches
from ragstone.filters import SearchScope
from ragstone.index.analyze import (
    FUNCTION_WORDS,
    choose_language,
    extract_query_terms,
    extract_terms,
)
from ragstone.index.chunk_store import (
    BATCH_CHANGES,
    BATCH_POINTS,
    ChunkStore,
    MissingCollectionError,
    NewChunk,
    batch_keys,
    compare_chunks,
    hash_term,
    make_busy_error,
    make_mismatch_error,
    make_unfilled_error,
    read_added_keys,
    read_changes,
    score_terms,
    sort_hits,
)
from ragstone.index.keyword import idf
from ragstone.index.progress import IndexProgress, ProgressStore, new_build
from ragstone.plugins import IndexContext
from ragstone.protocols import Catalog, Change, IndexCounts, ScoredKey, Vectors
from ragstone.settings import IndexSettings

_PARALLEL_WRITES = 4
_CATCH_UP_S = 1.0
_LEASE_S = 30.0
# A search applies at most so many changes itself; more are left to a writer or the server.
_MAX_BEHIND = BATCH_CHANGES
# How long a writer waits for another process that is bringing the index up to date.
_WAIT_S = 60.0
_RESCORE_DEPTH = 100
# The languages of chunks are counted like terms; hashes of terms are not negative.
_LANGUAGES = {name: -hash_term(name) - 1 for name in FUNCTION_WORDS}
# Below those, one for each chunk that was removed before its change: it is taken off once.
_FIRST_MARK = -(2**40)


class RemoteIndex:
    """Implement `Index` on a server; a subclass names the class of its store."""

    waits = True
    store_class: ClassVar[Callable[..., ChunkStore]]

    def __init__(
        self, catalog: Catalog, settings: IndexSettings, *, dimension: int, embedder: str = ""
    ) -> None:
        self._catalog = catalog
        self._dimension = dimension
        self._embedder = embedder
        self._points = self.store_class(settings, dimension=dimension, embedder=embedder)
        self._progress = ProgressStore(catalog, self._points.name)
        self._holder = uuid.uuid4().hex
        self._checked_at: dict[str, float] = {}
        self._known: dict[str, IndexProgress] = {}
        self._languages: dict[str, tuple[IndexProgress, tuple[str, ...]]] = {}
        self._refresh_lock = threading.Lock()

    @classmethod
    def build(cls, context: IndexContext) -> Self:
        embedder = context.embedder
        return cls(
            context.catalog,
            context.settings.index,
            dimension=embedder.dimension,
            embedder=embedder.name,
        )

    def refresh(self, collection: str) -> None:
        """Apply all changes; wait for another process that is doing so."""
        end = time.monotonic() + _WAIT_S
        while True:
            with self._refresh_lock:
                if self._follow(collection):
                    return
            if time.monotonic() > end:
                raise make_busy_error(collection)
            time.sleep(0.2)

    def _follow(self, collection: str) -> bool:
        """Apply the changes; False if another process is doing so."""
        progress = self._read_progress(collection)
        if progress is None:
            last = self._catalog.counts(collection).last_change
            if not last:
                return True
            self._points.create()
            progress = IndexProgress(self._epoch, build=new_build(), target_seq=last)
            self._progress.begin(collection, progress)
        has_news = self._catalog.changes(collection, after=progress.seq, limit=1)
        if not has_news and progress.deleted_seq == progress.seq:
            self._known[collection] = progress
            return True
        if not self._progress.acquire(collection, self._holder, lease_s=_LEASE_S):
            return False
        try:
            return self._apply_all(collection)
        finally:
            self._progress.release(collection, self._holder)

    def _apply_all(self, collection: str) -> bool:
        """Apply the changes batch by batch; False if another process got in between."""
        progress = self._read_progress(collection)
        while progress is not None:
            progress = self._finish_removals(collection, progress)
            changes = self._catalog.changes(collection, after=progress.seq, limit=BATCH_CHANGES)
            if not changes:
                self._known[collection] = progress
                return True
            progress = self._apply(collection, progress, changes)
            self._progress.acquire(collection, self._holder, lease_s=_LEASE_S)
        return False

    def _apply(
        self,
        collection: str,
        before: IndexProgress,
        changes: Sequence[Change],
        *,
        early: bool = False,
    ) -> IndexProgress | None:
        """Write what was added, and count it; None if another process was faster.

        A kill between two steps is harmless: points are written again under the same ids, counts
        and the last change are one transaction, and removals go on from `deleted_seq`.
        """
        added = [change.keys for change in changes if change.kind == "add"]
        terms, chunk_count, length = self._count_removed(collection, before, changes, early=early)
        for part in split_batches(added, 50):
            more = self._write_chunks(collection, before.build, part)
            terms.update(more[0])
            chunk_count, length = chunk_count + more[1], length + more[2]
        after = replace(before.count(chunk_count, length), seq=changes[-1].seq)
        self._points.write_marker(collection, after.seq)
        return after if self._progress.advance(collection, before, after, terms) else None

    def _count_removed(
        self, collection: str, progress: IndexProgress, changes: Sequence[Change], *, early: bool
    ) -> tuple[Counter[int], int, int]:
        """Return what the removed chunks take from the counts; uncounted ones take nothing.

        A chunk that is removed early, before its change, leaves a mark until that is applied.
        """
        counts: Counter[int] = Counter()
        new = {change.first_key for change in changes if change.kind == "add"}
        removed = [one for one in changes if one.kind == "remove" and one.first_key not in new]
        chunk_count = length = 0
        for keys in batch_keys(removed):
            marked = self._progress.count_chunks(collection, [_FIRST_MARK - key for key in keys])
            if not early:
                counts.subtract(marked.keys())
            for stored in self._points.read_terms(collection, keys):
                mark = _FIRST_MARK - stored.key
                if stored.build == progress.build and mark not in marked:
                    counts.subtract([*stored.terms, stored.language])
                    counts[mark] += early
                    chunk_count, length = chunk_count - 1, length - stored.length
        return counts, chunk_count, length

    def _finish_removals(self, collection: str, progress: IndexProgress) -> IndexProgress:
        """Delete the points of the removals that are counted already."""
        after, last = progress.deleted_seq, progress.seq
        if after == last:
            return progress
        for changes in read_changes(self._catalog, collection, after=after, last=last):
            for keys in batch_keys(one for one in changes if one.kind == "remove"):
                self._points.delete(collection, keys)
        done = replace(progress, deleted_seq=progress.seq)
        self._progress.advance(collection, progress, done, {})
        return done

    def _write_chunks(
        self, collection: str, build: int, ranges: Sequence[range]
    ) -> tuple[Counter[int], int, int]:
        """Write chunks as points; return their terms, their number and their length."""
        new = self._prepare_chunks(ranges)
        terms: Counter[int] = Counter()
        for one in new:
            terms.update([*one.counts, one.language])
        batches = split_batches(new, BATCH_POINTS)
        with ThreadPoolExecutor(_PARALLEL_WRITES) as pool:
            for _ in pool.map(lambda one: self._points.write(collection, build, one), batches):
                pass
        return terms, len(new), sum(one.counts.total() for one in new)

    def _prepare_chunks(self, ranges: Sequence[range]) -> list[NewChunk]:
        """Read the chunks that still exist, as they are written to the server."""
        chunks, vectors = self._catalog.chunks_with_vectors(ranges, dimension=self._dimension)
        fields = self._catalog.document_fields({chunk.document_id for chunk in chunks})
        new: list[NewChunk] = []
        for chunk, vector in zip(chunks, vectors, strict=True):
            document = fields.get(chunk.document_id, {})
            text = chunk.contextual_text
            language = choose_language(text, document.get("language"))
            counts = Counter(map(hash_term, extract_terms(text, language)))
            new.append(NewChunk(chunk, vector, counts, _LANGUAGES[language], document))
        return new

    def remove_chunks(self, collection: str, ranges: Sequence[range]) -> None:
        """Remove chunks before the change that removes them: this index may be far behind."""
        if self._read_progress(collection) is None:
            return
        # As long as a lease: that of a killed process ends meanwhile.
        hold = self._progress.hold(collection, self._holder, _LEASE_S, wait_s=_LEASE_S)
        with self._refresh_lock, hold:
            before = self._read_progress(collection) or IndexProgress(self._epoch)
            gone = [Change(before.seq, "remove", "", k.start, len(k)) for k in ranges]
            if self._apply(collection, before, gone, early=True) is None:
                raise make_busy_error(collection)
            for keys in batch_keys(gone):
                self._points.delete(collection, keys)

    def rebuild(self, collection: str) -> None:
        """Write all points again and delete those that are left over; searches go on meanwhile."""
        with self._refresh_lock:
            self._points.create()
            if self._read_progress(collection) is None:
                last = self._catalog.counts(collection).last_change
                self._progress.begin(collection, IndexProgress(self._epoch, target_seq=last))
            with self._progress.hold(collection, self._holder, _LEASE_S):
                self._rebuild(collection)
        self.delete_others(collection)

    def delete_others(self, collection: str) -> None:
        """Delete what other embedders wrote, unless the collection has such vectors too."""
        if getattr(self._catalog, "has_other", lambda name: False)(collection):
            return
        for name in self._progress.list_others(collection, self._points.prefix):
            self._points.delete_elsewhere(collection, name)
            ProgressStore(self._catalog, name).delete(collection)

    def _rebuild(self, collection: str) -> None:
        last = self._catalog.counts(collection).last_change
        progress = IndexProgress(self._epoch, build=new_build())
        terms: Counter[int] = Counter()
        for changes in read_changes(self._catalog, collection, after=0, last=last):
            ranges = [one.keys for one in changes if one.kind == "add"]
            more, chunk_count, length = self._write_chunks(collection, progress.build, ranges)
            terms.update(more)
            progress = progress.count(chunk_count, length)
            self._progress.acquire(collection, self._holder, lease_s=_LEASE_S)
        progress = replace(progress, seq=last, deleted_seq=last)
        self._points.write_marker(collection, last)
        self._progress.replace(collection, progress, terms)
        self._apply_all(collection)  # what was added or removed meanwhile
        self._points.delete_other_builds(collection, progress.build)
        self._checked_at.pop(collection, None)

    def last_change(self, collection: str) -> int:
        """Return the last change known to be applied: asking would cost as much as a search."""
        progress = self._known.get(collection)
        return 0 if progress is None else progress.seq

    def counts(self, collection: str) -> IndexCounts:
        progress = self._read_progress(collection)
        count = self._points.count(collection, 0 if progress is None else progress.chunk_count)
        return IndexCounts(dense=count, keyword=count)

    def search_dense(
        self, collection: str, vector: Vectors, *, limit: int, scope: SearchScope | None = None
    ) -> list[ScoredKey]:
        if limit < 1 or self._catch_up(collection) is None:
            return []
        try:
            return sort_hits(self._points.search_dense(collection, vector, limit, scope))
        except MissingCollectionError as error:
            raise make_mismatch_error(collection, "is gone from the index server") from error

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
        progress = self._catch_up(collection)
        if limit < 1 or progress is None:
            return []
        words = extract_query_terms(text, self._list_languages(collection, progress))
        counts = self._progress.count_chunks(collection, map(hash_term, words))
        if not counts:
            return []
        total = max(progress.chunk_count, *counts.values())
        rarity = dict(zip(counts, idf(list(counts.values()), total), strict=True))
        depth = max(limit, _RESCORE_DEPTH)
        try:
            found = self._points.search_terms(collection, rarity, depth, scope)
        except MissingCollectionError as error:
            raise make_mismatch_error(collection, "is gone from the index server") from error
        average = progress.average_length
        return sort_hits(
            ScoredKey(one.key, score_terms(one, rarity, average, k1=k1, b=b)) for one in found
        )[:limit]

    def _list_languages(self, collection: str, progress: IndexProgress) -> tuple[str, ...]:
        """Return the languages of the chunks, the most frequent first."""
        cached = self._languages.get(collection)
        if cached is None or cached[0] != progress:
            counts = self._progress.count_chunks(collection, _LANGUAGES.values())
            found = [one for one in _LANGUAGES if _LANGUAGES[one] in counts]
            found.sort(key=lambda one: -counts[_LANGUAGES[one]])
            cached = self._languages[collection] = (progress, tuple(found))
        return cached[1]

    def vectors(self, collection: str, keys: Sequence[int]) -> Vectors:
        found = np.zeros((len(keys), self._dimension), dtype=np.float32)
        if self._catch_up(collection) is None:
            return found
        stored = self._points.read_vectors(collection, keys)
        for row, key in enumerate(keys):
            if key in stored:
                found[row] = stored[key]
        return found

    def close(self) -> None:
        self._points.close()

    def compare_content(
        self, collection: str, pause: Callable[[], None] = lambda: None, *, catch_up: bool = False
    ) -> Counter[str]:
        """Count the chunks that are missing, have other content, or are on the server only.

        Uploads may go on: what comes after the last change that is applied now is left out.
        """
        progress = self._read_progress(collection)
        if progress is None:
            return +Counter(missing=self._catalog.counts(collection).chunks)
        added = read_added_keys(self._catalog, collection, progress.seq)
        found = compare_chunks(self._points, self._prepare_chunks, collection, added, pause)
        found["on the server only"] = self._count_surplus(collection, catch_up=catch_up)
        return +found

    def _count_surplus(self, collection: str, *, catch_up: bool) -> int:
        """Count the chunks that only the server has, while nobody writes to it.

        Returns 0 if another process is writing, or left off in the middle of it: the next check
        sees them. With `catch_up` outstanding changes are applied first.
        """
        with self._refresh_lock:
            if not self._progress.acquire(collection, self._holder, lease_s=_LEASE_S):
                return 0
            try:
                if catch_up and not self._apply_all(collection):
                    return 0
                progress, counts = self._read_progress(collection), self._catalog.counts(collection)
                if progress is None or progress.deleted_seq != progress.seq:
                    return 0
                expected = progress.chunk_count
                if counts.last_change == progress.seq:
                    expected = counts.chunks
                elif not catch_up:
                    return 0
                return max(0, self._points.count(collection, expected) - expected)
            finally:
                self._progress.release(collection, self._holder)

    def _catch_up(self, collection: str) -> IndexProgress | None:
        """Return the progress; None if there is nothing to search.

        Changes that a writer committed but did not index before it ended are applied, if they are
        few. An index that lost points, or is not filled yet, is an error.
        """
        now = time.monotonic()
        known = self._known.get(collection)
        if known is not None and now - self._checked_at.get(collection, 0.0) < _CATCH_UP_S:
            return known
        if self._embedder:
            refuse_other_embedder(self._catalog, collection, self._embedder)
        progress = self._read_progress(collection)
        if progress is not None:
            self._check_marker(collection, progress)
        after = 0 if progress is None else progress.seq
        behind = self._catalog.changes(collection, after=after, limit=_MAX_BEHIND + 1)
        if 0 < len(behind) <= _MAX_BEHIND and self._refresh_lock.acquire(blocking=False):
            try:
                self._follow(collection)
            finally:
                self._refresh_lock.release()
            progress = self._read_progress(collection)
        if progress is None and not behind:
            return None
        if progress is None or progress.seq < progress.target_seq:
            raise make_unfilled_error(collection)
        self._known[collection] = progress
        self._checked_at[collection] = now
        return progress

    def _check_marker(self, collection: str, progress: IndexProgress) -> None:
        """Raise a StoreError if the server lost what was written to it."""
        marker = self._points.read_marker(collection)
        if marker is None and progress.seq:
            raise make_mismatch_error(collection, "is gone from the index server")
        if marker is not None and marker < progress.seq:
            raise make_mismatch_error(collection, "lacks changes that were written to it")

    @property
    def _epoch(self) -> str:
        return f"{self._points.epoch:x}"

    def _read_progress(self, collection: str) -> IndexProgress | None:
        """Return the progress; None if there is none, or only one of another epoch."""
        self._points.epoch = self._catalog.identity()
        progress = self._progress.read(collection)
        return progress if progress is not None and progress.epoch == self._epoch else None
