"""A statement is preferred that is valid at the time that a question asks about."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragstone.models.embedder import OnnxEmbedder
from ragstone.reading.choose import AnswerChooser
from ragstone.reading.extractive import ExtractiveProvider
from ragstone.reading.times import is_withdrawn, list_covered_years, remove_year
from ragstone.reading.units import split_units
from ragstone.types import NO_ANSWER, Chunk, Hit, Prompt, Scores, Source

SCHEDULE = """The fee for a mooring is EUR 310 a year.

| Valid from | Yearly fee |
|---|---|
| 1 May 2011 | EUR 310 |
| 1 May 2016 | EUR 345 |
| 1 May 2021 | EUR 390 |
| 1 May 2199 | EUR 900 |
"""
CONTRACT = "4.2 The supplier keeps log files for 14 days. 4.3 Log files are encrypted."
AMENDMENT = "Effective 1 May 2024. In clause 4.2 log files are kept for 90 days instead of 14."


def source(text: str, number: int = 1, name: str = "mooring") -> Source:
    chunk = Chunk(f"doc{number}", 0, text, 0, len(text), f"{name}-{number}.md")
    return Source(number, Hit(chunk, 1.0 / number, "hybrid", Scores(similarity=0.6)), text)


async def answer(question: str, sources: Sequence[Source], embedder: OnnxEmbedder) -> str:
    provider = ExtractiveProvider(AnswerChooser(embedder))
    return "".join([p async for p in provider.stream(Prompt(question, tuple(sources), ()))])


def test_a_row_is_valid_until_the_next_one_begins() -> None:
    covered = list_covered_years(split_units(SCHEDULE))
    years = list(covered.values())
    assert years[0] == ("2012", "2013", "2014", "2015")
    assert "2026" in years[2]
    assert "2199" not in years[2]


def test_a_table_of_events_says_nothing_of_the_years_between() -> None:
    table = "| Measured on | Value |\n|---|---|\n| 1 May 2011 | 4 |\n| 1 May 2016 | 5 |\n"
    assert list_covered_years(split_units(table)) == {}


@pytest.mark.parametrize(
    ("question", "held"),
    [
        ("How much is the fee for a mooring?", "EUR 390"),
        ("What is the fee for a mooring?", "EUR 390"),
        ("How much is the fee for a mooring in 2023?", "EUR 390"),
        ("How much was the fee for a mooring in 2018?", "EUR 345"),
    ],
)
async def test_the_row_valid_at_the_time_is_quoted(
    question: str, held: str, embedder: OnnxEmbedder
) -> None:
    text = await answer(question, [source(SCHEDULE)], embedder)
    assert NO_ANSWER not in text
    assert held in text
    assert "900" not in text


async def test_a_year_that_no_row_covers_is_not_answered(embedder: OnnxEmbedder) -> None:
    text = await answer("How much was the fee for a mooring in 1995?", [source(SCHEDULE)], embedder)
    assert text.startswith(NO_ANSWER)


PRICES = """Valid from 1 May 2024. This list replaces the list of 2021, in which a mooring for a
day still cost EUR 14.

| Mooring | Day | Night |
|---|---|---|
| Small boat | EUR 18 | EUR 25 |
"""
PREISE = """Früher kostete ein Liegeplatz für einen Tag 14 Euro. Ein Liegeplatz für einen Tag kostet
18 Euro. Duschen kostet 2 Euro."""


async def test_a_value_that_holds_no_longer_is_not_the_answer(embedder: OnnxEmbedder) -> None:
    text = await answer("What does a mooring for a day cost?", [source(PRICES)], embedder)
    assert "EUR 18" in text
    assert "14" not in text
    text = await answer("Was kostet ein Liegeplatz für einen Tag?", [source(PREISE)], embedder)
    assert "18 Euro" in text
    assert "14" not in text


async def test_a_value_that_holds_no_longer_is_told_when_it_is_asked_for(
    embedder: OnnxEmbedder,
) -> None:
    text = await answer("What did a mooring for a day cost before?", [source(PRICES)], embedder)
    assert "EUR 14" in text


@pytest.mark.parametrize(
    ("text", "withdrawn"),
    [
        ("In the list of 2021 a ticket still cost EUR 14.", True),
        ("Until 31 March 2023 the fee was EUR 5.", True),
        ("Bis Ende 2022 betrug die Gebühr 5 Euro.", True),
        ("The fee was EUR 5 before.", True),
        ("Until 2190 the fee is EUR 5.", False),
        ("The lamp is used to light 3 rooms.", False),
        ("The new pump replaces the old one and delivers 40 litres.", False),
        ("The fee is 7 instead of previously 5.", False),
        ("Please come before 10:00.", False),
    ],
)
def test_a_withdrawn_value_is_recognised(text: str, withdrawn: bool) -> None:
    assert is_withdrawn(text) == withdrawn


async def test_a_change_replaces_what_it_changes(embedder: OnnxEmbedder) -> None:
    sources = [source(CONTRACT, 1, "contract"), source(AMENDMENT, 2, "amendment")]
    text = await answer("How long are log files kept?", sources, embedder)
    assert text.startswith("In clause 4.2 log files are kept for 90 days instead of 14.")


async def test_a_change_of_another_clause_replaces_nothing(embedder: OnnxEmbedder) -> None:
    other = "Effective 1 May 2024. In clause 9.1 invoices are due after 90 days instead of 14."
    sources = [source(CONTRACT, 1, "contract"), source(other, 2, "amendment")]
    text = await answer("How long are log files kept?", sources, embedder)
    assert text.startswith("4.2 The supplier keeps log files for 14 days.")


def test_the_year_is_removed_with_its_preposition() -> None:
    assert remove_year("How high is the rent in 2026?", 2026) == "How high is the rent?"


@pytest.mark.parametrize(
    "text",
    [
        "The code used to open the gate has 4 digits.",
        "The valve is only used to drain the 40 l tank.",
        "Kommen Sie 15 Minuten früher.",
        "Melden Sie sich zuvor an; die Karte kostet 12 Euro.",
        "Deposit previously paid is refunded within 14 days.",
        "The electric pump costs 209 euros; until 31 December 2025 it cost 189 euros.",
        "The hand pump costs 54 euros (before that it cost 49 euros).",
    ],
)
def test_a_value_in_force_is_not_withdrawn(text: str) -> None:
    assert not is_withdrawn(text)


async def test_the_price_of_another_thing_is_not_the_current_one(embedder: OnnxEmbedder) -> None:
    pumps = (
        "The electric pump A-200 costs 209 euros; until 31 December 2025 it cost 189 euros. "
        "The hand pump A-100 costs 54 euros (before: 49 euros)."
    )
    text = await answer("How much does the electric pump cost?", [source(pumps)], embedder)
    assert "209" in text
