"""Vector search of one collection: an append-only file of vectors beside a file of their keys.

A row that the manifest does not count is not there, so a write that was cut off leaves no trace.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragstone.stages import Found, KeyRanges, Vectors

_VECTORS, _KEYS = "vectors.f16", "keys.i64"


class DenseIndex:
    """The first `rows` vectors of a directory, less the dead ones, searched exactly."""

    def __init__(
        self, directory: Path, *, dimension: int, rows: int, dead: Sequence[range]
    ) -> None:
        self._keys = np.fromfile(directory / _KEYS, dtype="<i8", count=rows) if rows else _NO_KEYS
        stored = (
            np.fromfile(directory / _VECTORS, dtype="<f2", count=rows * dimension)
            if rows
            else np.empty(0, dtype="<f2")
        )
        if len(self._keys) < rows or len(stored) < rows * dimension:
            raise OSError(f"{directory} is shorter than its manifest says")
        alive = ~covered(self._keys, dead)
        self._keys = self._keys[alive]
        self._vectors: Vectors = stored.reshape(-1, dimension)[alive].astype(np.float32)

    def search(self, vector: Vectors, *, limit: int, within: KeyRanges) -> list[Found]:
        """The most similar chunks, best first, equal ones in the order of their keys."""
        keys, similarities = self._keys, self._vectors @ vector
        if within is not None:
            allowed = covered(keys, within)
            keys, similarities = keys[allowed], similarities[allowed]
        best = _best(keys, similarities, limit)
        return [Found(int(keys[i]), float(similarities[i])) for i in best]

    def vectors(self, keys: Sequence[int]) -> Vectors:
        wanted = np.asarray(keys, dtype=np.int64)
        found = np.zeros((len(wanted), self._vectors.shape[1]), dtype=np.float32)
        rows = np.minimum(np.searchsorted(self._keys, wanted), max(0, len(self._keys) - 1))
        if len(self._keys):
            here = self._keys[rows] == wanted
            found[here] = self._vectors[rows[here]]
        return found


_NO_KEYS: NDArray[np.int64] = np.empty(0, dtype="<i8")


def append(directory: Path, *, dimension: int, rows: int, keys: Sequence[int],
           vectors: Vectors) -> int:  # fmt: skip
    """Write vectors behind the first `rows` and return how many there are then."""
    directory.mkdir(parents=True, exist_ok=True)
    _write_at(directory / _KEYS, rows * 8, np.asarray(keys, dtype="<i8").tobytes())
    _write_at(directory / _VECTORS, rows * dimension * 2, vectors.astype("<f2").tobytes())
    return rows + len(keys)


def covered(keys: NDArray[np.int64], ranges: Sequence[range]) -> NDArray[np.bool_]:
    """Which of the ascending keys lie in any of the ranges."""
    mask = np.zeros(len(keys) + 1, dtype=np.int32)
    for span in ranges:
        begin, end = np.searchsorted(keys, [span.start, span.stop])
        mask[begin] += 1
        mask[end] -= 1
    return np.cumsum(mask)[:-1] > 0


def _best(keys: NDArray[np.int64], similarities: Vectors, limit: int) -> NDArray[np.int64]:
    if limit < len(similarities):
        # Everything as good as the last one within the limit, so that ties are cut by key.
        edge = np.partition(similarities, -limit)[-limit]
        rows = np.flatnonzero(similarities >= edge)
    else:
        rows = np.arange(len(similarities))
    order = np.lexsort((keys[rows], -similarities[rows]))
    return np.asarray(rows[order][:limit])


def _write_at(path: Path, offset: int, content: bytes) -> None:
    path.touch()
    with path.open("r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
