"""Yes and no are said only from a sentence about the thing and the time that is asked about."""

from __future__ import annotations

import pytest

from ragstone.models.embedder import OnnxEmbedder
from ragstone.reading.choose import AnswerChooser
from ragstone.reading.extractive import ExtractiveProvider
from ragstone.reading.model import load_reading_model
from ragstone.reading.yes_no import YesNoJudgement, is_about, judge_yes_no
from ragstone.types import Chunk, Hit, Prompt, Scores, Source

POOL = "The pool is closed from October to April."


@pytest.mark.parametrize(
    ("question", "evidence", "expected"),
    [
        ("May cats enter the kitchen?", "Dogs are allowed in the garden.", False),
        ("Is the pool closed in November?", POOL, False),
        ("Is the pool closed in April?", POOL, True),
        ("Is smoking allowed?", "Smoking is not permitted anywhere in the building.", True),
        ("Does the sourdough contain egg?", "The brioche contains butter and egg.", False),
        ("Does the brioche contain milk?", "The brioche contains butter and egg.", False),
        ("Does the green room have a piano?", "The red room has a piano.", False),
        ("Are dogs allowed in the blue room?", "Dogs are allowed in the garden.", False),
        ("Is the first mirror bigger than the second?", "First mirror 1,200, second 380.", False),
        ("Are secrets encrypted?", "Secrets are stored unencrypted.", True),
        ("Is there a discount for students?", "Students count as adults at the till.", False),
    ],
)
def test_evidence_about_something_else_decides_nothing(
    question: str, evidence: str, expected: bool
) -> None:
    assert is_about(question, evidence) is expected


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Is the gate green?", "Yes"),
        ("Is the gate open at night?", "No"),
        ("Is the gate red?", ""),
        ("Is the gate locked?", ""),
    ],
)
def test_one_sentence_decides(question: str, said: str) -> None:
    evidence = "The gate is green. The gate is not open at night."
    judgement = judge_yes_no(question, evidence, load_reading_model())
    assert judgement is not None
    assert judgement.said == said


def test_a_passage_that_decides_nothing_lowers_the_probability() -> None:
    assert YesNoJudgement("", 0.1).adjust(0.5) < 0.35
    assert YesNoJudgement("No", 0.95).adjust(0.3) > 0.35
    # The verifier alone does not make an answer of a passage on another subject.
    assert YesNoJudgement("", 0.95).adjust(0.02) == 0.02


async def test_a_sentence_that_only_repeats_the_question_answers_yes_or_no(
    embedder: OnnxEmbedder,
) -> None:
    text = "The gate is green."
    hit = Hit(Chunk("doc1", 0, text, 0, len(text), "1.md"), 1.0, "hybrid", Scores(similarity=0.9))
    provider = ExtractiveProvider(AnswerChooser(embedder))
    prompt = Prompt("Is the gate green?", (Source(1, hit, text),), ())
    assert "".join([p async for p in provider.stream(prompt)]) == (
        "Yes.\n\nThe gate is green. [Source 1]"
    )
