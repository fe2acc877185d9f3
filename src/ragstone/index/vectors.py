"""Vectors on the disk: an append-only file beside a file of their keys, in ascending order.

What lies behind the rows that the manifest counts is not there, so a write that was cut off
leaves no trace; and the files are mapped, so opening costs the same however long they are.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragstone.protocols import Found, Vectors, Within
from ragstone.system import sync_directory

# Single precision: bringing 300 half-precision vectors to it costs more than finding them.
_VECTOR, _KEY = np.dtype("<f4"), np.dtype("<i8")
_COPIED_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class VectorFile:
    """The first rows of a folder's files, mapped into memory."""

    dimension: int
    keys: NDArray[np.int64]
    vectors: NDArray[np.float32]

    @classmethod
    def open(cls, folder: Path, *, dimension: int, rows: int) -> VectorFile:
        """Map the files; one that is missing or too short is an OSError."""
        if not rows:
            return cls(dimension, np.empty(0, _KEY), np.empty((0, dimension), _VECTOR))
        for path, width in (
            (_keys(folder), _KEY.itemsize),
            (_vectors(folder), _VECTOR.itemsize * dimension),
        ):
            if path.stat().st_size < rows * width:
                raise OSError(f"{path.name} is shorter than its manifest says")
        return cls(
            dimension,
            np.fromfile(_keys(folder), _KEY, count=rows),
            # As a plain array: the class of the map makes every look-up slower.
            np.asarray(np.memmap(_vectors(folder), _VECTOR, mode="r", shape=(rows, dimension))),
        )


def append(folder: Path, *, rows: int, keys: Sequence[int], vectors: NDArray[np.floating]) -> int:
    """Write vectors behind the first `rows`, and return how many there are then."""
    folder.mkdir(parents=True, exist_ok=True)
    width = vectors.shape[1] * _VECTOR.itemsize
    _write_at(_keys(folder), rows * _KEY.itemsize, np.asarray(keys, _KEY).tobytes())
    _write_at(_vectors(folder), rows * width, vectors.astype(_VECTOR).tobytes())
    sync_directory(folder)
    return rows + len(keys)


def copy_living(file: VectorFile, alive: NDArray[np.bool_], folder: Path) -> int:
    """Write the living rows of a file into a new folder, and return how many they are."""
    rows = 0
    for begin in range(0, len(file.keys), _COPIED_ROWS):
        part = slice(begin, begin + _COPIED_ROWS)
        here = alive[part]
        rows = append(
            folder, rows=rows, keys=file.keys[part][here].tolist(), vectors=file.vectors[part][here]
        )
    return rows


def _keys(folder: Path) -> Path:
    return folder / "keys.i64"


def _vectors(folder: Path) -> Path:
    return folder / "vectors.f32"


def _write_at(path: Path, offset: int, content: bytes) -> None:
    path.touch()
    with path.open("r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# Up to here a scan of all vectors in float32 costs less than a millisecond.
EXACT_ROWS = 4_000
# So few allowed rows are gathered and scored exactly; a mask over the codes costs more.
_GATHERED_ROWS = 20_000
# Codes rank the head only roughly: this many are scored again, or thrice the limit. Recall@10 on
# 200,000 vectors of real text: 0.977 for 150, 0.987 for 200, 0.996 for 300.
_LEAST_DEPTH = 300
_DIMENSIONS_PER_CODE = 4


class DenseIndex:
    """The living vectors of a collection, ready to be searched."""

    def __init__(self, file: VectorFile, *, dead: Sequence[range], codes: Codes | None) -> None:
        self._file = file
        self._keys = file.keys
        alive = ~covered(self._keys, dead)
        self._living = int(alive.sum())
        self._alive = None if self._living == len(alive) else alive
        self._codes = codes

    def __len__(self) -> int:
        return self._living

    def search(self, vector: Vectors, *, limit: int, within: Within | None) -> list[Found]:
        """The most similar chunks, best first, equal ones in the order of their keys."""
        spans = None if within is None else self._row_spans(within.ranges)
        narrow = spans is not None and sum(map(len, spans)) <= _GATHERED_ROWS
        if self._codes is None or narrow:
            rows, similarities = self._exact(vector, spans)
        else:
            rows, similarities = self._coded(self._codes, vector, limit=limit, spans=spans)
        keys = self._keys[rows]
        best = best_rows(keys, similarities, limit)
        return list(map(Found, keys[best].tolist(), similarities[best].tolist()))

    def vectors(self, keys: Sequence[int]) -> Vectors:
        """The vectors of these keys, in their order; zeros where there is none."""
        wanted = np.asarray(keys, dtype=np.int64)
        found = np.zeros((len(wanted), self._file.dimension), dtype=np.float32)
        if len(self._keys):
            rows = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            here = self._keys[rows] == wanted
            found[here] = self._file.vectors[rows[here]]
        return found

    def _exact(
        self, vector: Vectors, spans: Sequence[range] | None
    ) -> tuple[NDArray[np.int64], Vectors]:
        if spans is None:
            rows = np.arange(len(self._keys))
        else:
            rows = np.concatenate([np.arange(s.start, s.stop) for s in spans] or [_NO_ROWS])
        if self._alive is not None:
            rows = rows[self._alive[rows]]
        vectors = self._file.vectors
        # Row by row and not `@`: a product of this size wakes the BLAS threads, which then spin
        # (4,000 rows on two cores: 2.9 CPU ms against 0.4).
        return rows, np.vecdot(vectors if len(rows) == len(vectors) else vectors[rows], vector)

    def _coded(
        self, codes: Codes, vector: Vectors, *, limit: int, spans: Sequence[range] | None
    ) -> tuple[NDArray[np.int64], Vectors]:
        """The head by codes, scored exactly; dug deeper until enough of it is allowed."""
        total, allowed, count = len(self._keys), self._alive, self._living
        if spans is not None:
            inside = rows_mask(total, spans)
            allowed = inside if allowed is None else allowed & inside
            count = int(allowed.sum())
        depth = int(max(_LEAST_DEPTH, 3 * limit) * total / max(1, count))
        while True:
            rows = codes.nearest(vector, min(depth, total))
            rows = rows[rows < total]  # the codes may have grown for a newer view of the file
            if allowed is not None:
                rows = rows[allowed[rows]]
            if len(rows) >= min(limit, count) or depth >= total:
                rows = np.sort(rows)
                return rows, self._file.vectors[rows] @ vector
            depth *= 4

    def _row_spans(self, ranges: Sequence[range]) -> list[range]:
        edges = np.array([(keys.start, keys.stop) for keys in ranges], dtype=np.int64)
        rows = np.searchsorted(self._keys, edges.reshape(-1, 2))
        return [range(int(begin), int(end)) for begin, end in rows if begin < end]


class Codes:
    """Short codes of the first rows of a file, extended in memory as rows are added."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._lock = threading.Lock()

    @classmethod
    def train(cls, file: VectorFile) -> Codes:
        """Learn the codebook from a sample of the file, then take in all of it."""
        faiss = _faiss()
        index = faiss.IndexPQFastScan(
            file.dimension, file.dimension // _DIMENSIONS_PER_CODE, 4, faiss.METRIC_INNER_PRODUCT
        )
        # Sixteen centroids a subspace need few examples; the seed makes builds repeatable.
        sample = np.random.default_rng(0).permutation(len(file.keys))[:_TRAINING_ROWS]
        index.train(file.vectors[np.sort(sample)])
        codes = cls(index)
        codes.extend(file)
        return codes

    @classmethod
    def read(cls, path: Path) -> Codes:
        return cls(_faiss().read_index(str(path)))

    def write(self, path: Path) -> None:
        _faiss().write_index(self._index, str(path))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def extend(self, file: VectorFile) -> None:
        """Take in the rows of a file that are not in yet."""
        with self._lock:
            for begin in range(len(self), len(file.keys), _ADDED_ROWS):
                self._index.add(file.vectors[begin : begin + _ADDED_ROWS])

    def nearest(self, vector: Vectors, count: int) -> NDArray[np.int64]:
        with self._lock:
            rows: NDArray[np.int64] = self._index.search(vector[None, :], count)[1][0]
        return rows[rows >= 0]


_TRAINING_ROWS = 20_000
_ADDED_ROWS = 16_384
_NO_ROWS: NDArray[np.int64] = np.empty(0, dtype=np.int64)


def _faiss() -> Any:
    import faiss

    # One query is one thread's work; more threads only wait for each other.
    faiss.omp_set_num_threads(1)
    return faiss


def covered(keys: NDArray[np.int64], ranges: Sequence[range]) -> NDArray[np.bool_]:
    """Which of the ascending keys lie in any of the ranges."""
    if not ranges:
        return np.zeros(len(keys), dtype=bool)
    edges = np.array([(span.start, span.stop) for span in ranges], dtype=np.int64)
    rows = np.searchsorted(keys, edges)
    return rows_mask(len(keys), [range(int(begin), int(end)) for begin, end in rows])


def rows_mask(count: int, spans: Sequence[range]) -> NDArray[np.bool_]:
    mask = np.zeros(count, dtype=bool)
    for span in spans:
        mask[span.start : span.stop] = True
    return mask


def best_rows(keys: NDArray[np.int64], similarities: Vectors, limit: int) -> NDArray[np.int64]:
    """Positions of the best, best first; ties are ordered and cut by key."""
    if limit < len(similarities):
        edge = np.partition(similarities, -limit)[-limit]
        rows = np.flatnonzero(similarities >= edge)
    else:
        rows = np.arange(len(similarities))
    order = np.lexsort((keys[rows], -similarities[rows]))
    return np.asarray(rows[order][:limit])
