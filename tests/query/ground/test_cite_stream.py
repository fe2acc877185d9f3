"""Markers are whole or not at all, whatever the pieces, in both styles, and never inside code."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.query.ground.cite import MarkerStream, Notation, find_code_spans
from ragstone.reading.markers import escape_markers
from ragstone.types import CitationStyle

from ..build import sources

READ = sources("The dome opens at nine.", "It rains.", "天文台。🙂")
PIECES = st.sampled_from(
    ["The dome opens. ", "[Source 1]", "[source 2]", "[Source 9]", "[Sources 1, 2]", "[", "]",
     "[Source ", "[1]", "[Source 1 and 3]", " ", "🙂", "天文台。", "[link](x)", "[Source 1", "0]",
     "[doc:1]", "[doc:77]", "[other:3]", "[doc:", "`", "```", "\n", "``", "[Source 2, page 4]"]
)  # fmt: skip
ANSWERS = st.lists(PIECES, max_size=20).map("".join)
STYLES = st.sampled_from(["source", "chunk"])


def streamed(
    answer: str, cuts: list[int], style: CitationStyle = "source"
) -> tuple[str, list[str]]:
    stream = MarkerStream(Notation(READ, style))
    edges = [0, *sorted(min(cut, len(answer)) for cut in cuts), len(answer)]
    out = "".join(stream.feed(answer[a:b]) for a, b in pairwise(edges))
    return out + stream.close(), stream.dangling


@settings(max_examples=100)
@given(ANSWERS, st.lists(st.integers(0, 300), max_size=30), STYLES)
def test_the_text_is_the_same_however_it_is_cut(
    answer: str, cuts: list[int], style: CitationStyle
) -> None:
    assert streamed(answer, cuts, style) == streamed(answer, [], style)


@settings(max_examples=100)
@given(ANSWERS, STYLES)
def test_letter_by_letter_no_marker_is_ever_shown_half(answer: str, style: CitationStyle) -> None:
    final, _ = streamed(answer, [], style)
    markers = list(Notation(READ, style).find_markers(final))
    stream = MarkerStream(Notation(READ, style))
    shown = ""
    for letter in answer:
        shown += stream.feed(letter)
        assert final.startswith(shown)
        written = [m for m in markers if m.start < len(shown)]
        # Markers side by side leave together, so a cut may only fall between two of them.
        assert not any(m.start < len(shown) < m.end for m in written)


@settings(max_examples=100)
@given(ANSWERS, STYLES)
def test_what_is_left_is_in_one_form_and_points_to_a_source(
    answer: str, style: CitationStyle
) -> None:
    notation = Notation(READ, style)
    text, _ = streamed(answer, [], style)
    good = {notation.format_markers([number]) for number in (1, 2, 3)}
    assert {text[m.start : m.end] for m in notation.find_markers(text)} <= good
    again, dangling = streamed(text, [], style)
    assert (again, dangling) == (text, [])


@pytest.mark.parametrize(
    ("answer", "shown", "dangling"),
    [
        ("Yes [Source 9].", "Yes.", ["[Source 9]"]),
        ("Yes [Sources 1, 9].", "Yes [Source 1].", ["[Sources 1, 9]"]),
        ("Yes [Source [Source 9]1].", "Yes {Source1].", ["[Source 9]"]),
        ("Yes [Source 2: handbook.md].", "Yes [Source 2].", []),
        ("Yes [doc:3].", "Yes [Source 3].", []),
        ("Yes [doc:9].", "Yes.", ["[doc:9]"]),
        ("Read [John:3].", "Read [John:3].", []),
        ("Write `x[Source 9]` so.", "Write `x[Source 9]` so.", []),
        ("```\na[Source 9]\n```\nYes [Source 9]", "```\na[Source 9]\n```\nYes", ["[Source 9]"]),
        ("A lone ` then\n[Source 1]", "A lone ` then\n[Source 1]", []),
    ],
)
def test_what_becomes_of_a_marker(answer: str, shown: str, dangling: list[str]) -> None:
    assert streamed(answer, [5, 9, 14]) == (shown, dangling)


def test_the_chat_style_names_document_and_chunk() -> None:
    assert streamed("Yes [Source 2][doc:8].", [], "chunk") == ("Yes [doc:2].", ["[doc:8]"])


@given(ANSWERS, STYLES)
def test_a_document_cannot_write_a_marker(text: str, style: CitationStyle) -> None:
    assert not list(Notation(READ, style).find_markers(escape_markers(text)))


def test_code_ends_with_its_run_of_backticks_or_its_line() -> None:
    text = "a `b` c ``d`e`` f `g\nh ```i\n`j`\n```"
    assert [text[start:end] for start, end in find_code_spans(text)] == [
        "`b`", "``d`e``", "`g\n", "```i\n`j`\n```",
    ]  # fmt: skip
