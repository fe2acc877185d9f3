"""Run the conformance suite of indexes, and compare the embedded index with Qdrant."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragstone.catalog.documents import SqlCatalog
from ragstone.index.local import EmbeddedIndex
from ragstone.index.qdrant import QdrantIndex
from ragstone.protocols import Catalog, Index
from ragstone.settings import IndexSettings
from ragstone.testing.conformance import (
    DIMENSION,
    EMBEDDER,
    IndexConformance,
    get_keys,
    make_document,
    make_unit_vectors,
)


def embedded(catalog: Catalog, tmp_path: Path, dimension: int = DIMENSION) -> EmbeddedIndex:
    return EmbeddedIndex(catalog, tmp_path / "index", dimension=dimension, lock_timeout_s=5)


def qdrant(catalog: Catalog, url: str, *, shards: int = 1, dimension: int = DIMENSION) -> Index:
    settings = IndexSettings(
        qdrant_url=url,
        qdrant_prefix=f"t{uuid.uuid4().hex[:8]}_",
        qdrant_shards=shards,
        qdrant_timeout_s=30,
    )
    return QdrantIndex(catalog, settings, dimension=dimension)


class TestEmbedded(IndexConformance):
    @pytest.fixture
    def index(self, catalog: Catalog, tmp_path: Path) -> Iterator[Index]:
        index = embedded(catalog, tmp_path)
        yield index
        index.close()


class TestQdrant(IndexConformance):
    @pytest.fixture
    def index(self, catalog: Catalog, qdrant_url: str) -> Iterator[Index]:
        index = qdrant(catalog, qdrant_url)
        yield index
        index.close()


# As in real text, the n-th word is n times rarer than the first.
WORDS = [f"word{at}" for at in range(400)]


def fill(catalog: Catalog, documents: int = 60, chunks: int = 10) -> np.ndarray:
    random = np.random.default_rng(3)
    vectors = make_unit_vectors(documents * chunks, seed=5)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    for at in range(documents):
        texts = [
            " ".join(random.choice(WORDS, size=random.integers(20, 60), p=weights / weights.sum()))
            for _ in range(chunks)
        ]
        part = slice(at * chunks, (at + 1) * chunks)
        catalog.add([make_document(f"n{at}", texts, vectors=vectors[part])], embedder=EMBEDDER)
    return vectors


def overlap(left: list[int], right: list[int], depth: int) -> float:
    return len(set(left[:depth]) & set(right[:depth])) / depth


@pytest.mark.parametrize(("shards", "least"), [(1, 0.95), (3, 0.95)])
def test_embedded_and_qdrant_agree(
    tmp_path: Path, qdrant_url: str, shards: int, least: float
) -> None:
    """Dense results are the same. Keyword results differ by tantivy's rounded lengths alone, on
    however many shards."""
    catalog = SqlCatalog.in_directory(tmp_path)
    here, there = embedded(catalog, tmp_path), qdrant(catalog, qdrant_url, shards=shards)
    vectors = fill(catalog)
    for index in (here, there):
        index.refresh("c")
    dense_shares, keyword_shares = [], []
    for at in range(40):
        near = [get_keys(index.search_dense("c", vectors[at], limit=10)) for index in (here, there)]
        dense_shares.append(overlap(near[0], near[1], 10))
        text = " ".join(WORDS[at + 3 :: 90])
        found = [
            get_keys(index.search_keyword("c", text, limit=10, k1=1.2, b=0.75))
            for index in (here, there)
        ]
        keyword_shares.append(overlap(found[0], found[1], 10))
    shares = f"dense {np.mean(dense_shares):.3f}, keyword {np.mean(keyword_shares):.3f}"
    print(f"the same first ten on {shards} shards: {shares}")
    assert np.mean(dense_shares) >= 0.99
    assert np.mean(keyword_shares) >= least
    for index in (here, there):
        index.close()
    catalog.close()
