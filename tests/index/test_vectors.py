"""Test vector search with codes, deleted rows, scopes, and truncated files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.filters import Condition, SearchScope
from ragstone.index.vectors import (
    Codes,
    DenseIndex,
    VectorFile,
    append_vectors,
    copy_rows,
    mask_keys,
    select_best_rows,
)
from ragstone.protocols import Vectors

ROWS, DIMENSION = 30_000, 64


def clustered(count: int, seed: int) -> Vectors:
    """Return vectors in groups, like those of real text."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(200, DIMENSION))
    vectors = centres[random.integers(0, 200, count)] + 0.6 * random.normal(size=(count, DIMENSION))
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> VectorFile:
    folder = tmp_path_factory.mktemp("vectors")
    append_vectors(folder, rows=0, keys=range(1, ROWS + 1), vectors=clustered(ROWS, 1))
    return VectorFile.open(folder, dimension=DIMENSION, rows=ROWS)


@pytest.fixture(scope="module")
def codes(file: VectorFile) -> Codes:
    return Codes.train(file)


def exact(file: VectorFile, vector: Vectors, allowed: NDArray[np.bool_], limit: int) -> set[int]:
    scores = np.where(allowed, file.vectors @ vector, -np.inf)
    return {int(row) + 1 for row in np.argsort(-scores)[:limit] if allowed[row]}


def share(file: VectorFile, index: DenseIndex, allowed: NDArray[np.bool_]) -> float:
    """Compute the share of the exact first ten that a search finds."""
    asked = clustered(40, 2)
    hits = 0
    for vector in asked:
        found = {hit.key for hit in index.search(vector, limit=10, scope=None)}
        hits += len(found & exact(file, vector, allowed, 10))
    return hits / (10 * len(asked))


def test_codes_find_nearly_all_of_the_nearest(file: VectorFile, codes: Codes) -> None:
    index = DenseIndex(file, dead=[], codes=codes)
    assert share(file, index, np.ones(ROWS, dtype=bool)) >= 0.98


def test_the_dead_are_never_found_and_their_places_are_filled(
    file: VectorFile, codes: Codes
) -> None:
    index = DenseIndex(file, dead=[range(1, 20_001)], codes=codes)
    alive = file.keys > 20_000
    assert len(index) == 10_000
    assert share(file, index, alive) >= 0.98


@pytest.mark.parametrize("ranges", [(range(100, 400),), (range(1, 25_001),), (range(5, 6),), ()])
def test_a_limit_is_kept_whether_narrow_or_broad(
    file: VectorFile, codes: Codes, ranges: tuple[range, ...]
) -> None:
    index = DenseIndex(file, dead=[range(200, 250)], codes=codes)
    allowed = mask_keys(file.keys, ranges) & ~mask_keys(file.keys, [range(200, 250)])
    scope = SearchScope(Condition("unused", "eq", 1), ranges)
    for vector in clustered(10, 3):
        found = {hit.key for hit in index.search(vector, limit=10, scope=scope)}
        wanted = exact(file, vector, allowed, 10)
        assert len(found) == len(wanted)
        assert len(found & wanted) >= 0.9 * len(wanted)


def test_scores_are_exact_and_in_order(file: VectorFile, codes: Codes) -> None:
    vector = clustered(1, 4)[0]
    found = DenseIndex(file, dead=[], codes=codes).search(vector, limit=20, scope=None)
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    for hit in found:
        assert hit.score == pytest.approx(float(file.vectors[hit.key - 1] @ vector), abs=1e-5)


def test_codes_grow_with_the_file(file: VectorFile, tmp_path: Path) -> None:
    append_vectors(tmp_path, rows=0, keys=range(1, 5001), vectors=file.vectors[:5000])
    codes = Codes.train(VectorFile.open(tmp_path, dimension=DIMENSION, rows=5000))
    append_vectors(tmp_path, rows=5000, keys=range(5001, 5101), vectors=file.vectors[5000:5100])
    longer = VectorFile.open(tmp_path, dimension=DIMENSION, rows=5100)
    codes.extend(longer)
    found = DenseIndex(longer, dead=[], codes=codes).search(
        longer.vectors[5050], limit=1, scope=None
    )
    assert found[0].key == 5051


def test_codes_survive_the_disk(codes: Codes, tmp_path: Path) -> None:
    codes.write(tmp_path / "codes")
    vector = clustered(1, 5)[0]
    again = Codes.read(tmp_path / "codes")
    assert again.nearest(vector, 50).tolist() == codes.nearest(vector, 50).tolist()


def test_what_lies_behind_the_counted_rows_is_not_there(tmp_path: Path) -> None:
    vectors = clustered(30, 6)
    append_vectors(tmp_path, rows=0, keys=range(1, 21), vectors=vectors[:20])
    # A run that was cut off left rows behind; the next one writes over them.
    append_vectors(tmp_path, rows=10, keys=range(50, 55), vectors=vectors[20:25])
    file = VectorFile.open(tmp_path, dimension=DIMENSION, rows=15)
    assert file.keys.tolist() == [*range(1, 11), *range(50, 55)]
    with pytest.raises(ValueError, match="shorter"):
        VectorFile.open(tmp_path, dimension=DIMENSION, rows=16)


def test_copying_the_living_leaves_the_dead_behind(file: VectorFile, tmp_path: Path) -> None:
    alive = file.keys % 3 == 0
    rows = copy_rows(file, alive, tmp_path)
    copy = VectorFile.open(tmp_path, dimension=DIMENSION, rows=rows)
    assert copy.keys.tolist() == file.keys[alive].tolist()
    assert np.array_equal(copy.vectors, file.vectors[alive])


def test_ties_are_cut_by_key() -> None:
    keys = np.array([5, 3, 9, 1], dtype=np.int64)
    scores = np.array([0.5, 0.5, 0.9, 0.5], dtype=np.float32)
    assert keys[select_best_rows(keys, scores, 3)].tolist() == [9, 1, 3]
