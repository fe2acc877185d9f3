"""Embed the stored chunks of a collection with another embedder: texts → vectors.

Questions are answered with the generation before until `switch` makes the new one the one that is
searched. Whatever is committed stays: a run that was killed is continued by the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragstone.catalog import rows
from ragstone.catalog.documents import lock_of
from ragstone.catalog.generations import (
    Generation,
    advance_generation,
    log_new_vectors,
    switch_generation,
)
from ragstone.catalog.schema import chunks, documents
from ragstone.catalog.vectors import (
    find_vectorless,
    has_sound_vector,
    read_place,
    select_vectors,
    write_vectors,
)
from ragstone.protocols import Catalog, Change, Vectors

Embed = Callable[[Sequence[str]], Vectors]

_BATCH_CHUNKS = 256
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
            for begin in range(0, len(keys), _MAX_KEYS):
                self._embed_missing(keys[begin : begin + _MAX_KEYS])
            self._advance([], np.empty((0, 0), np.float32), changes[-1].seq)
            if may_refresh and self._unindexed >= _CHUNKS_PER_REFRESH:
                self._refresh()

    def _read_changes(self) -> list[Change]:
        here = self.generation
        return self.catalog.changes(here.collection, after=here.filled_seq, limit=_BATCH_CHANGES)

    def _embed_missing(self, keys: Sequence[int]) -> None:
        with self.catalog.read_transaction() as connection:
            missing = find_vectorless(connection, self.generation.embedder, keys)
        for begin in range(0, len(missing), _BATCH_CHUNKS):
            batch = missing[begin : begin + _BATCH_CHUNKS]
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
    for begin in range(0, len(found), _BATCH_CHUNKS):
        keys = found[begin : begin + _BATCH_CHUNKS]
        texts = {key: chunk.contextual_text for key, chunk in catalog.chunks(keys).items()}
        vectors = embed(list(texts.values()))
        with catalog.write_transaction(lock_of(collection)) as connection:
            place = read_place(connection, collection, embedder)
            write_vectors(connection, list(texts), vectors, place)
            log_new_vectors(connection, collection)
    return len(found)
