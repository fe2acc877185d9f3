"""Read and write the vectors of chunks, of either generation.

The vectors of a collection's first embedder stand beside its chunks, those of a second one in a
table of their own (`generations.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from sqlalchemy import Connection, Select, and_, bindparam, select

from ragstone.catalog import rows
from ragstone.catalog.schema import chunk_vectors, chunks, documents, generations, split_batches
from ragstone.errors import StoreError
from ragstone.protocols import Vectors

# In the table of chunks, in that of the second generation, on the way from there to the chunks, or
# being deleted.
Place: TypeAlias = Literal["chunks", "vectors", "moving", "dropping"]


class OtherEmbedderError(StoreError):
    """Report vectors of another embedder than the one that a collection is searched with."""


def select_vectors(embedder: str) -> Select[Any]:
    """Select chunks with what `get_vector` needs to choose the vector of an embedder."""
    here = and_(
        generations.c.collection == documents.c.collection, generations.c.embedder == embedder
    )
    return (
        rows.select_chunks.add_columns(
            chunks.c.embedding,
            chunks.c.vector_checksum,
            chunk_vectors.c.embedding.label("second_embedding"),
            chunk_vectors.c.checksum.label("second_checksum"),
            generations.c.place,
        )
        .join(generations, here, isouter=True)
        .join(chunk_vectors, chunk_vectors.c.key == chunks.c.key, isouter=True)
    )


def get_vector(row: Any) -> tuple[bytes, int | None]:
    """Return the stored vector of a row and its checksum; an empty one if it is still missing."""
    if row.place == "dropping":
        return b"", None
    if row.place == "vectors" or (row.place == "moving" and row.second_embedding is not None):
        return row.second_embedding or b"", row.second_checksum
    return row.embedding, row.vector_checksum


def has_sound_vector(row: Any) -> bool:
    """Return whether the vector of a row is stored and matches its checksum."""
    blob, checksum = get_vector(row)
    return bool(blob) and rows.is_sound_vector(blob, checksum)


def read_vector(row: Any) -> Vectors:
    """Return the vector of a row, or raise an error: a search must not take zeros for it."""
    blob, _ = get_vector(row)
    if not blob:
        raise StoreError(
            f"A chunk of '{row.document_name}' has no vector of this embedder yet.",
            hint="Continue the embedding with: ragstone reembed",
        )
    return rows.to_vector(blob)


def find_vectorless(connection: Connection, embedder: str, keys: Sequence[int]) -> list[Any]:
    """Return the rows of those chunks that exist and have no vector of an embedder."""
    query = select_vectors(embedder).order_by(chunks.c.key)
    found: list[Any] = []
    for part in split_batches(keys):
        wanted = chunks.c.key.in_(part)
        found += [row for row in connection.execute(query.where(wanted)) if not get_vector(row)[0]]
    return found


_set_vector = (
    chunks.update()
    .where(chunks.c.key == bindparam("chunk"))
    .values(embedding=bindparam("vector"), vector_checksum=bindparam("sum"))
)


def pack_vectors(vectors: Vectors) -> Iterator[bytes]:
    for vector in np.asarray(vectors).astype("<f2"):
        yield vector.tobytes()


def write_vectors(
    connection: Connection, keys: Sequence[int], vectors: Vectors, place: Place = "chunks"
) -> None:
    """Replace the vectors of chunks that exist."""
    if not keys:
        return
    stored = list(zip(keys, pack_vectors(vectors), strict=True))
    if place != "vectors":
        values = [{"chunk": key, "vector": one, "sum": zlib.crc32(one)} for key, one in stored]
        connection.execute(_set_vector, values)
    if place == "chunks":
        return
    for part in split_batches(keys):
        connection.execute(chunk_vectors.delete().where(chunk_vectors.c.key.in_(part)))
    if place == "vectors":
        insert_second_vectors(connection, stored)


def insert_second_vectors(connection: Connection, stored: Sequence[tuple[int, bytes]]) -> None:
    values = [{"key": key, "embedding": one, "checksum": zlib.crc32(one)} for key, one in stored]
    connection.execute(chunk_vectors.insert(), values)


def delete_chunks(connection: Connection, row: Any) -> None:
    """Delete the chunks of a document's row with their vectors."""
    connection.execute(chunks.delete().where(chunks.c.document_id == row.id))
    if row.chunk_count:
        connection.execute(
            chunk_vectors.delete().where(
                chunk_vectors.c.key.between(row.first_key, row.first_key + row.chunk_count - 1)
            )
        )


def read_place(connection: Connection, collection: str, embedder: str) -> Place:
    """Return where the vectors of an embedder are stored."""
    query = select(generations.c.place).where(
        generations.c.collection == collection, generations.c.embedder == embedder
    )
    place: Place | None = connection.scalar(query)
    return place or "chunks"
