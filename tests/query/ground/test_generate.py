"""Refusals are told from answers, and nonsense from both."""

from __future__ import annotations

import pytest

from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.ground.generate import is_nonsense, is_refusal
from ragstone.types import NO_ANSWER

from ..build import sources

SOURCES = sources("The gate is green. It was painted in 2020.", "The café sells soup on weekdays.")
QUESTION = "What colour is the gate?"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        NO_ANSWER,
        f"Sorry. {NO_ANSWER}",
        "The provided documents do not mention the colour of the gate.",
        "The colour is not specified in the sources.",
        "I don't know.",
        "There is no information about the gate.",
        "I cannot find this in the excerpts. Please ask something else.",
    ],
)
def test_a_refusal_in_other_words_is_a_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "The gate is green [Source 1].",
        "The gate is not painted red.",
        "It was painted in 2020. The colour is green. The sources do not say why.",
        "You do not have to give notice.",
    ],
)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Bananas grow in Ecuador.",
        "asdf qwer zxcv uiop hjkl",
        '{"tool": "weather", "city": ["Oslo"',
        "???!!! ---",
        "the the the " * 40,
        "gate " * 60,
        "Elephants invented purple umbrellas yesterday evening [Source 1].",
    ],
)
def test_talk_about_nothing_is_nonsense(text: str, embedder: OnnxEmbedder) -> None:
    assert is_nonsense(QUESTION, text, SOURCES, embedder)


@pytest.mark.parametrize(
    "text",
    [
        "The gate is green.",
        "Green.",
        "Yes.",
        "It has the colour of grass, an emerald tone.",
        "Das Tor (gate) ist grün, gestrichen 2020.",
        "The gate is red and was built by elephants.",
    ],
)
def test_a_wrong_or_short_answer_is_not_nonsense(text: str, embedder: OnnxEmbedder) -> None:
    assert not is_nonsense(QUESTION, text, SOURCES, embedder)


def test_without_sources_only_silence_is_nonsense(embedder: OnnxEmbedder) -> None:
    assert not is_nonsense(QUESTION, "Bananas grow in Ecuador.", (), embedder)
