"""Topics and questions to start with come from headings and titles."""

from __future__ import annotations

from ragstone.reading.starters import list_starters, list_topics


def test_a_heading_that_asks_is_offered_before_the_summaries() -> None:
    paths = [("Help", "1. How do I reset my password?"), ("Help", "Why?"), ("FAQ",)]
    assert list_starters(paths, ["Visitor Guide", "x" * 100, "Visitor Guide"]) == [
        "How do I reset my password?",
        "Summarize Visitor Guide",
    ]


def test_headings_take_half_of_the_places() -> None:
    paths = [(f"What is rule {word}?",) for word in "abcdefgh"]
    found = list_starters(paths, list("ABCDEFGH"))
    assert [text.startswith("Summarize") for text in found] == [False] * 3 + [True] * 3


def test_topics_are_titles_first_and_have_no_numbers() -> None:
    paths = [
        ("Safety Policy", "1. Weather"), ("Safety Policy", "2. Domes"), ("Guide", "Weather"),
        ("a | b",), ("Is it open?",), ("one two three four five six seven",),
    ]  # fmt: skip
    assert list_topics(paths) == ["Safety Policy", "Weather", "Guide", "Domes"]
