"""A chosen sentence is written with what it cannot be read without."""

from __future__ import annotations

import pytest

from ragstone.models.embedder import OnnxEmbedder
from ragstone.reading.features import list_candidates
from ragstone.reading.question import parse_question
from ragstone.reading.write import build_unit

from .test_choose import said, source

RULE = "Books that are returned late cost 20 cents a day."
CASE = "If a book is more than 60 days late, the library may charge its price."


def write(question: str, text: str, chosen: str) -> str:
    (one,) = [one for one in list_candidates(question, [source(text)]) if one.text == chosen]
    return build_unit(parse_question(question), one).text


def test_a_special_case_brings_the_rule_before_it() -> None:
    text = f"The library is free. {RULE} {CASE}"
    assert write("What happens if books are returned late?", text, CASE) == f"{RULE} {CASE}"


@pytest.mark.parametrize(
    ("question", "text", "chosen"),
    [
        # the case names as much of the question as the rule
        ("When may the library charge the price of a book?", f"{RULE} {CASE}", CASE),
        # another paragraph
        ("What happens if books are returned late?", f"{RULE}\n\n{CASE}", CASE),
        # what follows is no case of it
        (
            "What happens if books are returned late?",
            f"{RULE} Ask at the desk.",
            "Ask at the desk.",
        ),
        # the sentence before is a case of its own
        (
            "What happens if books are returned late?",
            "If books are returned late, we write. If one is lost, it is paid for.",
            "If one is lost, it is paid for.",
        ),
    ],
)
def test_other_sentences_stand_alone(question: str, text: str, chosen: str) -> None:
    assert write(question, text, chosen) == chosen


CONTRACT = """1. Subject
1.1 The Contractor cleans the offices on every working day.
1.2 The Contractor brings its own machines.
2. Price
2.1 The monthly price is EUR 2,340, payable by the tenth of the following
    month.
2.2 For late payment the Client owes interest of 7 per cent a year.
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "What is the monthly price?",
            "2.1 The monthly price is EUR 2,340, payable by the tenth of the following month.",
        ),
        (
            "What interest is owed for late payment?",
            "2.2 For late payment the Client owes interest of 7 per cent a year.",
        ),
    ],
)
async def test_one_clause_of_a_contract_is_quoted(
    question: str, answer: str, embedder: OnnxEmbedder
) -> None:
    assert await said(question, [source(CONTRACT)], embedder) == f"{answer} [Source 1]"
