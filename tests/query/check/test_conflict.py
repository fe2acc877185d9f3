"""Two sources that disagree on the point asked are both cited; others are left in peace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.engine import Engine
from ragstone.models.embedder import OnnxEmbedder
from ragstone.query.check.conflict import find_conflict
from ragstone.query.ground.cite import CONFLICT_NOTICE, Notation
from ragstone.types import Source

from ...conftest import settings_in
from ..build import sources


def documents(*texts: str) -> Notation:
    """Put each text into a document of its own."""

    def move(source: Source) -> Source:
        chunk = replace(source.hit.chunk, document_id=f"doc{source.number}")
        return replace(source, hit=replace(source.hit, chunk=chunk))

    return Notation(tuple(map(move, sources(*texts))))


@pytest.mark.parametrize(
    ("question", "mine", "theirs"),
    [
        ("When does the café close?", "The café closes at 17:00.", "The café closes at 18:00."),
        (
            "How long is the notice period?",
            "The notice period of the lease is three months.",
            "The notice period of the lease is six months.",
        ),
        ("What is the fee?", "The fee is EUR 40 a year.", "The fee is EUR 45 a year."),
        ("When was the gate painted?", "The gate was painted in 2020.",
         "The gate was painted in 2021."),
    ],
)  # fmt: skip
def test_a_disagreement_on_the_point_asked_is_found(question: str, mine: str, theirs: str) -> None:
    notation = documents(mine, f"Welcome to all. {theirs}")
    conflict = find_conflict(question, f"{mine} [Source 1]", notation)
    assert conflict is not None
    assert (conflict.number, conflict.sentence) == (2, theirs)


@pytest.mark.parametrize(
    ("question", "mine", "theirs"),
    [
        # the same in other words or units
        ("How far is the gate?", "The gate is 1.2 km away.", "The gate is 1,200 m away."),
        ("When does the café close?", "The café closes at 17:00.", "The café closes at 17:00."),
        # about something else
        ("What does an adult pay?", "An adult pays €16.", "A child pays €8."),
        ("When does the café close?", "The café closes at 17:00.", "The shop closes at 18:00."),
        # another year
        ("How many visitors came in 2022?", "In 2022 there were 500 visitors.",
         "In 2023 there were 700 visitors."),
    ],
)  # fmt: skip
def test_what_is_no_disagreement_on_the_point_is_left_alone(
    question: str, mine: str, theirs: str
) -> None:
    notation = documents(mine, theirs)
    assert find_conflict(question, f"{mine} [Source 1]", notation) is None


def test_passages_of_one_document_are_left_alone() -> None:
    texts = ("The fee is EUR 40 a year.", "The fee is EUR 45 a year.")
    answer = f"{texts[0]} [Source 1]"
    assert find_conflict("What is the fee?", answer, Notation(sources(*texts))) is None


def test_an_answer_that_says_both_needs_no_notice() -> None:
    both = ("The café closes at 17:00.", "The café closes at 18:00.")
    answer = f"{both[0]} [Source 1] {both[1]} [Source 2]"
    assert find_conflict("When does the café close?", answer, documents(*both)) is None


async def test_the_answer_says_so_and_cites_both(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    (tmp_path / "old.txt").write_text("The notice period of the lease is three months.")
    (tmp_path / "new.txt").write_text("The notice period of the lease is six months.")
    async with Engine(settings_in(tmp_path / "data"), embedder=embedder) as engine:
        await engine.ingest([tmp_path / "old.txt", tmp_path / "new.txt"])
        answer = await engine.ask("How long is the notice period of the lease?")
        assert "three months" in answer.text
        assert "six months" in answer.text
        assert CONFLICT_NOTICE in answer.text or len(answer.claims) == 2
        assert {c.document_name for c in answer.citations} == {"old.txt", "new.txt"}
        assert answer.is_grounded
        assert all(c.verdict == "supported" for c in answer.citations)
