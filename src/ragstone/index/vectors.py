"""Store and search vectors: an append-only file of vectors, and one of their ascending keys.

Rows after those that the manifest counts are ignored, so that an interrupted write has no effect.
The files are mapped into memory: opening them takes the same time at any length.
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

from ragstone.filters import SearchScope
from ragstone.protocols import ScoredKey, Vectors
from ragstone.system import sync_directory

# Single precision: converting 300 half-precision vectors takes longer than finding them.
_VECTOR, _KEY = np.dtype("<f4"), np.dtype("<i8")
KEYS_FILE, VECTORS_FILE = "keys.i64", "vectors.f32"
_BATCH_ROWS = 16_384


def get_file_widths(dimension: int) -> tuple[int, int]:
    """Return the bytes of a row in the file of keys and in that of vectors."""
    return _KEY.itemsize, _VECTOR.itemsize * dimension


@dataclass(frozen=True, slots=True)
class VectorFile:
    """Map the first rows of a folder's files into memory."""

    dimension: int
    keys: NDArray[np.int64]
    vectors: NDArray[np.float32]

    @classmethod
    def open(cls, folder: Path, *, dimension: int, rows: int) -> VectorFile:
        """Map the files; a file that is too short is a ValueError."""
        if not rows:
            return cls(dimension, np.empty(0, _KEY), np.empty((0, dimension), _VECTOR))
        keys, vectors = folder / KEYS_FILE, folder / VECTORS_FILE
        for path, width in zip((keys, vectors), get_file_widths(dimension), strict=True):
            if path.stat().st_size < rows * width:
                raise ValueError(f"{path.name} is shorter than its manifest says")
        return cls(
            dimension,
            np.fromfile(keys, _KEY, count=rows),
            # As a plain array: every access to a memmap object is slower.
            np.asarray(np.memmap(vectors, _VECTOR, mode="r", shape=(rows, dimension))),
        )


def append_vectors(
    folder: Path, *, rows: int, keys: Sequence[int], vectors: NDArray[np.floating]
) -> int:
    """Write vectors after the first `rows` rows; return the new number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    width = vectors.shape[1] * _VECTOR.itemsize
    _write_at(folder / KEYS_FILE, rows * _KEY.itemsize, np.asarray(keys, _KEY).tobytes())
    _write_at(folder / VECTORS_FILE, rows * width, vectors.astype(_VECTOR).tobytes())
    sync_directory(folder)
    return rows + len(keys)


def copy_rows(file: VectorFile, mask: NDArray[np.bool_], folder: Path) -> int:
    """Copy the rows of a mask into a new folder; return how many."""
    rows = 0
    for begin in range(0, len(file.keys), _BATCH_ROWS):
        part = slice(begin, begin + _BATCH_ROWS)
        keys, vectors = file.keys[part][mask[part]], file.vectors[part][mask[part]]
        rows = append_vectors(folder, rows=rows, keys=keys.tolist(), vectors=vectors)
    return rows


def _write_at(path: Path, offset: int, content: bytes) -> None:
    path.touch()
    with path.open("r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# Up to this size a scan of all float32 vectors takes less than a millisecond.
EXACT_ROWS = 4_000
# Up to this number of allowed rows they are scored exactly; a mask over the codes takes longer.
_MAX_EXACT_SCOPE = 20_000
# Codes rank only roughly: at least this many hits are scored again, or three times the limit.
# Recall@10 on 200,000 vectors of real text: 0.977 for 150, 0.987 for 200, 0.996 for 300.
# `measure_depth` raises it for vectors that need more.
MIN_DEPTH = 300
_DIMENSIONS_PER_CODE = 4
# Sixteen centroids per subspace need few examples.
_TRAINING_ROWS = 20_000
_NO_ROWS: NDArray[np.int64] = np.empty(0, dtype=np.int64)
# The score of two unit vectors is at most 1; half-precision vectors are a little longer.
_MAX_SCORE = 1.01


class DamagedVectorsError(ValueError):
    """Report scores that no two unit vectors have: bits of the file have changed."""


class DenseIndex:
    """Search the vectors of a collection, without those of deleted chunks."""

    def __init__(
        self,
        file: VectorFile,
        *,
        dead: Sequence[range],
        codes: Codes | None,
        depth: int = MIN_DEPTH,
    ) -> None:
        self._file = file
        self._depth = depth
        self._keys = file.keys
        alive = ~mask_keys(self._keys, dead)
        self._count = int(alive.sum())
        self._alive = None if self._count == len(alive) else alive
        self._codes = codes

    def __len__(self) -> int:
        return self._count

    def search(self, vector: Vectors, *, limit: int, scope: SearchScope | None) -> list[ScoredKey]:
        """Return the most similar chunks, best first, equal scores by ascending key."""
        ranges = None if scope is None else _find_rows(self._keys, scope.ranges)
        is_small = ranges is not None and sum(map(len, ranges)) <= _MAX_EXACT_SCOPE
        with np.errstate(all="ignore"):  # damaged vectors: `_check_scores` reports them
            if self._codes is None or is_small:
                rows, similarities = self._search_exactly(vector, ranges)
            else:
                rows, similarities = self._search_codes(self._codes, vector, limit, ranges)
        _check_scores(similarities, vector)
        keys = self._keys[rows]
        best = select_best_rows(keys, similarities, limit)
        return list(map(ScoredKey, keys[best].tolist(), similarities[best].tolist()))

    def vectors(self, keys: Sequence[int]) -> Vectors:
        """Return the vectors of these keys, in their order; zeros for a missing key."""
        wanted = np.asarray(keys, dtype=np.int64)
        vectors = np.zeros((len(wanted), self._file.dimension), dtype=np.float32)
        if len(self._keys):
            rows = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
            exists = self._keys[rows] == wanted
            vectors[exists] = self._file.vectors[rows[exists]]
        return vectors

    def _search_exactly(
        self, vector: Vectors, ranges: Sequence[range] | None
    ) -> tuple[NDArray[np.int64], Vectors]:
        if ranges is None:
            rows = np.arange(len(self._keys))
        else:
            rows = np.concatenate([np.arange(r.start, r.stop) for r in ranges] or [_NO_ROWS])
        if self._alive is not None:
            rows = rows[self._alive[rows]]
        vectors = self._file.vectors
        # Row by row and not `@`: a product of this size wakes the BLAS threads, which then spin
        # (4,000 rows on two cores: 2.9 CPU ms against 0.4).
        return rows, np.vecdot(vectors if len(rows) == len(vectors) else vectors[rows], vector)

    def _search_codes(
        self, codes: Codes, vector: Vectors, limit: int, ranges: Sequence[range] | None
    ) -> tuple[NDArray[np.int64], Vectors]:
        """Find the best rows by codes, more until enough are allowed, and score them exactly."""
        total, allowed, count = len(self._keys), self._alive, self._count
        if ranges is not None:
            inside = mask_rows(total, ranges)
            allowed = inside if allowed is None else allowed & inside
            count = int(allowed.sum())
        depth = int(max(self._depth, 3 * limit) * total / max(1, count))
        while True:
            rows = codes.nearest(vector, min(depth, total))
            rows = rows[rows < total]  # the codes may already have rows of a newer file
            if allowed is not None:
                rows = rows[allowed[rows]]
            if len(rows) >= min(limit, count) or depth >= total:
                rows = np.sort(rows)
                return rows, self._file.vectors[rows] @ vector
            depth *= 4


def _check_scores(scores: Vectors, vector: Vectors) -> None:
    """Raise an error for a score outside of [-1, 1] or NaN, if the question's vector is sound."""
    bound = _MAX_SCORE * max(1.0, float(np.linalg.norm(vector)))
    # NaN is the result of `max` and `min` as soon as one score is NaN, and compares as False.
    if len(scores) and np.isfinite(bound) and not (-bound <= scores.min() <= scores.max() <= bound):
        count = len(scores) - int((np.abs(scores) <= bound).sum())
        raise DamagedVectorsError(f"{count:,} of {len(scores):,} scores are not in [-1, 1]")


class Codes:
    """Hold short codes of the first rows of a file; rows are added in memory."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._lock = threading.Lock()

    @classmethod
    def train(cls, file: VectorFile) -> Codes:
        """Learn the codebook from a sample of the file, then add all rows."""
        faiss = _faiss()
        index = faiss.IndexPQFastScan(
            file.dimension, file.dimension // _DIMENSIONS_PER_CODE, 4, faiss.METRIC_INNER_PRODUCT
        )
        # The fixed seed makes builds repeatable.
        sample = np.random.default_rng(0).permutation(len(file.keys))[:_TRAINING_ROWS]
        index.train(file.vectors[np.sort(sample)])
        codes = cls(index)
        codes.extend(file)
        return codes

    @classmethod
    def read(cls, path: Path) -> Codes:
        # By a path, faiss reports a failing disk as RuntimeError, which is also damage.
        with path.open("rb") as file:
            return cls(_faiss().read_index(_faiss().PyCallbackIOReader(file.read)))

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            _faiss().write_index(self._index, _faiss().PyCallbackIOWriter(file.write))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def extend(self, file: VectorFile) -> None:
        """Add the rows of a file that have no code yet."""
        with self._lock:
            for begin in range(len(self), len(file.keys), _BATCH_ROWS):
                self._index.add(file.vectors[begin : begin + _BATCH_ROWS])

    def nearest(self, vector: Vectors, count: int) -> NDArray[np.int64]:
        with self._lock:
            rows: NDArray[np.int64] = self._index.search(vector[None, :], count)[1][0]
        return rows[rows >= 0]


def _faiss() -> Any:
    import faiss

    # One thread per query; more threads only wait for each other.
    faiss.omp_set_num_threads(1)
    return faiss


def mask_keys(keys: NDArray[np.int64], ranges: Sequence[range]) -> NDArray[np.bool_]:
    """Return which of the ascending keys are in any of the ranges."""
    return mask_rows(len(keys), _find_rows(keys, ranges))


def _find_rows(keys: NDArray[np.int64], ranges: Sequence[range]) -> list[range]:
    """Return the ranges of rows whose ascending keys are in the ranges of keys."""
    edges = np.array([(one.start, one.stop) for one in ranges], dtype=np.int64)
    rows = np.searchsorted(keys, edges.reshape(-1, 2))
    return [range(int(begin), int(end)) for begin, end in rows if begin < end]


def mask_rows(count: int, ranges: Sequence[range]) -> NDArray[np.bool_]:
    mask = np.zeros(count, dtype=bool)
    for rows in ranges:
        mask[rows.start : rows.stop] = True
    return mask


def select_best_rows(
    keys: NDArray[np.int64], similarities: Vectors, limit: int
) -> NDArray[np.int64]:
    """Return the positions of the best rows, best first; ties by ascending key."""
    if limit < len(similarities):
        edge = np.partition(similarities, -limit)[-limit]
        rows = np.flatnonzero(similarities >= edge)
    else:
        rows = np.arange(len(similarities))
    order = np.lexsort((keys[rows], -similarities[rows]))
    return np.asarray(rows[order][:limit])


# How well codes rank depends on the embedder and the texts: at the depth that gives a recall@10 of
# 0.996 on one collection, another one has 0.90. So it is measured on rows of the collection itself.
TARGET_RECALL = 0.99
_NEAREST = 10
# A thousand hits: the standard error at 0.99 is 0.003.
_SAMPLED_ROWS = 100
# Each is about 1.4 times the one before, up to 27,000.
_DEPTHS = tuple(int(MIN_DEPTH * 2 ** (step / 2)) for step in range(14))
# Copies of a text have equal scores but for rounding: any of them is as good as another.
_ROUNDING = 1e-5


def measure_depth(file: VectorFile, codes: Codes) -> tuple[int, float]:
    """Return the smallest depth with a recall@10 of 0.99 or more on sampled rows, and its recall.

    If no depth is enough, return the largest.
    """
    sample = np.sort(np.random.default_rng(0).permutation(len(file.keys))[:_SAMPLED_ROWS])
    edges = _find_edges(file, sample) - _ROUNDING
    for depth in _DEPTHS:
        recall = _measure_recall(file, codes, sample, edges, depth)
        if recall >= TARGET_RECALL or depth >= len(file.keys):
            break
    return depth, recall


def _find_edges(file: VectorFile, sample: NDArray[np.int64]) -> Vectors:
    """Return the tenth best score of each sampled row, without itself, by comparing it with all."""
    questions = file.vectors[sample]
    best = np.full((len(sample), _NEAREST), -np.inf, dtype=np.float32)
    for begin in range(0, len(file.keys), _BATCH_ROWS):
        scores = questions @ file.vectors[begin : begin + _BATCH_ROWS].T
        inside = (sample >= begin) & (sample < begin + scores.shape[1])
        scores[inside, sample[inside] - begin] = -np.inf
        best = np.partition(np.hstack([best, scores]), -_NEAREST, axis=1)[:, -_NEAREST:]
    return np.asarray(best.min(axis=1))


def _measure_recall(
    file: VectorFile, codes: Codes, sample: NDArray[np.int64], edges: Vectors, depth: int
) -> float:
    hits = 0
    for row, edge in zip(sample, edges, strict=True):
        rows = codes.nearest(file.vectors[row], min(depth, len(file.keys)))
        scores = file.vectors[rows[rows != row]] @ file.vectors[row]
        hits += min(_NEAREST, int((scores >= edge).sum()))
    return hits / (_NEAREST * len(sample))
