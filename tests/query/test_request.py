"""A question is trimmed and cleaned, or refused with the numbers that decide."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import InputError
from ragstone.query.request import clean_question


def clean(text: str) -> str:
    return clean_question(text, min_chars=3, max_chars=1000)


@pytest.mark.parametrize(
    "text", ["", "   ", "ab", " ab ", "\x00\x07\x1b", "a\x00b", "\ud800\ud801ab"]
)
def test_too_short_a_question_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="at least 3 are needed"):
        clean(text)


def test_the_limits_themselves_are_allowed() -> None:
    assert clean("abc") == "abc"
    assert clean("x" * 1000) == "x" * 1000
    with pytest.raises(InputError, match="1,001 characters; at most 1,000") as refused:
        clean("x" * 1001)
    assert "RAGSTONE_UNDERSTAND_MAX_CHARS" in refused.value.hint


def test_trimming_comes_before_counting() -> None:
    assert clean(" " * 600 + "why so" + " " * 600) == "why so"


def test_control_characters_go_and_line_breaks_become_spaces() -> None:
    assert clean("When\r\n does\tit\x00 open\x1b[31m?") == "When does it open[31m?"


def test_joined_emoji_and_cjk_stay_as_they_are() -> None:
    assert clean("👩‍🔬 天文台は?") == "👩‍🔬 天文台は?"


@given(st.text())
def test_what_passes_is_clean_and_passes_again(text: str) -> None:
    try:
        question = clean(text)
    except InputError:
        return
    assert 3 <= len(question) <= 1000
    assert question == question.strip()
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Co") for char in question)
    assert clean(question) == question
