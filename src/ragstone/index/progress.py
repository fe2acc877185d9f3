"""Store how far an index on a server has followed the catalog, and how often its terms occur.

Both stand in the catalog's database: they change in one transaction, so that a process which is
killed between two steps neither counts a chunk twice nor loses one, and the rarity of a term is
that of the whole collection, however many shards the index has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select

from ragstone.catalog.schema import index_states, index_terms, insert_into, split_batches
from ragstone.index.chunk_store import make_busy_error
from ragstone.protocols import Catalog

_ROWS_PER_STATEMENT = 1000


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """Hold the last change in an index, and the counts that BM25 needs."""

    epoch: str
    build: int = 1
    seq: int = 0
    deleted_seq: int = 0
    chunk_count: int = 0
    total_length: int = 0
    target_seq: int = 0
    """An index that is filled for the first time is not searched before this change."""

    def count(self, chunks: int, length: int) -> IndexProgress:
        """Return the progress with so many chunks more, or fewer, and their length."""
        total = self.total_length + length
        return replace(self, chunk_count=self.chunk_count + chunks, total_length=total)

    @property
    def average_length(self) -> float:
        return self.total_length / self.chunk_count if self.chunk_count else 1.0


def new_build() -> int:
    """Return a number for the chunks of one build, larger than those of earlier ones."""
    return time.time_ns() // 1_000_000


class ProgressStore:
    """Read and write the progress of one index."""

    def __init__(self, catalog: Catalog, index_name: str) -> None:
        self._catalog = catalog
        self._name = index_name

    def read(self, collection: str) -> IndexProgress | None:
        with self._catalog.read_transaction() as connection:
            row = connection.execute(
                select(index_states).where(*self._here(index_states, collection))
            ).first()
        if row is None:
            return None
        return IndexProgress(**{name: getattr(row, name) for name in IndexProgress.__slots__})

    def begin(self, collection: str, progress: IndexProgress) -> None:
        """Start anew: replace what is stored, if anything is."""
        with self._catalog.write_transaction(lock=f"index:{self._name}") as connection:
            self._replace(connection, collection, progress, {})

    def advance(
        self,
        collection: str,
        before: IndexProgress,
        after: IndexProgress,
        terms: Mapping[int, int],
    ) -> bool:
        """Store the next state and add to the counts; False if another process was faster."""
        same = [index_states.c[name] == value for name, value in asdict(before).items()]
        with self._catalog.write_transaction(lock=f"index:{self._name}") as connection:
            update = index_states.update().where(*self._here(index_states, collection), *same)
            if not connection.execute(update.values(**asdict(after))).rowcount:
                return False
            self._add_terms(connection, collection, terms)
        return True

    def replace(self, collection: str, progress: IndexProgress, terms: Mapping[int, int]) -> None:
        """Store a state and all its counts in place of those before."""
        with self._catalog.write_transaction(lock=f"index:{self._name}") as connection:
            self._replace(connection, collection, progress, terms)

    def delete(self, collection: str) -> None:
        with self._catalog.write_transaction(lock=f"index:{self._name}") as connection:
            for table in (index_states, index_terms):
                connection.execute(table.delete().where(*self._here(table, collection)))

    def count_chunks(self, collection: str, terms: Iterable[int]) -> dict[int, int]:
        """Return in how many chunks each term occurs; terms that occur in none are left out."""
        query = select(index_terms.c.term, index_terms.c.chunk_count).where(
            *self._here(index_terms, collection), index_terms.c.term.in_(list(terms))
        )
        with self._catalog.read_transaction() as connection:
            return {row.term: row.chunk_count for row in connection.execute(query)}

    def acquire(self, collection: str, holder: str, *, lease_s: float) -> bool:
        """Take or extend the lease of the one process that follows the changes.

        This only saves work: `advance` fails unless it starts from the stored state.
        """
        now = time.time()
        is_free = (index_states.c.holder == holder) | (index_states.c.held_until < now)
        update = index_states.update().where(*self._here(index_states, collection), is_free)
        with self._catalog.write_transaction(lock=f"index:{self._name}") as connection:
            held = update.values(holder=holder, held_until=now + lease_s)
            return bool(connection.execute(held).rowcount)

    @contextmanager
    def hold(
        self, collection: str, holder: str, lease_s: float, wait_s: float = math.inf
    ) -> Iterator[None]:
        """Wait for the lease and hold it; raise a StoreBusyError if it is not free in time."""
        end = time.monotonic() + wait_s
        while not self.acquire(collection, holder, lease_s=lease_s):
            if time.monotonic() > end:
                raise make_busy_error(collection)
            time.sleep(0.2)
        try:
            yield
        finally:
            self.release(collection, holder)

    def release(self, collection: str, holder: str) -> None:
        update = index_states.update().where(
            *self._here(index_states, collection), index_states.c.holder == holder
        )
        with self._catalog.write_transaction(lock=f"index:{self._name}") as connection:
            connection.execute(update.values(holder="", held_until=0.0))

    def list_others(self, collection: str, prefix: str) -> list[str]:
        """List the indexes whose names begin with `prefix` and that hold this collection too."""
        query = select(index_states.c.index_name).where(index_states.c.collection == collection)
        with self._catalog.read_transaction() as connection:
            names = list(connection.scalars(query))
        return [name for name in names if name.startswith(prefix) and name != self._name]

    def _here(self, table: Table, collection: str) -> tuple[ColumnElement[bool], ...]:
        return table.c.index_name == self._name, table.c.collection == collection

    def _replace(
        self,
        connection: Connection,
        collection: str,
        progress: IndexProgress,
        terms: Mapping[int, int],
    ) -> None:
        held: dict[str, Any] = {"holder": "", "held_until": 0.0}
        here = self._here(index_states, collection)
        row = connection.execute(select(index_states).where(*here)).first()
        if row is not None:
            held = {"holder": row.holder, "held_until": row.held_until}
        connection.execute(index_states.delete().where(*here))
        connection.execute(index_terms.delete().where(*self._here(index_terms, collection)))
        names = {"index_name": self._name, "collection": collection}
        connection.execute(index_states.insert().values(**names, **asdict(progress), **held))
        self._add_terms(connection, collection, terms)

    def _add_terms(self, connection: Connection, collection: str, terms: Mapping[int, int]) -> None:
        names = {"index_name": self._name, "collection": collection}
        # In one order, so that no two processes wait for each other's rows.
        changed = sorted((term, count) for term, count in terms.items() if count)
        for part in split_batches(changed, _ROWS_PER_STATEMENT):
            rows = [{**names, "term": term, "chunk_count": count} for term, count in part]
            connection.execute(_build_upsert(connection, rows))
        if any(count < 0 for _, count in changed):
            unused = index_terms.c.chunk_count <= 0
            connection.execute(
                index_terms.delete().where(*self._here(index_terms, collection), unused)
            )


def _build_upsert(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Any:
    insert = insert_into(connection, index_terms).values(list(rows))
    return insert.on_conflict_do_update(
        index_elements=["index_name", "collection", "term"],
        set_={"chunk_count": index_terms.c.chunk_count + insert.excluded.chunk_count},
    )
