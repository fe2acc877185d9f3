"""Test the check of a data directory: it finds errors and repairs only the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragstone.catalog.backup import check_data
from ragstone.catalog.documents import SqlCatalog
from ragstone.index.keyword import KeywordIndex
from ragstone.index.local import EmbeddedIndex
from ragstone.testing import HashEmbedder
from ragstone.testing.conformance import make_document
from ragstone.types import Chunk

EMBEDDER = HashEmbedder(16)


def states(catalog: SqlCatalog, index: EmbeddedIndex, *, repair: bool) -> dict[str, str]:
    found = check_data(catalog, catalog.database, {"c": index}, EMBEDDER, repair=repair)
    return {finding.subject: finding.state for finding in found}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog.in_directory(tmp_path)
    catalog.add([make_document("a", ["wind", "rain"])], embedder=EMBEDDER.name)
    yield catalog
    catalog.close()


@pytest.fixture
def index(catalog: SqlCatalog, tmp_path: Path) -> EmbeddedIndex:
    return EmbeddedIndex(catalog, tmp_path / "index", dimension=16, lock_timeout_s=5)


def test_a_sound_directory_is_ok(catalog: SqlCatalog, index: EmbeddedIndex) -> None:
    assert set(states(catalog, index, repair=False).values()) == {"ok"}


def test_an_index_that_disagrees_is_seen_and_built_again(
    catalog: SqlCatalog, index: EmbeddedIndex, tmp_path: Path
) -> None:
    index.refresh("c")
    folder = next((tmp_path / "index" / "c").glob("keyword-*"))
    KeywordIndex.create(folder).apply([], [Chunk("x", 0, "stray", 0, 5, key=99)])
    assert states(catalog, index, repair=False)["collection c"] == "wrong"
    assert states(catalog, index, repair=True)["collection c"] == "repaired"
    assert states(catalog, index, repair=False)["collection c"] == "ok"


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "manifest.json").write_text("{nonsense"),
        lambda folder: next(folder.glob("dense-*/vectors.f32")).write_bytes(b"short"),
        lambda folder: next(folder.glob("dense-*/keys.i64")).write_bytes(bytes(16)),
        lambda folder: next(folder.glob("keyword-*/meta.json")).write_text("garbage"),
    ],
    ids=["manifest garbage", "vectors cut", "keys garbage", "tantivy garbage"],
)
def test_a_damaged_index_is_reported_and_not_written_until_it_is_repaired(
    catalog: SqlCatalog, index: EmbeddedIndex, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    index.refresh("c")
    damage(tmp_path / "index" / "c")
    before = read_files(tmp_path / "index")
    index = EmbeddedIndex(catalog, tmp_path / "index", dimension=16, lock_timeout_s=5)
    assert states(catalog, index, repair=False)["collection c"] == "wrong"
    assert read_files(tmp_path / "index") == before
    assert states(catalog, index, repair=True)["collection c"] == "repaired"
    assert states(catalog, index, repair=False)["collection c"] == "ok"


def test_a_check_writes_no_index_that_is_behind(
    catalog: SqlCatalog, index: EmbeddedIndex, tmp_path: Path
) -> None:
    assert states(catalog, index, repair=False)["collection c"] == "ok"
    assert not (tmp_path / "index" / "c").exists()
    index.refresh("c")
    catalog.add([make_document("b", ["snow"])], embedder=EMBEDDER.name)
    before = read_files(tmp_path / "index")
    found = list(check_data(catalog, catalog.database, {"c": index}, EMBEDDER, repair=False))
    assert found[-1].detail == "2 documents, 3 chunks; the next search updates the index"
    assert read_files(tmp_path / "index") == before


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_collection_of_another_embedder_is_only_reported(
    catalog: SqlCatalog, index: EmbeddedIndex
) -> None:
    catalog.add([make_document("b", ["x"], collection="other")], embedder="elsewhere")
    assert states(catalog, index, repair=True)["collection other"] == "wrong"
