"""Keep the vectors of two embedders for a collection: begin, fill, switch and drop a generation.

A generation is all vectors of one embedder. One of them is searched: `collections.embedder` names
it. Another one may be filled from the stored texts meanwhile, and takes over in one transaction.
Both stay until one is dropped, so that a switch can be taken back. Whatever is committed stays: a
run that was killed is continued by the next one.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select

from ragstone.catalog import rows
from ragstone.catalog.documents import lock_of, read_last_change
from ragstone.catalog.schema import (
    chunk_vectors,
    chunks,
    collections,
    documents,
    files,
    split_batches,
)
from ragstone.catalog.schema import generations as table
from ragstone.catalog.vectors import (
    OtherEmbedderError,
    Place,
    find_vectorless,
    has_sound_vector,
    read_place,
    select_vectors,
    write_vectors,
)
from ragstone.errors import InputError, StoreBusyError
from ragstone.protocols import Catalog, CatalogCounts, Change, Vectors
from ragstone.types import Chunk

_BATCH_CHUNKS = 512
# Marks the settings of an embedder that was taken over because it was configured.
_FOLLOWS_SETTINGS = "follows_settings"
# The keys of chunks begin at 1: no index has this one.
_NO_KEY = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """Describe the vectors of one embedder over a collection."""

    collection: str
    embedder: str
    settings: Mapping[str, Any] | None = None
    """The settings that build the embedder; None if only the configured embedder can be it."""
    place: Place = "chunks"
    filled_seq: int = 0
    """All chunks that were added up to this change have a vector."""
    folder: str = ""
    """The folder of its index files below those of the collection."""
    created_at: float = 0.0

    @property
    def is_chosen(self) -> bool:
        """Return whether `ragstone reembed` chose its embedder, and not the settings."""
        return self.settings is not None and not self.settings.get(_FOLLOWS_SETTINGS)


@dataclass(frozen=True, slots=True)
class GenerationPair:
    """Hold the generation that is searched, and the other one if there is one."""

    active: Generation
    other: Generation | None = None


def read_generations(catalog: Catalog, collection: str) -> GenerationPair:
    """Return the generations of a collection that exists."""
    with catalog.read_transaction() as connection:
        return _read_pair(connection, collection)


def _read_pair(connection: Connection, collection: str) -> GenerationPair:
    name = connection.scalar(select(collections.c.embedder).where(collections.c.name == collection))
    found = {
        row.embedder: Generation(**row._asdict())
        for row in connection.execute(select(table).where(table.c.collection == collection))
    }
    active = found.pop(name, None) or Generation(collection, str(name))
    return GenerationPair(active, next(iter(found.values()), None))


def begin_generation(
    catalog: Catalog,
    collection: str,
    embedder: str,
    settings: Mapping[str, Any] | None,
    active_settings: Mapping[str, Any] | None,
    *,
    follows_settings: bool = False,
) -> Generation:
    """Begin a second generation, or return it if it was begun already.

    `active_settings` build the embedder of the first one, so that it can be used after a switch.
    With `follows_settings` nobody chose its embedder: another one that is configured may replace
    it. That is written at once, since a run may be killed before it ends.
    """
    if settings is not None and follows_settings:
        settings = {**settings, _FOLLOWS_SETTINGS: True}
    with catalog.write_transaction(lock_of(collection)) as connection:
        pair = _read_pair(connection, collection)
        if pair.active.embedder == embedder:
            raise InputError(
                f"The collection '{collection}' is searched with '{embedder}' already.",
                hint="Name another model with --model.",
            )
        is_same = pair.other is not None and pair.other.embedder == embedder
        if pair.other is not None and is_same and pair.other.place != "dropping":
            begun = replace(pair.other, settings=settings or pair.other.settings)
            _store(connection, begun)
            return begun
        if pair.other is not None or pair.active.place != "chunks":
            left = "" if pair.other is None else f" ('{pair.other.embedder}')"
            raise InputError(
                f"The collection '{collection}' has a second generation already{left}.",
                hint=f"Drop it first: ragstone reembed --drop -C {shlex.quote(collection)}",
            )
        first = pair.active
        if first.settings is None and active_settings is not None:
            first = replace(first, settings={**active_settings, _FOLLOWS_SETTINGS: True})
        folder, now = _name_folder(embedder), time.time()
        second = Generation(collection, embedder, settings, "vectors", 0, folder, now)
        _store(connection, first)
        _store(connection, second)
    return second


def advance_generation(
    catalog: Catalog,
    generation: Generation,
    keys: Sequence[int],
    vectors: Vectors,
    filled_seq: int,
) -> Generation:
    """Store vectors of chunks, as far as the chunks still exist, and how far it is filled."""
    with catalog.write_transaction(lock_of(generation.collection)) as connection:
        other = _read_pair(connection, generation.collection).other
        if other is None or (other.embedder, other.place) != (
            generation.embedder,
            generation.place,
        ):
            raise StoreBusyError(
                f"The generation '{generation.embedder}' of '{generation.collection}' was switched "
                "to or dropped by another process.",
                hint="Show the state: ragstone reembed --status",
            )
        exists = select(chunks.c.key).where(chunks.c.key.in_(keys))
        existing = set(connection.scalars(exists)) if keys else set()
        at = [row for row, key in enumerate(keys) if key in existing]
        write_vectors(connection, [keys[row] for row in at], vectors[at], other.place)
        # Another process may be further.
        filled = replace(other, filled_seq=max(filled_seq, other.filled_seq))
        _store(connection, filled)
    return filled


def switch_generation(catalog: Catalog, collection: str) -> bool:
    """Search the other generation from now on; False if it lacks chunks that came meanwhile."""
    with catalog.write_transaction(lock_of(collection)) as connection:
        pair = _read_pair(connection, collection)
        before, after = pair.active, pair.other
        if after is None or after.place == "dropping":
            raise InputError(
                f"The collection '{collection}' has one generation only.",
                hint="Fill a second one: ragstone reembed --model NAME",
            )
        if after.filled_seq < read_last_change(connection, collection):
            return False
        here = collections.c.name == collection
        connection.execute(collections.update().where(here).values(embedder=after.embedder))
        # Files whose chunks are here need not be read again because of the new name.
        mark = func.replace(files.c.fingerprint, f":{before.embedder}:", f":{after.embedder}:")
        mine = files.c.collection == collection
        connection.execute(files.update().where(mine).values(fingerprint=mark))
        log_new_vectors(connection, collection)
        _store(connection, replace(before, filled_seq=read_last_change(connection, collection)))
    return True


def drop_generation(catalog: Catalog, collection: str) -> str | None:
    """Delete the generation that is not searched; return its embedder, None if there is none.

    If the other one is in the table of the second, its vectors are moved beside the chunks. A run
    that was killed is continued by the next one.
    """
    with catalog.write_transaction(lock_of(collection)) as connection:
        pair = _read_pair(connection, collection)
        dropped = pair.other
        if dropped is not None and dropped.place == "chunks":
            _delete(connection, dropped)
            _store(connection, replace(pair.active, place="moving"))
        elif dropped is not None:
            # It stays until its vectors are deleted: those of a third embedder must not meet them.
            _store(connection, replace(dropped, place="dropping"))
    seq = 0
    while batch := catalog.changes(collection, after=seq, limit=_BATCH_CHUNKS):
        for change in batch:
            if change.kind == "add":
                _clear_vectors(catalog, collection, change.keys)
        seq = batch[-1].seq
    with catalog.write_transaction(lock_of(collection)) as connection:
        pair = _read_pair(connection, collection)
        if pair.active.place == "moving":
            _store(connection, replace(pair.active, place="chunks"))
        if pair.other is not None and pair.other.place == "dropping":
            _delete(connection, pair.other)
        log_new_vectors(connection, collection)
    return None if dropped is None else dropped.embedder


def _clear_vectors(catalog: Catalog, collection: str, keys: range) -> None:
    """Empty the second table for these chunks; first move what is searched."""
    for begin in range(keys.start, keys.stop, _BATCH_CHUNKS):
        here = chunk_vectors.c.key.between(begin, min(begin + _BATCH_CHUNKS, keys.stop) - 1)
        with catalog.read_transaction() as connection:
            if connection.execute(select(chunk_vectors.c.key).where(here)).first() is None:
                continue
        with catalog.write_transaction(lock_of(collection)) as connection:
            pair = _read_pair(connection, collection)
            if pair.other is not None and pair.other.place != "dropping":
                return  # another process has finished this and begun a new one
            if pair.active.place == "moving":
                found = connection.execute(select(chunk_vectors).where(here)).all()
                stored = np.array([rows.to_vector(row.embedding) for row in found])
                write_vectors(connection, [row.key for row in found], stored, "moving")
            connection.execute(chunk_vectors.delete().where(here))


def log_new_vectors(connection: Connection, collection: str) -> None:
    """Log a change, although it removes nothing: other processes forget what they had cached."""
    rows.log_change(connection, collection, Change(0, "remove", "", _NO_KEY, 1))


def _name_folder(embedder: str) -> str:
    return "@" + hashlib.sha256(embedder.encode()).hexdigest()[:12]


def _store(connection: Connection, generation: Generation) -> None:
    values = {name: getattr(generation, name) for name in Generation.__slots__}
    _delete(connection, generation)
    connection.execute(table.insert().values(**values))


def _delete(connection: Connection, generation: Generation) -> None:
    mine = (table.c.collection == generation.collection, table.c.embedder == generation.embedder)
    connection.execute(table.delete().where(*mine))


class GenerationCatalog:
    """Show a catalog to the index of one embedder: its vectors, and the changes that have them.

    The generation that is searched has every change. Another one has those up to which it is
    filled, so that its index never reads a chunk without a vector.
    """

    def __init__(self, catalog: Catalog, embedder: str) -> None:
        self._catalog = catalog
        self._embedder = embedder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def embedder_of(self, collection: str) -> str | None:
        stored = self._catalog.embedder_of(collection)
        if stored in (None, self._embedder) or self._find(collection) is None:
            return stored
        return self._embedder

    def folder_of(self, collection: str) -> str:
        """Return the folder of the index files below those of the collection."""
        found = self._find(collection)
        if found is not None:
            return found.folder
        # One that was dropped must not meet the files of the one that is searched.
        is_searched = self._catalog.embedder_of(collection) in (None, self._embedder)
        return "" if is_searched else _name_folder(self._embedder)

    def has_other(self, collection: str) -> bool:
        """Return whether the collection has vectors of another embedder as well."""
        with self._catalog.read_transaction() as connection:
            query = select(table.c.embedder).where(table.c.collection == collection)
            return any(name != self._embedder for name in connection.scalars(query))

    def changes(self, collection: str, *, after: int, limit: int) -> list[Change]:
        # Before the check: what is added after a switch has no vectors of the embedder before.
        found = self._catalog.changes(collection, after=after, limit=limit)
        last = self._find_last(collection) if found else None
        return found if last is None else [one for one in found if one.seq <= last]

    def counts(self, collection: str) -> CatalogCounts:
        counts = self._catalog.counts(collection)
        last = self._find_last(collection)
        if last is None:
            return counts
        return replace(counts, last_change=min(last, counts.last_change))

    def chunks_with_vectors(
        self, ranges: Sequence[range], *, dimension: int
    ) -> tuple[list[Chunk], Vectors]:
        return self._catalog.chunks_with_vectors(
            ranges, dimension=dimension, embedder=self._embedder
        )

    def _find(self, collection: str) -> Generation | None:
        query = select(table).where(
            table.c.collection == collection,
            table.c.embedder == self._embedder,
            table.c.place != "dropping",
        )
        with self._catalog.read_transaction() as connection:
            row = connection.execute(query).first()
        return None if row is None else Generation(**row._asdict())

    def _find_last(self, collection: str) -> int | None:
        """Return the last change that has vectors of this embedder; None for the last of all."""
        stored = self._catalog.embedder_of(collection)
        if stored in (None, self._embedder):
            return None
        found = self._find(collection)
        if found is None:
            raise OtherEmbedderError(
                f"The collection '{collection}' is searched with '{stored}', and has no vectors of "
                f"'{self._embedder}'.",
                hint=f"Embed it: ragstone reembed -C {shlex.quote(collection)}",
            )
        return found.filled_seq


Embed = Callable[[Sequence[str]], Vectors]

_EMBED_CHUNKS = 256
_BATCH_CHANGES = 200
# Chunks whose vectors are looked for at once.
_MAX_KEYS = 5_000
# The index is brought up to date after so many chunks, so that no long step is left for the end.
_CHUNKS_PER_REFRESH = 20_000
# So often a switch is tried while uploads go on; then they wait for the last few chunks.
_SWITCH_ATTEMPTS = 5


@dataclass(slots=True)
class Reembedder:
    """Fill a generation and keep it in step with uploads and deletions."""

    catalog: Catalog
    generation: Generation
    embed: Embed
    refresh: Callable[[], None]
    """Bring the index of the generation up to date."""
    chunks_per_s: float = 0.0
    """The rate that is not exceeded, for the sake of those who ask meanwhile; 0 for none."""
    report: Callable[[int], None] = lambda count: None
    """Called with the number of chunks embedded so far."""
    count: int = 0
    _unindexed: int = field(default=0, init=False)

    def fill(self) -> int:
        """Embed all chunks that have no vector yet; return how many chunks were embedded so far."""
        self._fill_vectors()
        self._refresh()
        return self.count

    def switch(self) -> None:
        """Search this generation from now on, with everything that was stored until now."""
        collection = self.generation.collection
        self.chunks_per_s = 0.0  # uploads may have to wait for the last chunks
        for _ in range(_SWITCH_ATTEMPTS):
            self.fill()
            if switch_generation(self.catalog, collection):
                return
        with self.catalog.write_transaction(lock_of(collection)):
            self._fill_vectors(may_refresh=False)
            switch_generation(self.catalog, collection)
        self._refresh()

    def _fill_vectors(self, *, may_refresh: bool = True) -> None:
        while changes := self._read_changes():
            keys = [key for change in changes if change.kind == "add" for key in change.keys]
            for part in split_batches(keys, _MAX_KEYS):
                self._embed_missing(part)
            self._advance([], np.empty((0, 0), np.float32), changes[-1].seq)
            if may_refresh and self._unindexed >= _CHUNKS_PER_REFRESH:
                self._refresh()

    def _read_changes(self) -> list[Change]:
        here = self.generation
        return self.catalog.changes(here.collection, after=here.filled_seq, limit=_BATCH_CHANGES)

    def _embed_missing(self, keys: Sequence[int]) -> None:
        with self.catalog.read_transaction() as connection:
            missing = find_vectorless(connection, self.generation.embedder, keys)
        for batch in split_batches(missing, _EMBED_CHUNKS):
            begun = time.monotonic()
            vectors = self.embed([rows.to_chunk(row).contextual_text for row in batch])
            self._advance([row.key for row in batch], vectors, 0)
            self.count += len(batch)
            self._unindexed += len(batch)
            self.report(self.count)
            if self.chunks_per_s:
                time.sleep(max(0.0, len(batch) / self.chunks_per_s - (time.monotonic() - begun)))

    def _advance(self, keys: Sequence[int], vectors: Vectors, filled_seq: int) -> None:
        self.generation = advance_generation(
            self.catalog, self.generation, keys, vectors, filled_seq
        )

    def _refresh(self) -> None:
        self._unindexed = 0
        self.refresh()


def repair_vectors(catalog: Catalog, collection: str, embedder: str, embed: Embed) -> int:
    """Embed the chunks whose vectors are damaged; return their number. Then rebuild the index."""
    query = select_vectors(embedder).where(documents.c.collection == collection)
    with catalog.read_transaction() as connection:
        found = [
            row.key
            for row in connection.execute(query.order_by(chunks.c.key))
            if not has_sound_vector(row)
        ]
    for keys in split_batches(found, _EMBED_CHUNKS):
        texts = {key: chunk.contextual_text for key, chunk in catalog.chunks(keys).items()}
        vectors = embed(list(texts.values()))
        with catalog.write_transaction(lock_of(collection)) as connection:
            place = read_place(connection, collection, embedder)
            write_vectors(connection, list(texts), vectors, place)
            log_new_vectors(connection, collection)
    return len(found)
