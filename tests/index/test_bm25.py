"""Test BM25 against values computed by hand, and its properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.index.keyword import idf, score_documents

WORDS = st.sampled_from(["cat", "sat", "mat", "ran"])
DOCUMENTS = st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=6)


def ranked(documents: list[list[str]], *, k1: float = 1.2, b: float = 0.75) -> list[float]:
    wanted = ["cat", "sat"]
    frequencies = [sum(term in document for document in documents) for term in wanted]
    return score_documents(
        wanted, idf(frequencies, len(documents)), documents,
        average_length=sum(map(len, documents)) / len(documents), k1=k1, b=b,
    )  # fmt: skip


def test_a_rare_term_weighs_more_by_hand() -> None:
    # ln(1 + 0.5/2.5) = ln 1.2 and ln(1 + 1.5/1.5) = ln 2
    assert idf([2, 1], 2) == pytest.approx([0.182322, 0.693147], abs=1e-6)


def test_bm25_by_hand() -> None:
    found = ranked([["cat", "sat"], ["cat", "cat", "ran", "far"]])
    # Lengths 2 and 4, average 3: norms 1.2·(0.25 + 0.75·2/3) = 0.9 and 1.2·(0.25 + 0.75·4/3) = 1.5
    # 0.182322·2.2/1.9 + 0.693147·2.2/1.9, and 0.182322·2·2.2/(2 + 1.5)
    assert found == pytest.approx([1.013701, 0.229204], abs=1e-6)


def test_without_k1_only_presence_counts_and_without_b_no_length() -> None:
    twice = [["cat", "cat", "cat", "ran"], ["cat"]]
    assert ranked(twice, k1=0)[0] == pytest.approx(ranked(twice, k1=0)[1])
    assert ranked(twice, b=0)[0] > ranked(twice, b=0)[1]


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_a_documents_score_does_not_depend_on_the_order_of_all(documents, shuffler) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(documents)))
    shuffler.shuffle(order)
    first, second = ranked(documents), ranked([documents[at] for at in order])
    assert [first[at] for at in order] == pytest.approx(second)


@given(DOCUMENTS, st.floats(0, 3), st.floats(0, 1))
def test_one_more_of_a_wanted_word_in_place_of_another_never_lowers_a_score(
    documents: list[list[str]], k1: float, b: float
) -> None:
    documents = [["cat", "mat"], *documents]
    better = [["cat", "cat"], *documents[1:]]
    assert ranked(better, k1=k1, b=b)[0] >= ranked(documents, k1=k1, b=b)[0] - 1e-12
