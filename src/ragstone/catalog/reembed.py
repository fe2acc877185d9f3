"""Replace the vectors of a collection by those of another embedder: stored chunks → new vectors.

Until the end the collection bears the new embedder's name with the last chunk that has its vector,
so no search and no ingestion takes it for finished, and a killed run continues where it stopped.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
from sqlalchemy import Connection, bindparam, func, select

from ragstone.catalog import rows
from ragstone.catalog.documents import lock_of
from ragstone.catalog.schema import chunks, collections, documents, files
from ragstone.errors import StoreBusyError
from ragstone.protocols import Catalog, Change, Vectors

Embed = Callable[[Sequence[str]], Vectors]

_BATCH_CHUNKS = 512
_UNFINISHED = " up to chunk "
# The keys of chunks begin at 1: no index has this one.
_NO_KEY = 0


def embed_collection_again(
    catalog: Catalog,
    collection: str,
    embedder: str,
    embed: Embed,
    rebuild: Callable[[], None],
    report: Callable[[int], None] = lambda count: None,
) -> int:
    """Embed every chunk with `embed` and rebuild the index; return the number of chunks.

    `embedder` is the name of the new one. `report` gets the number of chunks done so far.
    """
    # An embedder that cannot be reached must not cost the collection the vectors it has.
    embed(["A first text, to see that the embedder answers."])
    mark = _begin(catalog, collection, embedder)
    done = 0
    while batch := _read_batch(catalog, collection, after=_read_position(mark)):
        vectors = embed([text for _, text in batch])
        keys = [key for key, _ in batch]
        mark = _write_batch(catalog, collection, mark, embedder, keys, vectors)
        done += len(batch)
        report(done)
    # Only then may searches trust the name: an index with the old vectors would answer nonsense.
    rebuild()
    _finish(catalog, collection, mark, embedder)
    return done


def repair_vectors(catalog: Catalog, collection: str, embed: Embed) -> int:
    """Embed the chunks whose vectors are damaged; return their number. Then rebuild the index."""
    query = (
        select(chunks.c.key, chunks.c.embedding, chunks.c.vector_checksum)
        .join(documents, documents.c.id == chunks.c.document_id)
        .where(documents.c.collection == collection)
    )
    with catalog.read_transaction() as connection:
        found = [row.key for row in connection.execute(query) if not rows.is_sound_vector(*row[1:])]
    for begin in range(0, len(found), _BATCH_CHUNKS):
        keys = found[begin : begin + _BATCH_CHUNKS]
        texts = {key: chunk.contextual_text for key, chunk in catalog.chunks(keys).items()}
        vectors = embed(list(texts.values()))
        with catalog.write_transaction() as connection:
            write_vectors(connection, list(texts), vectors)
            _log_new_vectors(connection, collection)
    return len(found)


def _begin(catalog: Catalog, collection: str, embedder: str) -> str:
    """Mark the collection as unfinished; return the mark of this run or of the one before."""
    with catalog.write_transaction(lock_of(collection)) as connection:
        stored = _read_name(connection, collection)
        if stored.startswith(f"{embedder}{_UNFINISHED}"):
            return stored
        mark = f"{embedder}{_UNFINISHED}{_NO_KEY}"
        _set_name(connection, collection, stored, mark)
        # Files whose chunks are here need not be read again because of the new name.
        before = stored.partition(_UNFINISHED)[0]
        name = func.replace(files.c.fingerprint, f":{before}:", f":{embedder}:")
        here = files.c.collection == collection
        connection.execute(files.update().where(here).values(fingerprint=name))
    return mark


def _read_position(mark: str) -> int:
    return int(mark.rpartition(_UNFINISHED)[2])


def _read_batch(catalog: Catalog, collection: str, *, after: int) -> list[tuple[int, str]]:
    query = (
        rows.select_chunks.where(documents.c.collection == collection, chunks.c.key > after)
        .order_by(chunks.c.key)
        .limit(_BATCH_CHUNKS)
    )
    with catalog.read_transaction() as connection:
        return [(row.key, rows.to_chunk(row).contextual_text) for row in connection.execute(query)]


_set_vector = (
    chunks.update()
    .where(chunks.c.key == bindparam("chunk"))
    .values(embedding=bindparam("vector"), vector_checksum=bindparam("sum"))
)


def _write_batch(
    catalog: Catalog,
    collection: str,
    mark: str,
    embedder: str,
    keys: Sequence[int],
    vectors: Vectors,
) -> str:
    after = f"{embedder}{_UNFINISHED}{keys[-1]}"
    with catalog.write_transaction(lock_of(collection)) as connection:
        _set_name(connection, collection, mark, after)
        write_vectors(connection, keys, vectors)
    return after


def write_vectors(connection: Connection, keys: Sequence[int], vectors: Vectors) -> None:
    """Replace the vectors of chunks."""
    stored = [vector.tobytes() for vector in np.asarray(vectors).astype("<f2")]
    values = [
        {"chunk": key, "vector": vector, "sum": zlib.crc32(vector)}
        for key, vector in zip(keys, stored, strict=True)
    ]
    connection.execute(_set_vector, values)


def _finish(catalog: Catalog, collection: str, mark: str, embedder: str) -> None:
    with catalog.write_transaction(lock_of(collection)) as connection:
        _set_name(connection, collection, mark, embedder)
        _log_new_vectors(connection, collection)


def _log_new_vectors(connection: Connection, collection: str) -> None:
    """Log a change, although it removes nothing: other processes forget what they had cached."""
    rows.log_change(connection, collection, Change(0, "remove", "", _NO_KEY, 1))


def _read_name(connection: Connection, collection: str) -> str:
    query = select(collections.c.embedder).where(collections.c.name == collection)
    return str(connection.execute(query).scalar_one())


def _set_name(connection: Connection, collection: str, before: str, after: str) -> None:
    """Change the embedder's name; refuse if another process changed it meanwhile."""
    here = (collections.c.name == collection, collections.c.embedder == before)
    if not connection.execute(collections.update().where(*here).values(embedder=after)).rowcount:
        raise StoreBusyError(
            f"The collection '{collection}' is being embedded by another process.",
            hint="Wait until it has finished.",
        )
