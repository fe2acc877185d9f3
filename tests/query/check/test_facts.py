"""Numbers, units, dates, names and polarity agree to the letter or are reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.check.facts import find_disagreements
from ragstone.query.check.support import find_missing_quotations
from ragstone.query.check.values import find_dates, find_names, find_quantities

SAME = [
    ("The rent is EUR 18,400.", "The rent is EUR 18,400 per year."),
    ("The trail is 1.2 km long.", "The trail measures 1,200 m."),
    ("It ends on June 30, 2039.", "It ends on 30 June 2039 without notice."),
    ("It was signed on 2024-06-03.", "Supplemented on 3 June 2024."),
    ("About 25,000 people came.", "24,960 people were counted."),
    ("Twelve percent is paid.", "A commission of 12 % is paid."),
    ("He was born in 1953.", "He was born on 3 May 1953."),
    ("Notice is 3 months.", "Three months' written notice."),
    ("It cost $4.5 million.", "It cost 4,500,000 dollars."),
    ("The dome is closed.", "The dome is closed, but the terrace is not."),
]
OTHER = [
    ("The rent is EUR 18,500.", "The rent is EUR 18,400 per year.", "number"),
    ("The wind limit is 13 km/h.", "The wind limit is 13 m/s.", "unit"),
    ("It ends on 30 June 2038.", "It ends on 30 June 2039.", "date"),
    ("It ends on 30 July 2039.", "It ends on 30 June 2039.", "date"),
    ("It was given by Anna Quill.", "It was given by Eleanor Morrow.", "name"),
    ("The café is not open.", "The café is open.", "negation"),
    ("Dogs may enter the dome.", "Dogs may not enter the dome.", "negation"),
    ("The shutter opens first.", "The shutter opens last.", "opposite"),
]


@pytest.mark.parametrize(("claim", "evidence"), SAME)
def test_another_spelling_is_no_disagreement(claim: str, evidence: str) -> None:
    assert [one.reason for one in find_disagreements(claim, evidence)] == []


@pytest.mark.parametrize(("claim", "evidence", "kind"), OTHER)
def test_another_fact_is_a_contradiction(claim: str, evidence: str, kind: str) -> None:
    found = list(find_disagreements(claim, evidence))
    assert kind in [one.kind for one in found if one.contradicts]
    assert all(one.reason.endswith(".") for one in found)


def test_a_name_that_stands_elsewhere_in_the_source_is_not_invented() -> None:
    found = list(
        find_disagreements("It was given by Anna Quill.", "It was given.", "Anna Quill leads.")
    )
    assert found
    assert not any(one.contradicts for one in found)


@given(st.text(max_size=300))
def test_a_sentence_never_disagrees_with_itself(text: str) -> None:
    assert not list(find_disagreements(text, text))


@given(st.text(alphabet="0123456789.,%€ kmEURJuneMay-", max_size=60))
def test_any_figures_can_be_read(text: str) -> None:
    for found in (*find_quantities(text), *find_dates(text)):
        assert found.text


def test_the_first_word_is_a_name_only_when_it_is_known() -> None:
    assert find_names("Rollo led them.") == ()
    assert find_names("Rollo led them.", frozenset({"Rollo"})) == ("Rollo",)
    assert find_names("Eleanor Morrow gave it.") == ("Eleanor", "Morrow")


def test_a_quotation_must_stand_in_a_source() -> None:
    texts = ["He said: the  bridge\nhas not been built for it."]
    assert find_missing_quotations("It “has not been built” so.", texts) == []
    assert find_missing_quotations("It “has been built well” so.", texts) == ["has been built well"]
