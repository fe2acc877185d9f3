"""Test the embedded index: damage, interrupted runs, and several processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.catalog.vectors import write_vectors
from ragstone.errors import StoreBusyError, StoreError
from ragstone.files import hold_writer_lock
from ragstone.index.local import EmbeddedIndex
from ragstone.testing.conformance import (
    DIMENSION,
    EMBEDDER,
    get_keys,
    make_document,
    make_unit_vectors,
)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog.in_directory(tmp_path)
    yield catalog
    catalog.close()


def open_index(catalog: SqlCatalog, tmp_path: Path, *, lock_timeout_s: float = 5) -> EmbeddedIndex:
    return EmbeddedIndex(
        catalog, tmp_path / "index", dimension=DIMENSION, lock_timeout_s=lock_timeout_s
    )


def fill(catalog: SqlCatalog, count: int = 4, *, begin: int = 0) -> None:
    for at in range(begin, begin + count):
        catalog.add(
            [make_document(f"n{at}", [f"wind {at}", f"rain {at}"], seed=at)], embedder=EMBEDDER
        )


def wind(index: EmbeddedIndex) -> int:
    return len(index.search_keyword("c", "wind", limit=100, k1=1.2, b=0.75))


def near(index: EmbeddedIndex) -> int:
    return len(index.search_dense("c", make_unit_vectors(1)[0], limit=100))


def test_what_was_stored_but_not_indexed_is_found_at_the_next_start(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    fill(catalog)  # the writer died before it could refresh
    index = open_index(catalog, tmp_path)
    assert (wind(index), near(index)) == (4, 8)


def test_a_reader_that_is_open_finds_it_within_a_second(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    fill(catalog)
    reader = open_index(catalog, tmp_path)
    assert wind(reader) == 4
    fill(catalog, 1, begin=4)  # by a writer that dies before it refreshes
    time.sleep(1.05)
    assert wind(reader) == 5


def test_another_process_sees_a_commit_at_once(catalog: SqlCatalog, tmp_path: Path) -> None:
    fill(catalog)
    reader, writer = open_index(catalog, tmp_path), open_index(catalog, tmp_path)
    assert wind(reader) == 4
    fill(catalog, 1, begin=4)
    writer.refresh("c")
    assert (wind(reader), near(reader)) == (5, 10)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "manifest.json").write_text("{nonsense"),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: shutil.rmtree(next(folder.glob("keyword-*"))),
        lambda folder: shutil.rmtree(next(folder.glob("dense-*"))),
        lambda folder: next(folder.glob("dense-*/vectors.f32")).write_bytes(b"short"),
        lambda folder: next(folder.glob("keyword-*/meta.json")).write_text("garbage"),
        lambda folder: [path.unlink() for path in folder.glob("keyword-*/*.idx")],
        shutil.rmtree,
    ],
    ids=["manifest garbage", "manifest gone", "keyword gone", "dense gone", "vectors cut",
         "tantivy garbage", "postings gone", "all gone"],
)  # fmt: skip
def test_a_damaged_index_is_built_again_by_itself(
    catalog: SqlCatalog, tmp_path: Path, damage: object
) -> None:
    fill(catalog)
    open_index(catalog, tmp_path).refresh("c")
    damage(tmp_path / "index" / "c")  # type: ignore[operator]
    index = open_index(catalog, tmp_path)
    assert (wind(index), near(index)) == (4, 8)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, -40.0])
def test_impossible_scores_make_the_index_be_built_again(
    catalog: SqlCatalog, tmp_path: Path, value: float, caplog: pytest.LogCaptureFixture
) -> None:
    fill(catalog)
    index = open_index(catalog, tmp_path)
    index.refresh("c")
    vector = make_unit_vectors(1)[0]
    before = index.search_dense("c", vector, limit=100)
    file = next((tmp_path / "index" / "c").glob("dense-*/vectors.f32"))
    numbers = np.fromfile(file, "<f4")
    numbers[DIMENSION + 1] = value
    with file.open("r+b") as opened:  # the same file, because it is mapped
        opened.write(numbers.tobytes())
    assert index.search_dense("c", vector, limit=100) == before
    assert "1 of 8 scores are not in [-1, 1]" in caplog.text


def test_vectors_that_are_damaged_in_the_catalog_are_said_and_built_once(
    catalog: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(catalog)
    wrong = np.full((1, DIMENSION), np.nan, np.float32)
    with catalog.write_transaction() as connection:
        write_vectors(connection, [3], wrong)
    index = open_index(catalog, tmp_path)
    for _ in range(3):
        with pytest.raises(StoreError, match="vectors of the collection 'c' are damaged") as raised:
            near(index)
    assert "ragstone doctor --deep" in raised.value.hint
    assert caplog.text.count("is built again") == 1


def test_a_damaged_index_is_built_again_by_a_writer_too(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    fill(catalog)
    open_index(catalog, tmp_path).refresh("c")
    next((tmp_path / "index" / "c").glob("keyword-*/meta.json")).write_text("garbage")
    fill(catalog, 1, begin=4)
    index = open_index(catalog, tmp_path)
    index.refresh("c")
    assert (wind(index), near(index)) == (5, 10)


def test_an_index_that_cannot_be_written_is_said(catalog: SqlCatalog, tmp_path: Path) -> None:
    fill(catalog)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "c").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="Not a directory"):
        open_index(catalog, tmp_path).refresh("c")
    (tmp_path / "index" / "c").unlink()
    assert wind(open_index(catalog, tmp_path)) == 4


def test_an_index_of_another_format_or_dimension_is_built_again(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    fill(catalog)
    open_index(catalog, tmp_path).refresh("c")
    path = tmp_path / "index" / "c" / "manifest.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"format": 1}))
    assert wind(open_index(catalog, tmp_path)) == 4
    path.write_text(json.dumps(fields | {"dimension": 3}))
    assert near(open_index(catalog, tmp_path)) == 8


def test_an_index_of_an_older_word_analysis_is_built_again_and_says_so(
    catalog: SqlCatalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(catalog)
    open_index(catalog, tmp_path).refresh("c")
    path = tmp_path / "index" / "c" / "manifest.json"
    fields = json.loads(path.read_text())
    del fields["checksum"]
    fields["analyzer"] = 1
    path.write_text(json.dumps(fields | {"checksum": zlib.crc32(json.dumps(fields).encode())}))
    caplog.clear()
    assert wind(open_index(catalog, tmp_path)) == 4
    assert json.loads(path.read_text())["analyzer"] > 1
    assert [record.message for record in caplog.records] == [
        "the index of 'c' was built by another version or for another embedder and is built "
        "again from the catalog; no file is read again"
    ]


def test_a_table_is_stemmed_in_the_language_of_its_document(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    new = make_document("n1", ["Kündigungsfristen | Mietwohnungen | Monate"], seed=1)
    document = replace(new.document, metadata={"language": "de"})
    catalog.add([replace(new, document=document)], embedder=EMBEDDER)
    index = open_index(catalog, tmp_path)
    question = "Wie lang ist die Kündigungsfrist?"
    assert index.search_keyword("c", question, limit=5, k1=1.2, b=0.75)


def test_left_overs_are_cleared_away(catalog: SqlCatalog, tmp_path: Path) -> None:
    fill(catalog)
    folder = tmp_path / "index" / "c"
    (folder / "dense-7").mkdir(parents=True)
    index = open_index(catalog, tmp_path)
    index.refresh("c")
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [
        "dense-8",
        "keyword-8",
    ]


def test_a_collection_grows_past_the_exact_size_and_shrinks_again(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.index.local.EXACT_ROWS", 200)
    index = open_index(catalog, tmp_path)
    vectors = make_unit_vectors(600, seed=9)
    for at in range(6):
        part = vectors[at * 100 : (at + 1) * 100]
        texts = [f"chunk {at * 100 + row}" for row in range(100)]
        catalog.add([make_document(f"n{at}", texts, vectors=part)], embedder=EMBEDDER)
        index.refresh("c")
        assert get_keys(index.search_dense("c", part[50], limit=1)) == [at * 100 + 51]
    assert list((tmp_path / "index" / "c").glob("dense-*/codes-*.faiss"))
    for at in range(4):
        catalog.delete(f"c-n{at}-1")
    index.refresh("c")
    assert index.counts("c").dense == 200
    folder = tmp_path / "index" / "c"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["rows"], manifest["dead"]) == (200, [])
    assert get_keys(index.search_dense("c", vectors[450], limit=1)) == [451]
    assert not np.any(index.vectors("c", [1]))


def test_compaction_in_the_middle_of_a_long_refresh_loses_nothing(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.index.local.EXACT_ROWS", 40)
    monkeypatch.setattr("ragstone.index.local._BATCH_CHUNKS", 25)
    index = open_index(catalog, tmp_path)
    vectors = make_unit_vectors(200, seed=4)
    for at in range(10):
        texts = [f"chunk {at * 20 + row}" for row in range(20)]
        part = vectors[at * 20 : (at + 1) * 20]
        catalog.add([make_document(f"n{at}", texts, vectors=part)], embedder=EMBEDDER)
    index.refresh("c")
    for at in range(7):
        catalog.delete(f"c-n{at}-1")
    index.refresh("c")
    counts = index.counts("c")
    assert (counts.dense, counts.keyword) == (60, 60)
    assert get_keys(index.search_dense("c", vectors[170], limit=1)) == [171]


def test_an_index_of_another_catalog_is_built_again(tmp_path: Path) -> None:
    first = SqlCatalog.in_directory(tmp_path)
    fill(first, 5)
    open_index(first, tmp_path).refresh("c")
    first.close()
    for left in tmp_path.glob("catalog.db*"):  # as the hint for a damaged catalog says
        left.unlink()
    second = SqlCatalog.in_directory(tmp_path)
    second.add([make_document("other", ["thunder"])], embedder=EMBEDDER)
    index = open_index(second, tmp_path)
    assert wind(index) == 0
    assert near(index) == 1
    second.close()


def test_a_reader_without_an_index_waits_rather_than_finding_nothing(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    fill(catalog)
    reader = open_index(catalog, tmp_path, lock_timeout_s=0.2)
    with hold_writer_lock(tmp_path / "index", timeout_s=1), pytest.raises(StoreBusyError):
        wind(reader)
    assert wind(reader) == 4


def test_a_second_writer_waits_and_is_told(catalog: SqlCatalog, tmp_path: Path) -> None:
    fill(catalog)
    index = open_index(catalog, tmp_path, lock_timeout_s=0.2)
    with (
        hold_writer_lock(tmp_path / "index", timeout_s=1),
        pytest.raises(StoreBusyError, match="writing"),
    ):
        index.refresh("c")
    index.refresh("c")
    assert wind(index) == 4


def test_readers_go_on_while_another_writes(catalog: SqlCatalog, tmp_path: Path) -> None:
    fill(catalog)
    index = open_index(catalog, tmp_path)
    index.refresh("c")
    fill(catalog, 1, begin=4)
    with hold_writer_lock(tmp_path / "index", timeout_s=1):
        assert wind(open_index(catalog, tmp_path)) == 4


def test_the_writers_place_is_free_after_a_kill(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(f"""
            import time, pathlib
            from ragstone.files import hold_writer_lock
            with hold_writer_lock(pathlib.Path({str(tmp_path)!r}), timeout_s=1):
                print("held", flush=True)
                time.sleep(3600)
        """)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(StoreBusyError), hold_writer_lock(tmp_path, timeout_s=0):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with hold_writer_lock(tmp_path, timeout_s=5):
        pass
