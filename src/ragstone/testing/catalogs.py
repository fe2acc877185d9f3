"""Test a catalog: subclass the suite, add a `catalog` fixture, run pytest.

class TestMine(CatalogConformance):
    @pytest.fixture
    def catalog(self): return MyCatalog()
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragstone.errors import NotFoundError, StoreError
from ragstone.filters import parse_filter
from ragstone.protocols import Catalog, NewDocument
from ragstone.testing.conformance import DIMENSION, EMBEDDER, make_document
from ragstone.types import Answer, Document, Query


class CatalogConformance:
    """Test any catalog. Subclasses add a `catalog` fixture: an empty one."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        raise NotImplementedError

    def test_a_document_comes_back_as_it_was_stored(self, catalog: Catalog) -> None:
        new = make_document("a", ["Grüße 👋 from 東京.", "Second."], metadata={"year": 2020})
        catalog.add([new], embedder=EMBEDDER)
        stored = catalog.document(new.document.id)
        assert (stored.text, stored.metadata) == (new.document.text, {"year": 2020})
        assert stored.chunk_count == 2
        assert [document.id for document in catalog.documents("c")] == [new.document.id]

    def test_chunks_come_back_by_key_with_their_offsets(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["One 👋.", "Two."])], embedder=EMBEDDER)
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
        new = make_document("a", ["One 👋.", "Two é."])
        wider = tuple(replace(chunk, passage=(2, 10)) for chunk in new.chunks)
        catalog.add([replace(new, chunks=wider)], embedder=EMBEDDER)
        keys = catalog.changes("c", after=0, limit=10)[0].keys
        assert {chunk.passage for chunk in catalog.chunks(keys).values()} == {(2, 10)}
        assert catalog.read_passage("c-a-1", 2, 10) == new.document.text[2:10]
        assert catalog.read_passage("nowhere", 0, 5) == ""

    def test_vectors_are_kept_with_the_chunks(self, catalog: Catalog) -> None:
        new = make_document("a", ["One.", "Two."])
        catalog.add([new], embedder=EMBEDDER)
        keys = catalog.changes("c", after=0, limit=10)[0].keys
        chunks, vectors = catalog.chunks_with_vectors([keys], dimension=DIMENSION)
        assert [chunk.key for chunk in chunks] == list(keys)
        assert np.allclose(vectors, new.vectors, atol=1e-3)

    def test_a_newer_version_replaces_the_old_in_one_step(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["Old."])], embedder=EMBEDDER)
        catalog.add([make_document("a", ["New."], version=2)], embedder=EMBEDDER)
        assert [document.id for document in catalog.documents("c")] == ["c-a-2"]
        assert catalog.document("c-a-1").text == "Old."
        kinds = [
            (change.kind, change.document_id) for change in catalog.changes("c", after=0, limit=9)
        ]
        assert kinds == [("add", "c-a-1"), ("remove", "c-a-1"), ("add", "c-a-2")]

    def test_an_earlier_version_can_come_back(self, catalog: Catalog) -> None:
        for version in (1, 2, 1):
            catalog.add([make_document("a", ["Text."], version=version)], embedder=EMBEDDER)
        assert [document.id for document in catalog.documents("c")] == ["c-a-1"]
        assert catalog.counts("c").chunks == 1

    def test_two_sources_may_hold_one_document(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["Same."])], embedder=EMBEDDER)
        catalog.add_source("c", "copy of a", "c-a-1")
        catalog.remove_source("c", "a")
        assert catalog.counts("c").documents == 1
        catalog.remove_source("c", "copy of a")
        assert catalog.counts("c").documents == 0

    def test_a_copy_of_what_is_gone_is_not_attached(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["Old."])], embedder=EMBEDDER)
        catalog.add([make_document("a", ["New."], version=2)], embedder=EMBEDDER)
        assert not catalog.add_source("c", "moved", "c-a-1")
        assert catalog.find_by_source("c", "moved") is None
        assert catalog.add_source("c", "moved", "c-a-2")

    def test_a_failed_reading_never_removes_what_was_read_well(self, catalog: Catalog) -> None:
        good = make_document("a", ["Good."])
        catalog.add([good], embedder=EMBEDDER)
        catalog.add_failure(replace(good.document, status="failed", error="Too slow."))
        assert catalog.document("c-a-1").status == "indexed"
        assert catalog.counts("c").chunks == 1

    def test_old_queries_are_deleted(self, catalog: Catalog) -> None:
        for days, query_id in ((10, "old"), (1, "new")):
            begun = time.time() - 86_400 * days
            answer = Answer(query_id, "Why?", "c", "So.", "answered", started_at=begun)
            catalog.record(answer, query_log="full")
        catalog.delete_queries(older_than_days=0)
        assert len(catalog.queries()) == 2
        catalog.delete_queries(older_than_days=5)
        assert [entry["query_id"] for entry in catalog.queries()] == ["new"]

    def test_every_catalog_has_a_number_of_its_own(self, catalog: Catalog) -> None:
        assert catalog.identity() > 0
        assert catalog.identity() == catalog.identity()

    def test_keys_are_consecutive_and_never_used_twice(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["1", "2"]), make_document("b", ["3"])], embedder=EMBEDDER)
        catalog.delete("c-b-1")
        catalog.add([make_document("d", ["4", "5"])], embedder=EMBEDDER)
        added = [
            change for change in catalog.changes("c", after=0, limit=9) if change.kind == "add"
        ]
        keys = [key for change in added for key in change.keys]
        assert keys == list(range(keys[0], keys[0] + 5))

    def test_deletion_is_complete(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["One."])], embedder=EMBEDDER)
        keys = catalog.changes("c", after=0, limit=1)[0].keys
        catalog.delete("c-a-1")
        assert catalog.chunks(keys) == {}
        with pytest.raises(NotFoundError):
            catalog.document("c-a-1")
        with pytest.raises(NotFoundError):
            catalog.delete("c-a-1")

    def test_a_failure_is_stored_and_changes_nothing_else(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["Good."])], embedder=EMBEDDER)
        bad = Document(
            id="bad",
            collection="c",
            source="a",
            name="a",
            media_type="text/plain",
            sha256="x",
            status="failed",
            error="It is broken.",
        )
        catalog.add_failure(bad)
        held = catalog.find_by_source("c", "a")
        assert held is not None
        assert held.id == "c-a-1"
        assert catalog.document("bad").error == "It is broken."

    def test_a_batch_that_fails_leaves_nothing(self, catalog: Catalog) -> None:
        good, bad = make_document("a", ["One."]), make_document("b", ["Two."])
        broken = NewDocument(bad.document, bad.chunks, bad.vectors[:0])
        with pytest.raises(ValueError, match="zip"):
            catalog.add([good, broken], embedder=EMBEDDER)
        assert catalog.documents("c") == []
        assert catalog.changes("c", after=0, limit=9) == []

    def test_a_collection_belongs_to_its_embedder(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["One."])], embedder=EMBEDDER)
        with pytest.raises(StoreError, match="was embedded with"):
            catalog.add([make_document("b", ["Two."])], embedder="another")
        assert catalog.embedder_of("c") == EMBEDDER
        assert catalog.embedder_of("nowhere") is None

    def test_collections_are_separate(self, catalog: Catalog) -> None:
        catalog.add([make_document("a", ["One."])], embedder=EMBEDDER)
        catalog.add([make_document("a", ["Two."], collection="d")], embedder=EMBEDDER)
        assert catalog.collections() == ["c", "d"]
        assert [document.id for document in catalog.documents("d")] == ["d-a-1"]
        assert len(catalog.changes("d", after=0, limit=9)) == 1

    def test_filters_become_keys(self, catalog: Catalog) -> None:
        catalog.add(
            [
                make_document("a", ["1", "| 2 |"], metadata={"year": 2020, "tags": ["x", "y"]}),
                make_document("b", ["3"], metadata={"year": 2021}, upload_id="u"),
            ],
            embedder=EMBEDDER,
        )
        first = catalog.changes("c", after=0, limit=1)[0].first_key

        def list_allowed(written: dict[str, Any]) -> list[int]:
            within = catalog.resolve_scope(Query("q", "q", "c", filter=parse_filter(written)))
            assert within is not None
            return [key - first for keys in within.ranges for key in keys]

        assert list_allowed({"year": {"gte": 2020}}) == [0, 1, 2]
        assert list_allowed({"tags": "y"}) == [0, 1]
        assert list_allowed({"page": 2}) == [1]
        assert list_allowed({"content_type": "table", "year": 2020}) == [1]
        assert list_allowed({"or": [{"page": 2}, {"year": 2021}]}) == [1, 2]
        assert list_allowed({"not": {"tags": {"exists": True}}}) == [2]
        assert list_allowed({"upload_id": "u"}) == [2]
        assert list_allowed({"document_name": ["a", "z"]}) == [0, 1]
        assert list_allowed({"created_at": {"gt": "2023-01-01"}}) == [0, 1, 2]
        assert list_allowed({"nothing": 1}) == []
        assert catalog.resolve_scope(Query("q", "q", "c")) is None

    def test_the_journal_keeps_as_much_as_it_may(self, catalog: Catalog) -> None:
        for query_id, query_log in (("1", "off"), ("2", "metadata"), ("3", "full")):
            span = {"stage": "s", "duration_ms": 1.0, "counts": {}, "error": "OSError: Why?"}
            asked = query_id, "Why?", "c", "Because."
            trace = {"spans": [span]}
            at = time.time() + int(query_id)
            answer = Answer(*asked, "answered", started_at=at, trace=trace)
            catalog.record(answer, query_log=query_log)
        entries = catalog.queries(limit=10)
        assert [entry["query_id"] for entry in entries] == ["3", "2"]
        assert [entry["query"] for entry in entries] == ["Why?", None]
        assert "Why?" not in str(catalog.query("2"))
        with pytest.raises(NotFoundError):
            catalog.query("1")

    def test_documents_come_page_by_page_and_are_counted(self, catalog: Catalog) -> None:
        batch = [make_document(name, [name]) for name in ("d", "b", "a", "e", "c")]
        catalog.add(batch, embedder=EMBEDDER)
        catalog.add([make_document("a", ["a"], collection="other")], embedder=EMBEDDER)
        bad = replace(batch[0].document, id="bad", source="f", name="f", status="failed")
        catalog.add_failure(bad)
        pages = [catalog.documents("c", skip=skip, limit=2) for skip in (0, 2, 4, 6)]
        names = [[document.name for document in page] for page in pages]
        assert names == [["a", "b"], ["c", "d"], ["e", "f"], []]
        assert catalog.document_count("c") == 6
        assert catalog.document_count("nowhere") == 0
