"""Test an index, an embedder or a moderator: subclass a suite, add a fixture, run pytest.

    class TestMyIndex(IndexConformance):
        @pytest.fixture
        def index(self, catalog): return MyIndex(catalog)

The catalog of the index suite is SQLite in a temporary directory; override `catalog` for another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.filters import parse_filter
from ragstone.protocols import (
    Catalog,
    Embedder,
    Index,
    Moderated,
    Moderator,
    NewDocument,
    ScoredKey,
    Vectors,
)
from ragstone.types import Chunk, Document, Query

DIMENSION = 16
EMBEDDER = "conformance"


def make_unit_vectors(count: int, *, seed: int = 0, dimension: int = DIMENSION) -> Vectors:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, dtype=np.float32)


def make_document(
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
    """Make a document with one chunk per text, each on its own page."""
    document_id = f"{collection}-{name}-{version}"
    document = Document(
        id=document_id,
        collection=collection,
        source=name,
        name=name,
        media_type="text/plain",
        sha256=document_id,
        text="\n".join(texts),
        metadata=metadata or {},
        upload_id=upload_id,
        created_at=1_700_000_000.0 + version,
    )
    chunks, start = [], 0
    for number, text in enumerate(texts):
        kind = "table" if text.startswith("|") else "text"
        chunks.append(
            Chunk(
                document_id,
                number,
                text,
                start,
                start + len(text),
                name,
                page=number + 1,
                heading_path=("Part", name),
                content_type=kind,
            )
        )
        start += len(text) + 1
    if vectors is None:
        vectors = make_unit_vectors(len(texts), seed=seed)
    return NewDocument(document, tuple(chunks), vectors)


def get_keys(hits: Sequence[ScoredKey]) -> list[int]:
    return [hit.key for hit in hits]


class IndexConformance:
    """Test any index. Subclasses add an `index` fixture: an empty one over `catalog`."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Iterator[Catalog]:
        catalog = SqlCatalog.in_directory(tmp_path)
        yield catalog
        catalog.close()

    @pytest.fixture
    def index(self, catalog: Catalog, tmp_path: Path) -> Iterator[Index]:
        raise NotImplementedError

    def fill(self, catalog: Catalog, index: Index) -> Vectors:
        """Store three documents; return the vectors in the order of their keys."""
        vectors = make_unit_vectors(6)
        texts = [
            "The notice period is three months.",
            "The rent is due in July.",
            "The dome closes in strong wind.",
            "Wind speeds are measured on the ridge.",
            "Der Mietvertrag endet im Juli.",
            "| wind | 13 m/s |",
        ]
        batch = [
            make_document("a", texts[:2], vectors=vectors[:2], metadata={"year": 2020}),
            make_document("b", texts[2:4], vectors=vectors[2:4], metadata={"year": 2021}),
            make_document("d", texts[4:], vectors=vectors[4:], metadata={"year": 2022}),
        ]
        catalog.add(batch, embedder=EMBEDDER)
        index.refresh("c")
        return vectors

    def resolve_scope(self, catalog: Catalog, written: dict[str, Any]) -> Any:
        return catalog.resolve_scope(Query("q", "q", "c", filter=parse_filter(written)))

    def search(self, index: Index, text: str, **options: Any) -> list[ScoredKey]:
        return index.search_keyword("c", text, **{"limit": 10, "k1": 1.2, "b": 0.75} | options)

    def test_an_empty_collection_has_no_hits(self, index: Index) -> None:
        assert index.search_dense("c", make_unit_vectors(1)[0], limit=5) == []
        assert self.search(index, "wind") == []
        assert not index.vectors("c", [1, 2]).any()

    def test_dense_search_finds_the_nearest_first(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        for at, vector in enumerate(vectors):
            found = index.search_dense("c", vector, limit=6)
            exact = sorted(range(6), key=lambda row: -float(vectors[row] @ vector))
            assert get_keys(found) == [row + 1 for row in exact]
            assert found[0].key == at + 1
            assert found[0].score == pytest.approx(1.0, abs=2e-3)

    def test_keyword_search_finds_terms_and_their_forms(
        self, catalog: Catalog, index: Index
    ) -> None:
        self.fill(catalog, index)
        assert get_keys(self.search(index, "months of notice")) == [1]
        assert set(get_keys(self.search(index, "winds"))) == {3, 4, 6}
        assert self.search(index, "the of and") == []
        assert self.search(index, "zeppelin") == []

    def test_headings_are_searched_too(self, catalog: Catalog, index: Index) -> None:
        catalog.add([make_document("lighthouse", ["It is white."])], embedder=EMBEDDER)
        index.refresh("c")
        assert len(self.search(index, "lighthouse")) == 1

    def test_limits_hold(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        assert len(index.search_dense("c", vectors[0], limit=2)) == 2
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
        scope = self.resolve_scope(catalog, written)
        assert set(get_keys(index.search_dense("c", vectors[0], limit=6, scope=scope))) == allowed
        words = "notice rent wind ridge mietvertrag"
        assert set(get_keys(self.search(index, words, scope=scope))) == allowed

    def test_deleted_chunks_are_not_found(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        catalog.delete("c-b-1")
        index.refresh("c")
        assert set(get_keys(index.search_dense("c", vectors[2], limit=6))) == {1, 2, 5, 6}
        assert get_keys(self.search(index, "wind")) == [6]
        counts = index.counts("c")
        assert (counts.dense, counts.keyword) == (4, 4)

    def test_a_replaced_document_is_found_in_its_new_form(
        self, catalog: Catalog, index: Index
    ) -> None:
        self.fill(catalog, index)
        catalog.add(
            [make_document("a", ["The notice is six weeks."], version=2)], embedder=EMBEDDER
        )
        index.refresh("c")
        (found,) = self.search(index, "notice")
        assert catalog.chunks([found.key])[found.key].text == "The notice is six weeks."

    def test_vectors_come_back_by_key(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        found = index.vectors("c", [3, 999, 1])
        assert np.allclose(found[[0, 2]], vectors[[2, 0]], atol=2e-3)
        assert not found[1].any()

    def test_collections_are_separate(self, catalog: Catalog, index: Index) -> None:
        self.fill(catalog, index)
        catalog.add([make_document("z", ["Wind elsewhere."], collection="e")], embedder=EMBEDDER)
        index.refresh("e")
        assert get_keys(index.search_dense("e", make_unit_vectors(1)[0], limit=10)) == [7]
        assert 7 not in get_keys(self.search(index, "wind elsewhere"))

    def test_a_rebuild_gives_the_same_answers(self, catalog: Catalog, index: Index) -> None:
        vectors = self.fill(catalog, index)
        catalog.delete("c-a-1")
        index.refresh("c")
        before = (index.search_dense("c", vectors[2], limit=6), self.search(index, "wind"))
        index.rebuild("c")
        assert get_keys(index.search_dense("c", vectors[2], limit=6)) == get_keys(before[0])
        assert get_keys(self.search(index, "wind")) == get_keys(before[1])

    def test_its_last_change_is_that_of_the_catalog(self, catalog: Catalog, index: Index) -> None:
        assert index.last_change("c") == catalog.last_change("c") == 0
        self.fill(catalog, index)
        assert index.last_change("c") == catalog.last_change("c") > 0

    def test_refreshing_twice_changes_nothing(self, catalog: Catalog, index: Index) -> None:
        self.fill(catalog, index)
        index.refresh("c")
        assert index.counts("c").dense == 6


TEXTS = ["The gate is green.", "Soup is sold on weekdays.", "天文台 🔭", "a", "word " * 600]


class EmbedderConformance:
    """Test any embedder: unit vectors, the same for the same text, in the order of the texts."""

    def test_every_text_has_a_unit_vector(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)

    def test_a_text_has_the_same_vector_wherever_it_stands(self, embedder: Embedder) -> None:
        together = embedder.embed(TEXTS)
        alone = np.concatenate([embedder.embed([text]) for text in reversed(TEXTS)])[::-1]
        assert float((together * alone).sum(axis=1).min()) > 0.98

    def test_no_text_has_no_vector(self, embedder: Embedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.dimension)

    def test_a_text_without_words_has_a_vector_too(self, embedder: Embedder) -> None:
        assert np.isfinite(embedder.embed(["", "  "])).all()

    def test_tokens_have_places_in_order(self, embedder: Embedder) -> None:
        starts = list(embedder.token_starts("The gate is green."))
        assert starts[0] == 0
        assert starts == sorted(starts)
        assert embedder.max_tokens > 0

    def test_it_has_a_name(self, embedder: Embedder) -> None:
        assert embedder.name.strip() == embedder.name != ""


KINDS: tuple[Moderated, ...] = ("question", "answer")
ODD = ["", " ", "天文台 🔭", "a\x00b", "word " * 20_000]


class ModeratorConformance:
    """Test any moderator: a verdict on every text, and a reason for each refusal."""

    refused: ClassVar[str]
    refused_kind: ClassVar[Moderated] = "question"
    harmless: ClassVar[str] = "How long is the notice period?"

    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_is_harmless_passes(self, moderator: Moderator, kind: Moderated) -> None:
        assert await moderator.objection(kind, self.harmless) is None

    async def test_what_is_refused_has_a_reason(self, moderator: Moderator) -> None:
        reason = await moderator.objection(self.refused_kind, self.refused)
        assert reason
        assert reason.strip() == reason
        assert self.refused not in reason, "a reason is shown, and must not repeat what is refused"

    @pytest.mark.parametrize("kind", KINDS)
    async def test_no_text_is_too_odd_for_it(self, moderator: Moderator, kind: Moderated) -> None:
        for text in ODD:
            objection = await moderator.objection(kind, text)
            assert objection is None or objection.strip()

    async def test_concurrent_calls_get_their_own_verdict(self, moderator: Moderator) -> None:
        texts = [self.harmless, self.refused] * 4
        verdicts = await asyncio.gather(
            *(moderator.objection(self.refused_kind, text) for text in texts)
        )
        assert [verdict is None for verdict in verdicts] == [True, False] * 4

    def test_it_has_a_name(self, moderator: Moderator) -> None:
        assert moderator.name.strip() == moderator.name != ""
