"""Yes and no are said only from a sentence about the thing and the time that is asked about."""

from __future__ import annotations

import pytest

from ragstone.reading.yes_no import is_about

POOL = "The pool is closed from October to April."


@pytest.mark.parametrize(
    ("question", "evidence", "expected"),
    [
        ("May cats enter the kitchen?", "Dogs are allowed in the garden.", False),
        ("Is the pool closed in November?", POOL, False),
        ("Is the pool closed in April?", POOL, True),
        ("Is smoking allowed?", "Smoking is not permitted anywhere in the building.", True),
    ],
)
def test_evidence_about_something_else_decides_nothing(
    question: str, evidence: str, expected: bool
) -> None:
    assert is_about(question, evidence) is expected
