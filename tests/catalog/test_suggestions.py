"""Suggestions: what begins with the prefix first, then what has it inside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.catalog.history import rank_suggestions

pairs = st.lists(st.tuples(st.text("abc ?", max_size=8), st.sampled_from(["x", "y"])), max_size=20)


@given(st.text("abc ", max_size=4), pairs, pairs, st.integers(1, 10))
def test_every_suggestion_holds_the_prefix_and_none_comes_twice(
    prefix: str, asked: list[tuple[str, str]], headings: list[tuple[str, str]], limit: int
) -> None:
    found = rank_suggestions(prefix, asked, headings, limit=limit)
    assert len(found) <= limit
    wanted = " ".join(prefix.split())
    assert all(wanted in " ".join(one.text.split()) for one in found)
    texts = [" ".join(one.text.split()).rstrip("?!. ") for one in found]
    assert len(set(texts)) == len(texts)


def test_what_is_asked_more_often_comes_first() -> None:
    asked = [("Why A?", "c"), ("Why B?", "c"), ("why b", "c")]
    assert [one.text for one in rank_suggestions("why", asked, [], limit=5)] == ["Why B?", "Why A?"]


def test_a_beginning_beats_an_inside_and_a_question_beats_a_heading() -> None:
    found = rank_suggestions("no", [("Any notice?", "c"), ("No?", "c")], [("Notice", "c")], limit=5)
    assert [one.text for one in found] == ["No?", "Notice", "Any notice?"]
