"""A sentence with a fact becomes a question that reads well, or none."""

from __future__ import annotations

import pytest

from ragstone.evaluate.wording import word_question
from ragstone.reading.kinds import Kind


def ask(sentence: str, fact: str, kind: Kind) -> str | None:
    start = sentence.index(fact)
    return word_question(sentence, start, start + len(fact), kind)


@pytest.mark.parametrize(
    ("sentence", "fact", "kind", "question"),
    [
        ("The loan ends on 31 March 2028.", "31 March 2028", "when", "When does the loan end?"),
        ("The fort was destroyed in 1560.", "1560", "when", "When was the fort destroyed?"),
        ("Warsaw remained free until 1796.", "1796", "when", "Until when did Warsaw remain free?"),
        (
            "Dr. Inés Halvorsen has been director since 1 August 2017; she follows Walter Nägeli.",
            "1 August 2017",
            "when",
            "Since when has Dr. Inés Halvorsen been director?",
        ),
        ("Invoices are kept for 10 years.", "10 years", "duration", "How long are invoices kept?"),
        (
            "Read-out takes 11 seconds in fast mode and 38 seconds in low-noise mode.",
            "11 seconds",
            "duration",
            "How long does Read-out take in fast mode?",
        ),
        (
            "German requests are answered within 30 days, as a rule.",
            "30 days",
            "duration",
            "Within what time are German requests answered?",
        ),
        (
            "The deposit is EUR 500 per year.",
            "EUR 500",
            "money",
            "How much is the deposit per year?",
        ),
        ("The tenant must pay EUR 20.", "EUR 20", "money", "How much must the tenant pay?"),
        ("The tax is 19 %.", "19 %", "percent", "What percentage is the tax?"),
        ("The dome has 12 panels.", "12", "number", "How many panels does the dome have?"),
        ("The tower is 12 m high.", "12 m", "number", "How high is the tower?"),
        ("Anna Kern signed the lease.", "Anna Kern", "who", "Who signed the lease?"),
        (
            "The dynasty was established by Kublai Khan, in spring.",
            "Kublai Khan",
            "who",
            "By whom was the dynasty established?",
        ),
    ],
)
def test_a_simple_sentence_becomes_a_question(
    sentence: str, fact: str, kind: Kind, question: str
) -> None:
    assert ask(sentence, fact, kind) == question


@pytest.mark.parametrize(
    ("sentence", "fact", "kind"),
    [
        ("The rent is paid in two equal parts on 1 January and 1 July.", "1 January", "when"),
        ("Merlin is a photometer built in the workshop in 1998.", "1998", "when"),
        ("The observatory remained closed and reopened in 1961.", "1961", "when"),
        (
            "Long after the sect was suppressed by Francis Stone, others came.",
            "Francis Stone",
            "who",
        ),
        ("Although the vote was 51.6% in favour, it failed.", "51.6%", "percent"),
        ("This contract ends on 3 May 2030.", "3 May 2030", "when"),
        ("Gegeen was assassinated in a coup involving five princes.", "five", "number"),
        ("The timer starts once the condition changes.", "once", "number"),
        ("CPU limits are enforced by CPU throttling.", "CPU", "who"),
        ("Die Miete wird am 3. Mai 2030 bezahlt.", "3. Mai 2030", "when"),
        ("La reunión terminó el 3 de 2030.", "2030", "when"),
    ],
)
def test_of_any_other_sentence_no_question_is_made(sentence: str, fact: str, kind: Kind) -> None:
    assert ask(sentence, fact, kind) is None
