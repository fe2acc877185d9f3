"""Sentences keep the markers that follow them; markers are put right without touching a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.ground.cite import (
    MarkerStream,
    Notation,
    build_citation,
    find_text,
    replace_markers,
    split_statements,
)

from ..build import sources
from .test_cite_stream import ANSWERS, READ

NOTATION = Notation(READ)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It is green [Source 1].", [("It is green.", (1,))]),
        ("It is green. [Source 1] It is old. [Source 2][Source 1]",
         [("It is green.", (1,)), ("It is old.", (2, 1))]),
        ("No marker here.", [("No marker here.", ())]),
        ("Look:\n```\ncode here.\n```\nIt is old [Source 2].",
         [("Look:", ()), ("It is old.", (2,))]),
        ("[Source 1]", []),
        ("", []),
    ],
)  # fmt: skip
def test_a_marker_belongs_to_the_sentence_before_it(
    answer: str, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert [(one.text, one.numbers) for one in split_statements(answer, NOTATION)] == expected


@given(ANSWERS)
def test_statements_stand_in_order_inside_the_answer(answer: str) -> None:
    stream = MarkerStream(NOTATION)
    text = stream.feed(answer) + stream.close()
    position = 0
    for one in split_statements(text, NOTATION):
        assert position <= one.start < one.end <= one.next_start <= len(text)
        position = one.next_start


NUMBERS = st.lists(st.integers(1, 3), max_size=2, unique=True)
SENTENCES = st.sampled_from(["It is green", "It rains 🙂", "Go on"])


@given(
    st.lists(st.tuples(SENTENCES, NUMBERS), max_size=6),
    st.dictionaries(st.integers(0, 5), NUMBERS),
)
def test_other_markers_leave_every_word_as_it_was(
    said: list[tuple[str, list[int]]], wanted: dict[int, list[int]]
) -> None:
    answer = " ".join(
        f"{text}. {NOTATION.format_markers(numbers)}".strip() for text, numbers in said
    )
    before = split_statements(answer, NOTATION)
    changes = {place: numbers for place, numbers in wanted.items() if place < len(before)}
    after = split_statements(replace_markers(answer, before, changes, NOTATION), NOTATION)
    assert [one.text for one in after] == [one.text for one in before]
    for place, one in enumerate(after):
        assert one.numbers == tuple(changes.get(place, before[place].numbers))


def test_a_marker_before_the_full_stop_is_replaced_after_it() -> None:
    answer = "It is green [Source 1]. It rains."
    said = split_statements(answer, NOTATION)
    assert replace_markers(answer, said, {0: (2,), 1: (3,)}, NOTATION) == (
        "It is green. [Source 2] It rains. [Source 3]"
    )


def test_a_citation_is_a_span_of_its_document() -> None:
    source = sources("It rains. The gate is green.", start=100)[0]
    made = build_citation(source, (10, 28), "supported")
    assert (made.start, made.end, made.snippet) == (110, 128, "The gate is green.")


@pytest.mark.parametrize(
    ("wanted", "text", "spans"),
    [
        ("13", "At 130 km it is 13 m/s.", ((16, 18),)),
        ("", "Anything.", ()),
        ("Rollo", "Nobody else.", ()),
    ],
)
def test_a_short_answer_is_found_as_whole_words(
    wanted: str, text: str, spans: tuple[tuple[int, int], ...]
) -> None:
    assert find_text(wanted, text) == spans


def test_talk_around_an_answer_is_no_claim() -> None:
    answer = "Here is what I found: The gate is green. I hope this helps! Is that all?"
    said = {one.text: one.is_claim for one in split_statements(answer, NOTATION)}
    assert [text for text, is_claim in said.items() if is_claim] in (
        ["The gate is green."], ["Here is what I found: The gate is green."],
    )  # fmt: skip
