"""Vectors on the disk: an append-only file beside a file of their keys, in ascending order.

What lies behind the rows that the manifest counts is not there, so a write that was cut off
leaves no trace; and the files are mapped, so opening costs the same however long they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
