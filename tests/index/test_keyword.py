"""Test keyword search: k1 and b, scopes, and ties."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ragstone.filters import Condition, SearchScope
from ragstone.index.analyze import extract_query_terms, extract_terms
from ragstone.index.keyword import KeywordIndex
from ragstone.types import Chunk

WORDS = [f"word{at}" for at in range(60)]


def chunks(count: int) -> list[Chunk]:
    random = np.random.default_rng(1)
    weights = 1 / np.arange(1, len(WORDS) + 1)
    weights /= weights.sum()
    texts = [
        " ".join(random.choice(WORDS, size=random.integers(3, 60), p=weights)) for _ in range(count)
    ]
    return [Chunk("d", at, text, 0, len(text), key=at + 1) for at, text in enumerate(texts)]


def exact_bm25(texts: list[str], asked: str, k1: float, b: float) -> list[float]:
    """Compute the formula: ln(1 + (N-df+½)/(df+½)) · tf(k1+1)/(tf + k1(1-b+b·dl/avgdl))."""
    documents = [Counter(extract_terms(text)) for text in texts]
    lengths = [sum(counts.values()) for counts in documents]
    average = sum(lengths) / len(lengths)
    scores = [0.0] * len(texts)
    for term in extract_query_terms(asked):
        df = sum(term in counts for counts in documents)
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for at, counts in enumerate(documents):
            tf = counts[term]
            norm = k1 * (1 - b + b * lengths[at] / average)
            scores[at] += idf * tf * (k1 + 1) / (tf + norm) if tf else 0.0
    return scores


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> KeywordIndex:
    folder = tmp_path_factory.mktemp("keyword")
    KeywordIndex.create(folder).apply([], chunks(90))
    return KeywordIndex(folder)


@pytest.mark.parametrize(
    ("k1", "b"), [(0.5, 0.75), (1.2, 0.0), (2.0, 1.0), (0.0, 0.3), (1.5, 0.75)]
)
def test_k1_and_b_are_honoured_exactly(index: KeywordIndex, k1: float, b: float) -> None:
    texts = [chunk.text for chunk in chunks(90)]
    for asked in ("word3 word17", "word0 word1 word40", "word58"):
        scores = exact_bm25(texts, asked, k1, b)
        wanted = [
            (at + 1, score)
            for at, score in sorted(enumerate(scores), key=lambda pair: (-pair[1], pair[0]))
            if score > 0
        ]
        found = index.search(asked, limit=90, k1=k1, b=b, scope=None)
        assert [hit.score for hit in found] == pytest.approx([score for _, score in wanted])
        assert {hit.key for hit in found} == {key for key, _ in wanted}


def test_the_built_in_values_follow_the_formula_up_to_rounded_lengths(index: KeywordIndex) -> None:
    texts = [chunk.text for chunk in chunks(90)]
    scores = exact_bm25(texts, "word3 word17", 1.2, 0.75)
    found = index.search("word3 word17", limit=90, k1=1.2, b=0.75, scope=None)
    for hit in found:
        # tantivy keeps the length of a text in one byte.
        assert hit.score == pytest.approx(scores[hit.key - 1], rel=0.06)


@pytest.mark.parametrize(
    "ranges",
    [
        (range(10, 20),),
        tuple(range(at, at + 1) for at in range(2, 60, 2)),
        (),
    ],
    ids=["one span", "many spans", "nothing"],
)
def test_a_limit_is_kept(index: KeywordIndex, ranges: tuple[range, ...]) -> None:
    scope = SearchScope(Condition("unused", "eq", 1), ranges)
    found = index.search("word0 word1 word2", limit=90, k1=1.2, b=0.75, scope=scope)
    free = index.search("word0 word1 word2", limit=90, k1=1.2, b=0.75, scope=None)
    inside = [hit for hit in free if any(hit.key in keys for keys in ranges)]
    assert [hit.key for hit in found] == [hit.key for hit in inside]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in inside])


def test_a_broad_limit_digs_until_it_has_enough(
    index: KeywordIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragstone.index.keyword._MAX_RANGES", 0)
    monkeypatch.setattr("ragstone.index.keyword._MAX_KEYS", 0)
    scope = SearchScope(Condition("unused", "eq", 1), (range(50, 91),))
    found = index.search("word0", limit=20, k1=1.2, b=0.75, scope=scope)
    assert len(found) == 20
    assert all(hit.key >= 50 for hit in found)


def test_equal_scores_come_in_the_order_of_their_keys(tmp_path: Path) -> None:
    same = [Chunk("d", at, "wind on the ridge", 0, 17, key=9 - at) for at in range(5)]
    KeywordIndex.create(tmp_path).apply([], same)
    found = KeywordIndex(tmp_path).search("wind", limit=5, k1=1.2, b=0.75, scope=None)
    assert [hit.key for hit in found] == [5, 6, 7, 8, 9]


def test_removed_chunks_are_gone_after_the_commit(tmp_path: Path) -> None:
    KeywordIndex.create(tmp_path).apply([], chunks(10))
    KeywordIndex.create(tmp_path).apply([range(3, 8)], [])
    assert len(KeywordIndex(tmp_path)) == 5
