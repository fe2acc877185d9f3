"""Numbers, units, dates, names and polarity agree to the letter or are reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.check.facts import find_disagreements
from ragstone.query.check.names import find_names
from ragstone.query.check.polarity import find_denials
from ragstone.query.check.support import find_missing_quotations
from ragstone.query.check.values import (
    find_dates,
    find_quantities,
    spell_values_like,
)

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
    ("It cost 2 and a half million dollars.", "It cost 2,500,000 dollars."),
    ("It cost two and a half million dollars.", "It cost 2,500,000 dollars."),
    ("It cost two million and a half dollars.", "It cost 2,500,000 dollars."),
    ("The dome is closed.", "The dome is closed, but the terrace is not."),
    ("It lasts one year.", "It lasts a year, with one month of notice."),
    ("The stay is two days.", "The trip takes two hours, the stay two days."),
    ("More than 12,000 patients were treated.", "The clinic treated 12,480 patients."),
    ("The clinic has over 300 employees.", "The clinic has 340 employees."),
    ("It is calibrated with two buffers.", "It is calibrated with buffers of pH 4.01 and 7.00."),
]
OTHER = [
    ("More than 13,000 patients were treated.", "The clinic treated 12,480 patients.", "number"),
    ("The rent is EUR 18,500.", "The rent is EUR 18,400 per year.", "number"),
    ("The wind limit is 13 km/h.", "The wind limit is 13 m/s.", "unit"),
    ("Guests need no card for up to 24 days.", "A card is needed from 24 hours on.", "unit"),
    ("Sick pupils get two days.", "They may take it again within two weeks.", "unit"),
    ("Ek jumped three metres higher.", "She was three centimetres higher, in three tries.", "unit"),
    ("At most 500 euros are paid.", "Liability is limited to EUR 500,000 per event.", "unit"),
    ("The bag may weigh 8 pounds.", "One bag of up to 8 kg is free.", "unit"),
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


@pytest.mark.parametrize(
    ("claim", "evidence", "expected"),
    [
        ("It weighs 1,600 kilograms.", "The bell weighs 1.6 tonnes.", "It weighs 1.6 tonnes."),
        ("It owes seventy-five dollars.", "A fee of $75 is due.", "It owes $75."),
        ("About 25 % live there.", "A quarter lives there.", "About A quarter live there."),
        # another amount, an ordinal, and the same words stay
        ("It weighs 1,700 kilograms.", "The bell weighs 1.6 tonnes.", "It weighs 1,700 kilograms."),
        ("It was the fifth round.", "It was round 5.", "It was the fifth round."),
        ("It takes 30 minutes.", "It takes 30 minutes, half an hour.", "It takes 30 minutes."),
    ],
)
def test_equal_amounts_are_spelled_as_in_the_evidence(
    claim: str, evidence: str, expected: str
) -> None:
    assert spell_values_like(claim, evidence) == expected


# A reader computes these from the evidence, or spells them in another unit.
DERIVED = [
    ("Kiln has 40 more members than Forge.", "Kiln has 100 members, Forge has 60 members."),
    ("The two clubs have 160 members in total.", "Kiln has 100 members, Forge has 60 members."),
    ("Kiln has three times as many members.", "Kiln has 30 members, Forge has 10 members."),
    ("Kiln has twice as many members.", "Kiln has 20 members, Forge has 10 members."),
    ("A quarter of the members voted.", "Of the 80 members 20 voted."),
    ("Half of the members voted.", "Of the 80 members 40 voted."),
    ("Notice is given three months ahead.", "Notice is given 90 days ahead."),
    ("The warranty lasts two years.", "The warranty lasts 24 months."),
    ("The trial lasts four weeks.", "The trial lasts one month."),
    ("The tour takes one and a half hours.", "The tour takes 90 minutes."),
    ("The tour takes an hour and a half.", "The tour takes 90 minutes."),
    ("The lease runs for 2.5 years.", "The lease runs for two and a half years."),
    ("The box holds a dozen eggs.", "The box holds 12 eggs."),
    ("The box holds half a dozen eggs.", "The box holds 6 eggs."),
    ("Altogether, both clubs have 160 members.", "Kiln has 100 members, Forge has 60 members."),
    ("Kiln has 40 members more than Forge.", "Kiln has 100 members, Forge has 60 members."),
    ("The rent rose by 40 EUR.", "The rent was 60 EUR in May and 100 EUR in June."),
    ("The price fell by 40 %.", "The price was 100 EUR in May and 60 EUR in June."),
    ("25 % of the members voted.", "Of the 80 members 20 voted."),
    ("The remaining 40 EUR are paid in May.", "Of the 100 EUR 60 EUR are paid in April."),
    ("The war lasted six years.", "The war began in 1939 and ended in 1945, in its third year."),
]
# The same with a wrong value.
NOT_DERIVED = [
    ("Notice is given three months ahead.", "Notice is given 30 days ahead."),
    ("The warranty lasts three years.", "The warranty lasts 24 months."),
    ("The tour takes one and a half hours.", "The tour takes 60 minutes."),
    ("The tour takes an hour and a half.", "The tour takes two hours."),
    ("The lease runs for 3.5 years.", "The lease runs for two and a half years."),
    ("The box holds a dozen eggs.", "The box holds 6 eggs."),
    ("The box holds half a dozen eggs.", "The box holds 12 eggs."),
    ("Kiln has 90 members.", "Kiln has 100 members, Forge has 10 members."),
    ("The tour took 30 minutes.", "The tour took 45 minutes, with a break of 15 minutes."),
    (
        "The room rate was between 30 and 60 EUR.",
        "The room rate was between 40 and 70 EUR, breakfast 10 EUR and parking 20 EUR.",
    ),
    ("The film lasted 90 minutes.", "The film lasted 100 minutes, with a break of 10 minutes."),
    ("Both tours cost 30 EUR.", "Both tours cost 40 EUR and a meal 10 EUR."),
    ("The rent rose to 90 EUR.", "The rent rose to 80 EUR, with a fee of 10 EUR."),
    # the evidence gives the total, the share or the difference itself
    ("The total price is 30 EUR.", "The total price is 45 EUR, with a fee of 15 EUR."),
    ("20 % of the members voted.", "25 % of the members voted, 10 women and 50 men."),
    ("The rent rose by 30 EUR.", "The rent rose by 40 EUR, with a fee of 10 EUR."),
    # a share that nothing announces
    ("The interest is 20 %.", "The interest is 5 %, with fees of 10 EUR and 50 EUR."),
]


@pytest.mark.parametrize(("claim", "evidence"), DERIVED)
def test_a_computed_value_is_no_contradiction(claim: str, evidence: str) -> None:
    assert [one.reason for one in find_disagreements(claim, evidence) if one.contradicts] == []


@pytest.mark.parametrize(("claim", "evidence"), NOT_DERIVED)
def test_a_wrong_computed_value_is_a_contradiction(claim: str, evidence: str) -> None:
    found = [one for one in find_disagreements(claim, evidence) if one.contradicts]
    assert found, claim


DENIED = [
    ("No data was lost.", "Data was lost."),
    ("Data was lost.", "No data was lost."),
    ("No data was lost.", "Some data was lost in May."),
    ("Data was lost.", "Backups failed, but no data was lost."),
    ("Two ships were sold.", "None of the ships was sold."),
    ("Nothing was lost in the fire.", "Two paintings were lost in the fire."),
    ("Two paintings were lost in the fire.", "Nothing was lost in the fire."),
    ("The alarm rang.", "The alarm never rang."),
    ("The pump failed to start.", "The pump started."),
    ("The pump started.", "The pump did not start."),
    ("The report was sent with the annex.", "The report was sent without the annex."),
    ("Dogs may enter the dome.", "Dogs may not enter the dome."),
    ("The key was lost in the fire.", "A fire broke out. Nothing was lost."),
    ("The key was lost in the fire.", "The fire was small, and nothing was lost."),
]
NOT_DENIED = [
    ("No data was lost.", "No data was lost."),
    ("The pump did not start.", "The pump failed to start."),
    ("The dome is closed.", "The dome is closed, but the terrace is not."),
    ("Data was lost in May.", "No data was lost in June."),
    ("Ships were sold.", "Not all ships were sold."),
    ("The report was sent.", "The report was sent without the annex."),
    ("No data was lost.", "Data was nearly lost."),
    ("No data was lost.", "If data was lost, call us."),
    ("Data was lost in 2019.", "Data was lost in 2019; no data was lost in 2020."),
    ("He was born in Bergen.", "He was born in Bergen, not in Oslo."),
    ("At most five people may enter.", "No more than five people may enter."),
    ("Members enter free.", "Nobody but members enters free."),
    ("Smoking is forbidden in the rooms.", "Can I smoke? No, smoking is forbidden in the rooms."),
    ("No, smoking is forbidden in the rooms.", "Smoking is forbidden in the rooms."),
    ("Bus 5 stops at the station.", "Bus No. 5 stops at the station."),
    ("Bus no 5 stops at the station.", "Bus 5 stops at the station."),
    ("Members can enter with a ticket.", "Members can enter with or without a ticket."),
    ("Members can enter without a ticket.", "Members can enter with or without a ticket."),
    ("The key was lost on Monday.", "Nothing was lost."),
    ("The key was lost on Monday.", "The audit ended. Nothing was lost."),
    ("Nothing was lost.", "The key was lost on Monday."),
]


@pytest.mark.parametrize(("claim", "evidence"), DENIED)
def test_the_same_with_and_without_a_negation_is_a_contradiction(claim: str, evidence: str) -> None:
    (found,) = find_denials(claim, evidence)
    assert found.contradicts


@pytest.mark.parametrize(("claim", "evidence"), NOT_DENIED)
def test_another_negation_denies_nothing(claim: str, evidence: str) -> None:
    assert list(find_denials(claim, evidence)) == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_can_be_spelled_alike(claim: str, evidence: str) -> None:
    assert spell_values_like(claim, claim) == claim
    spell_values_like(claim, evidence)


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


def test_capital_letters_change_no_amount() -> None:
    (found,) = find_quantities("IT HOLDS HALF A DOZEN EGGS.")
    assert found.readings == ((6.0, ""),)


def test_the_first_word_is_a_name_only_when_it_is_known() -> None:
    assert find_names("Rollo led them.") == ()
    assert find_names("Rollo led them.", frozenset({"Rollo"})) == ("Rollo",)
    assert find_names("Eleanor Morrow gave it.") == ("Eleanor", "Morrow")


def test_a_quotation_must_stand_in_a_source() -> None:
    texts = ["He said: the  bridge\nhas not been built for it."]
    assert find_missing_quotations("It “has not been built” so.", texts) == []
    assert find_missing_quotations("It “has been built well” so.", texts) == ["has been built well"]


def test_a_value_beyond_a_limit_does_not_confirm_the_limit() -> None:
    storm = "On 9 December a gust of 41 m/s bent the rail."
    found = list(find_disagreements("The terrace is closed when gusts exceed 17 m/s.", storm))
    assert [one.reason for one in found if one.is_invented] == ["The source does not say 17 m/s."]
    rule = "If a gust exceeds 17 m/s, the terrace is closed."
    assert not list(find_disagreements("The terrace is closed when gusts exceed 17 m/s.", rule))
    assert not list(find_disagreements("More than 17 m/s were measured.", "41 m/s were measured."))
