"""Questions in another language than the documents."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import MULTILINGUAL
from ragstone.query.retrieve.languages import explain_other_language, find_other_language

from ...conftest import settings_in

LEASE = "The notice period of the lease is three months, and it must be given in writing."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Wie lang ist die Kündigungsfrist?", ("german", "english")),
        ("租约的通知期是多长时间？", ("chinese", "english")),
        ("How long is the notice period?", None),
        ("Kündigungsfrist", None),  # one word tells no language
    ],
)
def test_the_languages_are_compared_where_both_are_sure(
    question: str, expected: tuple[str, str] | None
) -> None:
    assert find_other_language(question, [LEASE, "| 3 | 4 |"]) == expected


def test_passages_in_several_languages_say_nothing() -> None:
    german = "Die Kündigungsfrist beträgt drei Monate und ist in dem Vertrag genannt."
    assert find_other_language("Wie lang ist die Frist?", [LEASE, german]) is None


def make_embedder(languages: frozenset[str] | None) -> Any:
    return SimpleNamespace(name="model-1", languages=languages)


def test_what_would_help_depends_on_what_the_embedder_reads() -> None:
    english = explain_other_language(make_embedder(frozenset({"english"})), "german", "english")
    assert english is not None
    assert "ragstone models pull multilingual" in english
    several = make_embedder(MULTILINGUAL)
    assert explain_other_language(several, "german", "english") is None
    assert "does not read both" in str(explain_other_language(several, "hindi", "english"))
    assert explain_other_language(make_embedder(None), "hindi", "english") is None


async def test_an_answer_says_what_would_help_a_question_in_another_language(
    tmp_path: Path,
) -> None:
    document = tmp_path / "lease.txt"
    document.write_text(f"Lease of the observatory\n\n{LEASE}\n", "utf-8")
    async with Engine(settings_in(tmp_path / "data")) as engine:
        await engine.ingest([document])
        german = await engine.ask("Wie lang ist die Kündigungsfrist in dem Vertrag?")
        assert any("multilingual" in note for note in german.notes)
        english = await engine.ask("How long is the notice period of the lease?")
        assert not any("multilingual" in note for note in english.notes)
