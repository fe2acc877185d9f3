"""What an ingest says when the embedder does not read the documents."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragstone.ingest.embed import explain_unread_languages
from ragstone.models.embedder import MULTILINGUAL


def embedder(languages: frozenset[str] | None) -> Any:
    return SimpleNamespace(name="model-1", languages=languages)


ENGLISH = embedder(frozenset({"english"}))


@pytest.mark.parametrize("codes", [{}, {"en": 3}, {"en": 2, "de": 2}])
def test_nothing_is_said_when_half_of_the_documents_are_read(codes: dict[str, int]) -> None:
    assert explain_unread_languages(codes, ENGLISH) == ""


def test_the_multilingual_model_is_offered_for_a_language_that_it_reads() -> None:
    hint = explain_unread_languages({"de": 3, "en": 1, "zh": 1}, ENGLISH)
    assert "model-1 does not read (German, Chinese)" in hint
    assert "ragstone models pull multilingual" in hint


def test_it_is_not_offered_for_one_that_it_does_not_read() -> None:
    hint = explain_unread_languages({"hi": 3}, ENGLISH)
    assert "Hindi" in hint
    assert "pull" not in hint
    assert "pull" not in explain_unread_languages({"hi": 3}, embedder(MULTILINGUAL))


def test_an_embedder_that_says_nothing_is_taken_to_read_everything() -> None:
    assert explain_unread_languages({"hi": 3}, embedder(None)) == ""
