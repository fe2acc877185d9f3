"""The measures: of rankings as trec_eval computes them, of answers as SQuAD does."""

from __future__ import annotations

import math
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import SettingsError
from ragstone.evaluate.datasets import Question, Target
from ragstone.evaluate.metrics import (
    RANKING_MEASURES,
    containment,
    exact_match,
    label_chunks,
    measure_rankings,
    token_f1,
)
from ragstone.types import Chunk


def test_the_measures_of_a_ranking_are_those_of_their_formulas() -> None:
    found = measure_rankings({"q": {"a": 2, "b": 1}}, {"q": ["x", "a", "y", "b"]})
    gain = 2 / math.log2(3) + 1 / math.log2(5)
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    assert found["ndcg@10"]["q"] == pytest.approx(gain / ideal)
    assert found["recall@10"]["q"] == 1.0
    assert found["precision@5"]["q"] == pytest.approx(2 / 5)
    assert found["mrr@10"]["q"] == 0.5
    assert (found["hit@1"]["q"], found["hit@10"]["q"]) == (0.0, 1.0)


def test_a_question_without_hits_counts_as_nothing_and_one_without_grades_not_at_all() -> None:
    found = measure_rankings({"q": {"a": 1}, "unjudged": {}}, {"unjudged": ["a"]})
    assert found == {name: {"q": 0.0} for name in RANKING_MEASURES}


def test_a_missing_extra_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(SettingsError, match=re.escape("pip install 'ragstone[eval]'")):
        measure_rankings({"q": {"a": 1}}, {"q": ["a"]})


def chunk(document: str, text: str = "text", index: int = 0) -> Chunk:
    return Chunk(f"id-{document}", index, text, 0, len(text), document_name=document)


def test_a_document_counts_once_at_its_best_chunk() -> None:
    question = Question("q", "?", (Target("a", document="a"),))
    hits = [chunk("b"), chunk("b", index=1), chunk("a"), chunk("a", index=1)]
    assert label_chunks(question, hits) == ["b", "a"]


def test_a_document_may_be_named_by_a_path_or_by_its_id() -> None:
    for name in ("folder/a.txt", "a.txt", "id-a.txt", "id-a.txt:0"):
        question = Question("q", "?", (Target("wanted", document=name),))
        assert label_chunks(question, [chunk("a.txt")]) == ["wanted"]


def test_evidence_counts_chunk_by_chunk() -> None:
    evidence = "The lease ends on the last day of June 2039."
    question = Question("q", "?", (Target("wanted", document="a", text=evidence),))
    other = "The rent is due on the first working day of every month."
    hits = [chunk("a", other), chunk("a", f"Some words before. {evidence}", 1)]
    assert label_chunks(question, hits) == ["id-a:0", "wanted"]


def test_a_chunk_that_holds_two_pieces_of_evidence_counts_for_both() -> None:
    first = "The lease ends on the last day of June 2039."
    second = "The rent is due on the first working day of every month."
    question = Question("q", "?", (Target("one", text=first), Target("two", text=second)))
    assert label_chunks(question, [chunk("a", f"{first} {second}")]) == ["one", "two"]
    assert label_chunks(question, [chunk("a", first), chunk("a", f"{first} {second}", 1)]) == [
        "one",
        "two",
    ]


def test_answers_are_compared_without_articles_punctuation_and_markers() -> None:
    assert exact_match("The Green Gate. [Source 1]", ["green gate"]) == 1.0
    assert containment("It is a green gate [Source 2].", ["the green gate"]) == 1.0
    assert containment("evergreen gate", ["green gate"]) == 0.0
    assert token_f1("green gate", ["green door"]) == pytest.approx(0.5)
    assert token_f1("", ["green"]) == 0.0


@settings(deadline=None)
@given(st.text(max_size=40), st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_a_match_is_also_a_full_f1(answer: str, references: list[str]) -> None:
    value = token_f1(answer, references)
    assert 0.0 <= value <= 1.0
    if exact_match(answer, references):
        assert value == 1.0
