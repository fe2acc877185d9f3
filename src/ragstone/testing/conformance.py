"""What every catalog and every index must do: subclass, say how to open one, run with pytest.

    class TestMyIndex(IndexConformance):
        @pytest.fixture
        def index(self, catalog): return MyIndex(catalog)

The catalog of an index suite is SQLite in a temporary directory unless the subclass says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragstone.errors import NotFoundError, StoreError
from ragstone.filters import parse_filter
from ragstone.stages import Catalog, Found, Index, NewDocument, Vectors
from ragstone.stores.catalog import SqlCatalog
from ragstone.types import Answer, Chunk, Document, Query

DIMENSION = 16
EMBEDDER = "conformance"


def unit_vectors(count: int, *, seed: int = 0, dimension: int = DIMENSION) -> Vectors:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, dtype=np.float32)


def new_document(
    name: str,
    texts: Sequence[str],
    *,
    collection: str = "c",
    seed: int = 0,
    metadata: dict[str, Any] | None = None,
    version: int = 1,
    upload_id: str | None = None,
    vectors: Vectors | None = None,
) -> NewDocument:
    """A document of one chunk per text, a page each."""
    document_id = f"{collection}-{name}-{version}"
    document = Document(
        id=document_id, collection=collection, source=name, name=name, media_type="text/plain",
        sha256=document_id, text="\n".join(texts), metadata=metadata or {}, upload_id=upload_id,
        created_at=1_700_000_000.0 + version,
    )  # fmt: skip
    chunks, start = [], 0
    for at, text in enumerate(texts):
        kind = "table" if text.startswith("|") else "text"
        chunks.append(
            Chunk(document_id, at, text, start, start + len(text), name, page=at + 1,
                  heading_path=("Part", name), content_type=kind)
        )  # fmt: skip
        start += len(text) + 1
    given = unit_vectors(len(texts), seed=seed) if vectors is None else vectors
    return NewDocument(document, tuple(chunks), given)


def keys_of(found: Sequence[Found]) -> list[int]:
    return [hit.key for hit in found]


class CatalogConformance:
    """Subclasses give a `catalog` fixture: an empty one."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        raise NotImplementedError

    def test_a_document_comes_back_as_it_was_stored(self, catalog: Catalog) -> None:
        new = new_document("a", ["Grüße 👋 from 東京.", "Second."], metadata={"year": 2020})
        catalog.add([new], embedder=EMBEDDER)
        stored = catalog.document(new.document.id)
        assert (stored.text, stored.metadata) == (new.document.text, {"year": 2020})
        assert stored.chunk_count == 2
        assert [document.id for document in catalog.documents("c")] == [new.document.id]

    def test_chunks_come_back_by_key_with_their_offsets(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["One 👋.", "Two."])], embedder=EMBEDDER)
        change = catalog.changes("c", after=0, limit=10)[0]
        text = catalog.document(change.document_id).text
        chunks = catalog.chunks(change.keys)
        assert [chunk.text for chunk in chunks.values()] == ["One 👋.", "Two."]
        for key, chunk in chunks.items():
            assert chunk.key == key
            assert text[chunk.start : chunk.end] == chunk.text
        assert catalog.chunks([10**9]) == {}

    def test_a_passage_is_kept_with_its_chunk_and_read_by_code_points(
        self, catalog: Catalog
    ) -> None:
        new = new_document("a", ["One 👋.", "Two é."])
        wider = tuple(replace(chunk, passage=(2, 10)) for chunk in new.chunks)
        catalog.add([replace(new, chunks=wider)], embedder=EMBEDDER)
        keys = catalog.changes("c", after=0, limit=10)[0].keys
        assert {chunk.passage for chunk in catalog.chunks(keys).values()} == {(2, 10)}
        assert catalog.passage("c-a-1", 2, 10) == new.document.text[2:10]
        assert catalog.passage("nowhere", 0, 5) == ""

    def test_vectors_are_kept_with_the_chunks(self, catalog: Catalog) -> None:
        new = new_document("a", ["One.", "Two."])
        catalog.add([new], embedder=EMBEDDER)
        keys = catalog.changes("c", after=0, limit=10)[0].keys
        chunks, vectors = catalog.indexable([keys], dimension=DIMENSION)
        assert [chunk.key for chunk in chunks] == list(keys)
        assert np.allclose(vectors, new.vectors, atol=1e-3)

    def test_a_newer_version_replaces_the_old_in_one_step(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["Old."])], embedder=EMBEDDER)
        catalog.add([new_document("a", ["New."], version=2)], embedder=EMBEDDER)
        assert [document.id for document in catalog.documents("c")] == ["c-a-2"]
        assert catalog.document("c-a-1").text == "Old."
        kinds = [
            (change.kind, change.document_id) for change in catalog.changes("c", after=0, limit=9)
        ]
        assert kinds == [("add", "c-a-1"), ("remove", "c-a-1"), ("add", "c-a-2")]

    def test_an_earlier_version_can_come_back(self, catalog: Catalog) -> None:
        for version in (1, 2, 1):
            catalog.add([new_document("a", ["Text."], version=version)], embedder=EMBEDDER)
        assert [document.id for document in catalog.documents("c")] == ["c-a-1"]
        assert catalog.counts("c").chunks == 1

    def test_two_sources_may_hold_one_document(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["Same."])], embedder=EMBEDDER)
        catalog.attach("c", "copy of a", "c-a-1")
        catalog.release("c", "a")
        assert catalog.counts("c").documents == 1
        catalog.release("c", "copy of a")
        assert catalog.counts("c").documents == 0

    def test_a_copy_of_what_is_gone_is_not_attached(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["Old."])], embedder=EMBEDDER)
        catalog.add([new_document("a", ["New."], version=2)], embedder=EMBEDDER)
        assert not catalog.attach("c", "moved", "c-a-1")
        assert catalog.current("c", "moved") is None
        assert catalog.attach("c", "moved", "c-a-2")

    def test_a_failed_reading_never_removes_what_was_read_well(self, catalog: Catalog) -> None:
        good = new_document("a", ["Good."])
        catalog.add([good], embedder=EMBEDDER)
        catalog.add_failure(replace(good.document, status="failed", error="Too slow."))
        assert catalog.document("c-a-1").status == "indexed"
        assert catalog.counts("c").chunks == 1

    def test_old_queries_are_forgotten(self, catalog: Catalog) -> None:
        for days, query_id in ((10, "old"), (1, "new")):
            trace = {"started_at": time.time() - 86_400 * days, "spans": []}
            catalog.record(
                Answer(query_id, "Why?", "c", "So.", "answered", trace=trace), query_log="full"
            )
        catalog.forget_queries(older_than_days=0)
        assert len(catalog.queries()) == 2
        catalog.forget_queries(older_than_days=5)
        assert [entry["query_id"] for entry in catalog.queries()] == ["new"]

    def test_every_catalog_has_a_number_of_its_own(self, catalog: Catalog) -> None:
        assert catalog.identity() > 0
        assert catalog.identity() == catalog.identity()

    def test_keys_are_consecutive_and_never_used_twice(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["1", "2"]), new_document("b", ["3"])], embedder=EMBEDDER)
        catalog.delete("c-b-1")
        catalog.add([new_document("d", ["4", "5"])], embedder=EMBEDDER)
        added = [
            change for change in catalog.changes("c", after=0, limit=9) if change.kind == "add"
        ]
        keys = [key for change in added for key in change.keys]
        assert keys == list(range(keys[0], keys[0] + 5))

    def test_deletion_is_complete(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["One."])], embedder=EMBEDDER)
        keys = catalog.changes("c", after=0, limit=1)[0].keys
        catalog.delete("c-a-1")
        assert catalog.chunks(keys) == {}
        with pytest.raises(NotFoundError):
            catalog.document("c-a-1")
        with pytest.raises(NotFoundError):
            catalog.delete("c-a-1")

    def test_a_failure_is_remembered_and_harms_nothing(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["Good."])], embedder=EMBEDDER)
        bad = Document(id="bad", collection="c", source="a", name="a", media_type="text/plain",
                       sha256="x", status="failed", error="It is broken.")  # fmt: skip
        catalog.add_failure(bad)
        held = catalog.current("c", "a")
        assert held is not None
        assert held.id == "c-a-1"
        assert catalog.document("bad").error == "It is broken."

    def test_a_batch_that_fails_leaves_nothing(self, catalog: Catalog) -> None:
        good, bad = new_document("a", ["One."]), new_document("b", ["Two."])
        broken = NewDocument(bad.document, bad.chunks, bad.vectors[:0])
        with pytest.raises(ValueError, match="zip"):
            catalog.add([good, broken], embedder=EMBEDDER)
        assert catalog.documents("c") == []
        assert catalog.changes("c", after=0, limit=9) == []

    def test_a_collection_belongs_to_its_embedder(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["One."])], embedder=EMBEDDER)
        with pytest.raises(StoreError, match="was embedded with"):
            catalog.add([new_document("b", ["Two."])], embedder="another")
        assert catalog.embedder_of("c") == EMBEDDER
        assert catalog.embedder_of("nowhere") is None

    def test_collections_are_apart(self, catalog: Catalog) -> None:
        catalog.add([new_document("a", ["One."])], embedder=EMBEDDER)
        catalog.add([new_document("a", ["Two."], collection="d")], embedder=EMBEDDER)
        assert catalog.collections() == ["c", "d"]
        assert [document.id for document in catalog.documents("d")] == ["d-a-1"]
        assert len(catalog.changes("d", after=0, limit=9)) == 1

    def test_filters_become_keys(self, catalog: Catalog) -> None:
        catalog.add(
            [
                new_document("a", ["1", "| 2 |"], metadata={"year": 2020, "tags": ["x", "y"]}),
                new_document("b", ["3"], metadata={"year": 2021}, upload_id="u"),
            ],
            embedder=EMBEDDER,
        )
        first = catalog.changes("c", after=0, limit=1)[0].first_key

        def allowed(written: dict[str, Any]) -> list[int]:
            within = catalog.keys_within(Query("q", "q", "c", filter=parse_filter(written)))
            assert within is not None
            return [key - first for keys in within.ranges for key in keys]

        assert allowed({"year": {"gte": 2020}}) == [0, 1, 2]
        assert allowed({"tags": "y"}) == [0, 1]
        assert allowed({"page": 2}) == [1]
        assert allowed({"content_type": "table", "year": 2020}) == [1]
        assert allowed({"or": [{"page": 2}, {"year": 2021}]}) == [1, 2]
        assert allowed({"not": {"tags": {"exists": True}}}) == [2]
        assert allowed({"upload_id": "u"}) == [2]
        assert allowed({"document_name": ["a", "z"]}) == [0, 1]
        assert allowed({"created_at": {"gt": "2023-01-01"}}) == [0, 1, 2]
        assert allowed({"nothing": 1}) == []
        assert catalog.keys_within(Query("q", "q", "c")) is None

    def test_the_journal_keeps_as_much_as_it_may(self, catalog: Catalog) -> None:
        for query_id, query_log in (("1", "off"), ("2", "metadata"), ("3", "full")):
            span = {"stage": "s", "duration_ms": 1.0, "counts": {}, "error": "OSError: Why?"}
            trace = {"started_at": time.time() + int(query_id), "spans": [span]}
            answer = Answer(query_id, "Why?", "c", "Because.", "answered", trace=trace)
            catalog.record(answer, query_log=query_log)
        entries = catalog.queries(limit=10)
        assert [entry["query_id"] for entry in entries] == ["3", "2"]
        assert [entry["query"] for entry in entries] == ["Why?", None]
        assert "Why?" not in str(catalog.query("2"))
        with pytest.raises(NotFoundError):
            catalog.query("1")


class IndexConformance:
    """Subclasses give an `index` fixture, an empty one over `catalog`."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        catalog = SqlCatalog.in_directory(tmp_path)
        yield catalog
        catalog.close()

    @pytest.fixture
    def index(self, catalog: Catalog, tmp_path: Path) -> Iterator[Index]:
        raise NotImplementedError

    def fill(self, catalog: Catalog, index: Index) -> Vectors:
        """Three documents; returns the vectors in the order of their keys."""
        vectors = unit_vectors(6)
        texts = [
            "The notice period is three months.", "The rent is due in July.",
            "The dome closes in strong wind.", "Wind speeds are measured on the ridge.",
            "Der Mietvertrag endet im Juli.", "| wind | 13 m/s |",
        ]  # fmt: skip
        batch = [
            new_document("a", texts[:2], vectors=vectors[:2], metadata={"year": 2020}),
            new_document("b", texts[2:4], vectors=vectors[2:4], metadata={"year": 2021}),
            new_document("d", texts[4:], vectors=vectors[4:], metadata={"year": 2022}),
        ]
        catalog.add(batch, embedder=EMBEDDER)
        index.refresh("c")
        return vectors

    def within(self, catalog: Catalog, written: dict[str, Any]) -> Any:
        return catalog.keys_within(Query("q", "q", "c", filter=parse_filter(written)))

    def search(self, index: Index, text: str, **options: Any) -> list[Found]:
        return index.keyword("c", text, **{"limit": 10, "k1": 1.2, "b": 0.75} | options)

    def test_an_empty_collection_has_no_hits(self, index: Index) -> None:
        assert index.dense("c", unit_vectors(1)[0], limit=5) == []
        assert self.search(index, "wind") == []
        assert not index.vectors("c", [1, 2]).any()

    def test_dense_search_finds_the_nearest_first(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        for at, vector in enumerate(vectors):
            found = index.dense("c", vector, limit=6)
            exact = sorted(range(6), key=lambda one: -float(vectors[one] @ vector))
            assert keys_of(found) == [one + 1 for one in exact]
            assert found[0].key == at + 1
            assert found[0].score == pytest.approx(1.0, abs=2e-3)

    def test_keyword_search_finds_terms_and_their_forms(
        self, catalog: Catalog, index: Index
    ) -> None:
        self.fill(catalog, index)
        assert keys_of(self.search(index, "months of notice")) == [1]
        assert set(keys_of(self.search(index, "winds"))) == {3, 4, 6}
        assert self.search(index, "the of and") == []
        assert self.search(index, "zeppelin") == []

    def test_headings_are_searched_too(self, catalog: Catalog, index: Index) -> None:
        catalog.add([new_document("lighthouse", ["It is white."])], embedder=EMBEDDER)
        index.refresh("c")
        assert len(self.search(index, "lighthouse")) == 1

    def test_limits_hold(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        assert len(index.dense("c", vectors[0], limit=2)) == 2
        assert len(self.search(index, "wind", limit=2)) == 2

    @pytest.mark.parametrize(
        ("written", "allowed"),
        [
            ({"year": {"gte": 2021}}, {3, 4, 5, 6}),
            ({"page": 2}, {2, 4, 6}),
            ({"not": {"content_type": "table"}}, {1, 2, 3, 4, 5}),
            ({"or": [{"document_id": "c-a-1"}, {"content_type": "table"}]}, {1, 2, 6}),
            ({"document_name": {"gt": "a"}}, {3, 4, 5, 6}),
            ({"created_at": {"gte": "2020-01-01"}}, {1, 2, 3, 4, 5, 6}),
            ({"year": 1999}, set()),
        ],
    )
    def test_filters_are_pushed_down(
        self, catalog: Catalog, index: Index, written: dict[str, Any], allowed: set[int]
    ) -> None:
        vectors = self.fill(catalog, index)
        within = self.within(catalog, written)
        assert set(keys_of(index.dense("c", vectors[0], limit=6, within=within))) == allowed
        words = "notice rent wind ridge mietvertrag"
        assert set(keys_of(self.search(index, words, within=within))) == allowed

    def test_deleted_chunks_are_found_no_more(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        catalog.delete("c-b-1")
        index.refresh("c")
        assert set(keys_of(index.dense("c", vectors[2], limit=6))) == {1, 2, 5, 6}
        assert keys_of(self.search(index, "wind")) == [6]
        counts = index.counts("c")
        assert (counts.dense, counts.keyword) == (4, 4)

    def test_a_replaced_document_is_found_in_its_new_form(
        self, catalog: Catalog, index: Index
    ) -> None:
        self.fill(catalog, index)
        catalog.add([new_document("a", ["The notice is six weeks."], version=2)], embedder=EMBEDDER)
        index.refresh("c")
        (found,) = self.search(index, "notice")
        assert catalog.chunks([found.key])[found.key].text == "The notice is six weeks."

    def test_vectors_come_back_by_key(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        found = index.vectors("c", [3, 999, 1])
        assert np.allclose(found[[0, 2]], vectors[[2, 0]], atol=2e-3)
        assert not found[1].any()

    def test_collections_never_meet(self, catalog: Catalog, index: Index) -> None:
        self.fill(catalog, index)
        catalog.add([new_document("z", ["Wind elsewhere."], collection="e")], embedder=EMBEDDER)
        index.refresh("e")
        assert keys_of(index.dense("e", unit_vectors(1)[0], limit=10)) == [7]
        assert 7 not in keys_of(self.search(index, "wind elsewhere"))

    def test_a_rebuild_gives_the_same_answers(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        catalog.delete("c-a-1")
        index.refresh("c")
        before = (index.dense("c", vectors[2], limit=6), self.search(index, "wind"))
        index.rebuild("c")
        assert keys_of(index.dense("c", vectors[2], limit=6)) == keys_of(before[0])
        assert keys_of(self.search(index, "wind")) == keys_of(before[1])

    def test_it_says_how_far_it_has_followed(self, catalog: Catalog, index: Index) -> None:
        assert index.last_change("c") == catalog.last_change("c") == 0
        self.fill(catalog, index)
        assert index.last_change("c") == catalog.last_change("c") > 0

    def test_refreshing_twice_changes_nothing(self, catalog: Catalog, index: Index) -> None:
        self.fill(catalog, index)
        index.refresh("c")
        assert index.counts("c").dense == 6
