"""Choosing the sentences that answer."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.choose import SENTENCES_EMBEDDED, AnswerChooser, select_front
from ragstone.testing import HashEmbedder

from ..query.build import sources


@given(st.integers(1, 2000), st.floats(-5, 5))
def test_among_any_number_of_equal_sentences_some_are_looked_at(count: int, score: float) -> None:
    front = select_front(np.full(count, score))
    assert 1 <= len(front) <= SENTENCES_EMBEDDED
    assert front[0] == 0


def test_of_a_long_list_of_like_lines_one_is_chosen() -> None:
    listing = "\n".join(f"The gate of house {number} is green." for number in range(100))
    chooser = AnswerChooser(HashEmbedder())
    found = chooser.choose("What colour is the gate?", sources(*[listing] * 6))
    assert found.parts[0].sentences
