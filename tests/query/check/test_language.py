"""The check guesses another language than English only where the words show it clearly."""

from __future__ import annotations

import pytest

from ragstone.query.check.language import can_compare, guess_languages
from ragstone.query.check.review import check_against_facts

# Each holds words that are function words elsewhere: over, in, die, was, men, met, per, son, van …
ENGLISH = [
    "The pump ran over night.",
    "Old batteries die in winter.",
    "The rent was raised over Easter.",
    "Ada audits Kiln. Ben audits Forge.",
    "Two men fell ill.",
    "Sales rose over 40 percent.",
    "Plants die without water.",
    "Ben met Ada in Rome.",
    "Kim will audit Acme.",
    "Data was lost.",
    "Water is wet.",
    "Nine men die.",
    "Anna is in Turin.",
    "Fees vary per region.",
    "Van drivers die young.",
    "Use port 80 per default.",
    "Son met father.",
    "Comment on line 3 was deleted.",
    "Rio de Janeiro grew.",
    "Smith et al. measured salt.",
    "Los Angeles raised all fees.",
    "Traffic in Den Haag fell.",
]
OTHERS = [
    ("Der Hausmeister wohnt im Erdgeschoss.", "German"),
    ("Die Ruhezeit beginnt um 22 Uhr und endet um 6 Uhr.", "German"),
    ("Hunde sind nicht erlaubt.", "German"),
    ("Die Miete war zu hoch.", "German"),
    ("Der Vertrag endet 2039.", "German"),
    ("De kat ligt op het bed.", "Dutch"),
    ("Honden zijn niet toegestaan.", "Dutch"),
    ("Het contract eindigt in 2039.", "Dutch"),
    ("Le bail expire en 2039.", "French"),
    ("Les chiens ne sont pas admis.", "French"),
    ("Le chat est sur la table.", "French"),
    ("El contrato termina en 2039.", "Spanish"),
    ("La gata está en la casa.", "Spanish"),
    ("Il gatto dorme sul letto.", "Italian"),
]


@pytest.mark.parametrize("text", ENGLISH)
def test_an_english_sentence_can_be_compared_with_english(text: str) -> None:
    assert can_compare(guess_languages(text), ("English",))


@pytest.mark.parametrize(("text", "language"), OTHERS)
def test_a_sentence_in_another_language_is_seen(text: str, language: str) -> None:
    found = guess_languages(text)
    assert language in found
    assert "English" not in found


def test_a_short_english_source_is_checked() -> None:
    (claim,) = check_against_facts(
        "In winter, batteries that are old die.", ["Old batteries die in winter."], None
    ).claims
    assert claim.verdict == "supported"
