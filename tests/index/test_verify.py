"""Test the checksums of the index files, and the depth of the search by codes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.errors import StoreError, StoreUnavailableError
from ragstone.index.local import EmbeddedIndex
from ragstone.index.manifest import Manifest, add_checksums
from ragstone.index.vectors import (
    MIN_DEPTH,
    TARGET_RECALL,
    Codes,
    DenseIndex,
    VectorFile,
    append_vectors,
    measure_depth,
)
from ragstone.index.verify import check_index_files
from ragstone.protocols import Vectors
from ragstone.testing.conformance import DIMENSION, EMBEDDER, make_document, make_unit_vectors

from ..patience import LONG_S

CHUNKS = 60


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog.in_directory(tmp_path)
    yield catalog
    catalog.close()


@pytest.fixture
def folder(catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an index with vectors, codes and postings."""
    monkeypatch.setattr("ragstone.index.local.EXACT_ROWS", 20)
    vectors = make_unit_vectors(CHUNKS, seed=3)
    for at in range(3):
        part = vectors[at * 20 : (at + 1) * 20]
        texts = [f"wind {at * 20 + row}" for row in range(20)]
        catalog.add([make_document(f"n{at}", texts, vectors=part)], embedder=EMBEDDER)
        open_index(catalog, tmp_path).refresh("c")
    return tmp_path / "index" / "c"


def open_index(catalog: SqlCatalog, tmp_path: Path) -> EmbeddedIndex:
    return EmbeddedIndex(catalog, tmp_path / "index", dimension=DIMENSION, lock_timeout_s=5)


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:  # in place: an open index has the file mapped
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


FILES = (
    "manifest.json",
    *(f"dense-*/{name}" for name in ("keys.i64", "vectors.f32", "codes-*.faiss")),
    *(f"keyword-*/*.{suffix}" for suffix in ("idx", "pos", "term", "store", "fast", "fieldnorm")),
    "keyword-*/meta.json",
    "keyword-*/.managed.json",
)


def test_a_flipped_bit_in_any_file_of_the_index_is_found_and_repaired(
    catalog: SqlCatalog, folder: Path, tmp_path: Path
) -> None:
    found = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert found == {path for pattern in FILES for path in folder.glob(pattern)}
    for pattern in FILES:
        index = open_index(catalog, tmp_path)
        assert index.find_damage("c") == []
        path = next(folder.glob(pattern))
        flip(path, path.stat().st_size * 4)
        damaged = path.relative_to(folder).as_posix()
        assert index.find_damage("c") == [damaged]
        (said,) = check_index_files(index, ["c"], repair=False)
        assert (said.state, damaged in said.detail) == ("wrong", True)
        (said,) = check_index_files(index, ["c"], repair=True)
        assert said.state == "repaired"
        assert index.find_damage("c") == []
        assert index.counts("c").dense == CHUNKS


@pytest.mark.parametrize("repair", [True, False])
def test_an_index_that_is_being_written_is_not_damaged(
    catalog: SqlCatalog, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repair: bool
) -> None:
    new = make_document("n9", ["rain"], vectors=make_unit_vectors(1, seed=9))
    catalog.add([new], embedder=EMBEDDER)
    is_committed, may_publish = threading.Event(), threading.Event()

    def wait(*given: Any) -> Manifest:
        is_committed.set()
        assert may_publish.wait(LONG_S)
        return add_checksums(*given)

    monkeypatch.setattr("ragstone.index.local.add_checksums", wait)
    writer = threading.Thread(target=open_index(catalog, tmp_path).refresh, args=["c"])
    writer.start()
    assert is_committed.wait(LONG_S)
    index = open_index(catalog, tmp_path)
    assert index.find_damage("c") != []
    hurried = EmbeddedIndex(catalog, tmp_path / "index", dimension=DIMENSION, lock_timeout_s=0)
    (said,) = check_index_files(hurried, ["c"], repair=repair)
    assert said.detail.startswith("being written or damaged: keyword-")
    threading.Timer(0.2, may_publish.set).start()
    generation = next(folder.glob("keyword-*"))
    (said,) = check_index_files(index, ["c"], repair=repair)
    writer.join()
    assert said.state == "ok"
    assert list(folder.glob("keyword-*")) == [generation]


def test_files_that_cannot_be_read_are_an_outage_and_are_not_built_again(
    catalog: SqlCatalog, folder: Path, tmp_path: Path
) -> None:
    before = {path for path in folder.rglob("*") if path.is_file()}
    manifest = folder / "manifest.json"
    manifest.rename(tmp_path / "manifest")
    manifest.mkdir()  # reading it fails, but not because it is missing
    index = open_index(catalog, tmp_path)
    for look in (index.counts, index.inspect, index.refresh):
        with pytest.raises(StoreUnavailableError, match="cannot be used"):
            look("c")
    (said,) = check_index_files(index, ["c"], repair=True)
    assert (said.state, "check the disk" in said.detail) == ("wrong", True)
    manifest.rmdir()
    (tmp_path / "manifest").rename(manifest)
    assert {path for path in folder.rglob("*") if path.is_file()} == before
    assert index.counts("c").dense == CHUNKS


def test_a_file_that_is_gone_is_damage(catalog: SqlCatalog, folder: Path, tmp_path: Path) -> None:
    next(folder.glob("dense-*/keys.i64")).unlink()
    index = open_index(catalog, tmp_path)
    with pytest.raises(StoreError, match="is damaged") as raised:
        index.inspect("c")
    assert not isinstance(raised.value, StoreUnavailableError)
    assert index.counts("c").dense == CHUNKS


@pytest.mark.parametrize("name", ["keys.i64", "codes-*.faiss"])
def test_damage_in_what_is_read_into_memory_is_found_by_opening(
    catalog: SqlCatalog, folder: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = next(folder.glob(f"dense-*/{name}"))
    flip(path, path.stat().st_size * 4)
    index = open_index(catalog, tmp_path)
    (hit,) = index.search_dense("c", make_unit_vectors(CHUNKS, seed=3)[41], limit=1)
    assert hit.key == 42
    assert "does not match its checksum" in caplog.text


def test_codes_that_are_damaged_are_not_written_again_with_a_right_checksum(
    catalog: SqlCatalog, folder: Path, tmp_path: Path
) -> None:
    path = next(folder.glob("dense-*/codes-*.faiss"))
    flip(path, path.stat().st_size * 4)
    texts = [f"wind {row}" for row in range(60, 120)]
    vectors = make_unit_vectors(120, seed=3)
    catalog.add([make_document("n4", texts, vectors=vectors[60:])], embedder=EMBEDDER)
    index = open_index(catalog, tmp_path)
    index.refresh("c")
    assert index.find_damage("c") == []
    assert [hit.key for hit in index.search_dense("c", vectors[41], limit=1)] == [42]


def make_vectors_in_groups(count: int, groups: int, spread: float) -> Vectors:
    """Return unit vectors in groups that are so close that codes cannot tell them apart."""
    chance = np.random.default_rng(5)
    centres = chance.normal(size=(groups, 64))
    vectors = centres[np.arange(count) % groups] + spread * chance.normal(size=(count, 64))
    unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def measure_recall(file: VectorFile, index: DenseIndex) -> float:
    """Compute the share of the exact first ten that a search finds, with questions of its own."""
    hits = 0
    questions = file.vectors[7::400] + 0.001
    for vector in questions / np.linalg.norm(questions, axis=1, keepdims=True):
        wanted = set((np.argsort(-(file.vectors @ vector))[:10] + 1).tolist())
        hits += len(wanted & {hit.key for hit in index.search(vector, limit=10, scope=None)})
    return hits / (10 * len(questions))


def test_the_depth_is_raised_where_codes_rank_badly(tmp_path: Path) -> None:
    rows = 12_000
    vectors = make_vectors_in_groups(rows, 6, 0.02)
    append_vectors(tmp_path, rows=0, keys=range(1, rows + 1), vectors=vectors)
    file = VectorFile.open(tmp_path, dimension=64, rows=rows)
    codes = Codes.train(file)
    depth, recall = measure_depth(file, codes)
    assert depth > MIN_DEPTH
    assert recall >= TARGET_RECALL
    assert measure_recall(file, DenseIndex(file, dead=[], codes=codes)) < 0.95
    assert measure_recall(file, DenseIndex(file, dead=[], codes=codes, depth=depth)) >= 0.98


def test_copies_of_one_text_do_not_raise_the_depth(tmp_path: Path) -> None:
    vectors = make_vectors_in_groups(5_000, 2, 0.0)
    append_vectors(tmp_path, rows=0, keys=range(1, 5_001), vectors=vectors)
    file = VectorFile.open(tmp_path, dimension=64, rows=5_000)
    assert measure_depth(file, Codes.train(file)) == (MIN_DEPTH, 1.0)


def test_the_depth_is_measured_again_when_the_collection_has_doubled(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.index.local.EXACT_ROWS", 20)
    measured: list[int] = []

    def measure(file: VectorFile, codes: Codes) -> tuple[int, float]:
        measured.append(len(file.keys))
        return measure_depth(file, codes)

    monkeypatch.setattr("ragstone.index.manifest.measure_depth", measure)
    index = open_index(catalog, tmp_path)
    assert index.counts("c").recall is None
    for at in range(8):
        texts = [f"chunk {at} {row}" for row in range(30)]
        new = make_document(f"n{at}", texts, vectors=make_unit_vectors(30, seed=at))
        catalog.add([new], embedder=EMBEDDER)
        index.refresh("c")
    # Codes are written again when a quarter of the rows has none.
    assert measured == [30, 60, 150]
    assert index.counts("c").recall == 1.0
    assert index.counts("c").depth == MIN_DEPTH
