"""Markers are whole or not at all, whatever the pieces, and every citation resolves to its text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.ground.cite import MARKER, MarkerStream, resolve, statements

from ..build import sources

PIECES = st.sampled_from(
    ["The dome opens. ", "[Source 1]", "[source 2]", "[Source 9]", "[Sources 1, 2]", "[", "]",
     "[Source ", "[1]", "[Source 1 and 3]", " ", "🙂", "天文台。", "[link](x)", "[Source 1", "0]"]
)  # fmt: skip
ANSWERS = st.lists(PIECES, max_size=20).map("".join)


def streamed(answer: str, cuts: list[int], source_count: int = 3) -> tuple[str, list[str]]:
    stream = MarkerStream(source_count)
    edges = [0, *sorted(min(cut, len(answer)) for cut in cuts), len(answer)]
    out = "".join(stream.feed(answer[a:b]) for a, b in pairwise(edges))
    return out + stream.close(), sorted(stream.dangling)


@given(ANSWERS, st.lists(st.integers(0, 300), max_size=30))
def test_the_text_is_the_same_however_it_is_cut(answer: str, cuts: list[int]) -> None:
    assert streamed(answer, cuts) == streamed(answer, [])


@given(ANSWERS)
def test_letter_by_letter_no_marker_is_ever_shown_half(answer: str) -> None:
    final, _ = streamed(answer, [])
    markers = [match.span() for match in MARKER.finditer(final)]
    stream = MarkerStream(3)
    shown = ""
    for letter in answer:
        shown += stream.feed(letter)
        assert final.startswith(shown)
        assert not any(start < len(shown) < end for start, end in markers)


@given(ANSWERS)
def test_every_marker_that_is_left_points_to_a_source(answer: str) -> None:
    text, _ = streamed(answer, [])
    for match in MARKER.finditer(text):
        assert match[0] in ("[Source 1]", "[Source 2]", "[Source 3]")


def test_a_marker_that_points_nowhere_is_removed_and_reported() -> None:
    assert streamed("Yes [Source 9].", [6]) == ("Yes .", ["[Source 9]"])
    assert streamed("Yes [Source [Source 9]0].", [8, 12])[0] == "Yes ."
    assert streamed("Yes [Sources 1, 9].", []) == ("Yes [Source 1].", ["[Sources 1, 9]"])


@given(ANSWERS)
def test_statements_point_into_the_answer_and_every_citation_resolves(answer: str) -> None:
    text, _ = streamed(answer, [])
    read = sources("The dome opens at nine. The gate is green.", "It rains.", "天文台。🙂", start=7)
    position = 0
    for statement in statements(text):
        assert position <= statement.start < statement.end <= len(text)
        position = statement.end
        for citation in resolve(statement, read):
            source = read[citation.number - 1]
            begin = citation.start - source.start
            assert source.text[begin : begin + len(citation.snippet)] == citation.snippet
            assert citation.end - citation.start == len(citation.snippet) > 0
            assert citation.chunk_id == source.hit.chunk.id


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It is green [Source 1].", [("It is green.", (1,))]),
        ("It is green. [Source 1] It is old. [Source 2][Source 1]",
         [("It is green.", (1,)), ("It is old.", (2, 1))]),
        ("No marker here.", [("No marker here.", ())]),
        ("[Source 1]", []),
        ("", []),
    ],
)  # fmt: skip
def test_a_marker_belongs_to_the_sentence_before_it(
    answer: str, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert [(one.text, one.numbers) for one in statements(answer)] == expected


def test_the_snippet_is_the_sentence_that_says_it() -> None:
    read = sources("The dome is white. The gate is green. It rains.")
    statement = next(iter(statements("The gate is green [Source 1].")))
    assert [one.snippet for one in resolve(statement, read)] == ["The gate is green."]
