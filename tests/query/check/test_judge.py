"""Statements are judged by quotation, by reading and by exact values, within limits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragstone.query.check.judge import OUT_OF_TIME
from ragstone.query.check.review import Review, review_text
from ragstone.query.check.verifier import Verifier, WorkLimit
from ragstone.query.check.windows import _read_text, find_quotation, read_source
from ragstone.query.ground.cite import MarkerStream, Notation, split_statements
from ragstone.reading.model import VerifierScores

from ..build import sources

RENT = "The rent is 400 euros a month. Heating costs 80 euros. The lease ends on 30 June 2039."


class Reader:
    """Says of every pair what it was told, and counts what it read."""

    def __init__(self, supported: float = 0.95, contradicted: float = 0.01) -> None:
        self.scores = VerifierScores(supported, contradicted, 1 - supported - contradicted)
        self.read: list[tuple[str, str]] = []

    def verify(self, pairs: Sequence[tuple[str, str]]) -> list[VerifierScores]:
        self.read += pairs
        return [self.scores] * len(pairs)


def check(
    answer: str, *texts: str, reader: Reader | None = None, limit: WorkLimit | None = None
) -> Review:
    verifier = Verifier(reader or Reader())
    return review_text(answer, Notation(sources(*texts)), verifier=verifier, limit=limit)


def verdicts(review: Review) -> list[str]:
    return [claim.verdict for claim in review.claims]


def test_a_quotation_needs_no_reading() -> None:
    reader = Reader(supported=0.0)
    review = check("Heating costs 80 euros. [Source 1]", RENT, reader=reader)
    assert (verdicts(review), reader.read) == (["supported"], [])
    assert review.citations[0].snippet == "Heating costs 80 euros."


def test_a_quotation_needs_no_other_source_than_the_one_it_names() -> None:
    _read_text.cache_clear()
    review = check("Heating costs 80 euros. [Source 2]", "The garden is green.", RENT, "It rains.")
    assert (verdicts(review), _read_text.cache_info().currsize) == (["supported"], 1)


@pytest.mark.parametrize(
    "claim",
    [
        "The rent is 400 euros.",  # the rest of the sentence may change it
        "The rent is not 400 euros a month.",
        "The rent is 40 euros a month.",
        "Heating costs -80 euros.",
        "Heating costs 80 %.",
    ],
)
def test_part_of_a_sentence_is_no_quotation(claim: str) -> None:
    assert find_quotation(claim, read_source(sources(RENT)[0])) is None


def test_a_row_of_a_table_supports_itself() -> None:
    text = "| Ticket | Day | Evening |\n|---|---|---|\n| Adult | €16 | €24 |\n| Child | €8 | €12 |"
    review = check("Child: Day €8, Evening €12. [Source 1]", text, reader=Reader(0.0))
    assert verdicts(review) == ["supported"]
    assert review.citations[0].snippet == "| Child | €8 | €12 |"


def test_the_verifier_alone_does_not_overrule_an_exact_value() -> None:
    review = check("The rent is 450 euros a month. [Source 1]", RENT, reader=Reader(0.99))
    assert verdicts(review) == ["unsupported"]
    assert review.claims[0].reasons == ("450 euros isn't in the source.",)
    assert review.final == {0}


def test_the_verifier_contradicts() -> None:
    review = check("Rent is paid by the owner. [Source 1]", RENT, reader=Reader(0.0005, 0.9992))
    assert verdicts(review) == ["contradicted"]


def test_another_language_is_unchecked_and_keeps_its_marker() -> None:
    review = check("Die Miete beträgt 400 Euro im Monat. [Source 1]", RENT, reader=Reader(0.0))
    assert verdicts(review) == ["unchecked"]
    assert review.claims[0].citations == (1,)
    assert review.text.endswith("[Source 1]")
    assert "German" in review.claims[0].reasons[0]
    assert [one.verdict for one in review.citations] == ["unchecked"]


SAME_RENT = {
    "German": "Die Miete beträgt 400 Euro im Monat.",
    "French": "Le loyer est de 400 euros par mois.",
    "Spanish": "El alquiler es de 400 euros al mes.",
    "Chinese": "租金为每月四百欧元。",
}
TABLE = "| Ticket | Day |\n|---|---|\n| Adult | €16 |"


@pytest.mark.parametrize(("name", "claim"), SAME_RENT.items())
@pytest.mark.parametrize("mark", [" [Source 1]", ""])
def test_no_other_language_is_called_unsupported(name: str, claim: str, mark: str) -> None:
    """A source whose language is unclear, here a table, does not decide either."""
    review = check(claim + mark, RENT, TABLE, reader=Reader(0.0))
    assert verdicts(review) == ["unchecked"]
    (reason,) = review.claims[0].reasons
    assert name in reason
    assert "and the source in English: nothing here can compare the two." in reason
    assert review.claims[0].citations == ((1,) if mark else ())
    assert review.text == claim + mark


@pytest.mark.parametrize(("name", "text"), SAME_RENT.items())
def test_an_english_claim_on_other_sources_is_unchecked(name: str, text: str) -> None:
    review = check("The rent is 400 euros a month. [Source 1]", text * 3, reader=Reader(0.0))
    assert verdicts(review) == ["unchecked"]
    assert name in review.claims[0].reasons[0]
    assert review.text.endswith("[Source 1]")


def test_what_the_time_leaves_out_is_unchecked() -> None:
    review = check(
        "Rent is due each month. [Source 1]", RENT, limit=WorkLimit.of_seconds(0, max_pairs=0)
    )
    assert verdicts(review) == ["unchecked"]
    assert review.claims[0].reasons == (OUT_OF_TIME,)


def test_the_work_is_bounded() -> None:
    reader = Reader(supported=0.2)
    texts = [f"{RENT} Note {n} is about tea, soup and bread. {RENT}" for n in range(20)]
    answer = " ".join(f"Tenant {n} pays rent and heating for the lease." for n in range(200))
    limit = WorkLimit.of_seconds(600, max_pairs=300)
    review = check(answer, *texts, reader=reader, limit=limit)
    assert len(review.claims) == 200
    assert len(reader.read) <= 300


def test_a_pair_is_read_once() -> None:
    reader = Reader()
    verifier = Verifier(reader)
    limit = WorkLimit(max_pairs=1)
    assert verifier.verify("a", "b", limit) == verifier.verify("a", "b", limit)
    assert verifier.verify("a", "c", limit) is None
    assert reader.read == [("a", "b")]


LIST = "The costs are:\n- The rent is 400 euros a month.\n- Heating costs 80 euros. [Source 1]"


def test_items_share_the_marker_at_the_end_of_their_list() -> None:
    review = check(LIST, RENT)
    assert review.text == LIST
    assert [(claim.verdict, claim.citations) for claim in review.claims] == [
        ("supported", (1,)), ("supported", (1,)),
    ]  # fmt: skip
    assert [one.number for one in review.citations] == [1]
    assert review.citations[0].snippet == RENT[: RENT.index(" The lease")]
    assert review.attributed == review.repaired == 0


def test_an_item_of_another_source_gets_its_own_marker() -> None:
    answer = LIST.replace("- Heating", "- Dogs are welcome here.\n- Heating")
    review = check(answer, RENT, "Dogs are welcome here.")
    assert "- Dogs are welcome here. [Source 2]\n" in review.text
    assert [one.number for one in review.citations] == [1, 2, 1] or [
        one.number for one in review.citations
    ] == [2, 1]


def test_rows_below_each_other_share_a_marker() -> None:
    answer = "Adult: Day €16.\nChild: Day €8. [Source 1]"
    text = "| Ticket | Day |\n|---|---|\n| Adult | €16 |\n| Child | €8 |"
    review = check(answer, text)
    assert (review.text, verdicts(review)) == (answer, ["supported", "supported"])


@pytest.mark.parametrize(
    "answer",
    [
        "# Costs of the flat",
        "**Costs of the flat**",
        "The costs of the flat are:",
        "1.",
        "The rent is paid to the owner of the",
        "1024 bytes of 1024 bytes of 1024 bytes of 1024 bytes of memory.",
    ],
)
def test_what_is_no_claim(answer: str) -> None:
    assert check(answer, RENT).claims == ()


def test_a_repeated_sentence_is_one_claim() -> None:
    review = check("Heating costs 80 euros. " * 5, RENT)
    assert verdicts(review) == ["supported"]


@pytest.mark.parametrize(
    "mark", ["[1]", "[Source 1]", "【1】", "(Source 1)", "[^1]", "[1, 1]", "【1†source】"]
)
def test_every_form_of_marker_is_read(mark: str) -> None:
    notation = Notation(sources(RENT))
    stream = MarkerStream(notation)
    text = stream.feed(f"Heating costs 80 euros {mark}.") + stream.close()
    assert text == "Heating costs 80 euros [Source 1]."
    assert split_statements(text, notation)[0].numbers == (1,)


@pytest.mark.parametrize("text", ["In [2019] it was.", "Use `a[1]` here.", "See a[0].b (1)."])
def test_what_is_no_marker(text: str) -> None:
    stream = MarkerStream(Notation(sources(RENT)))
    assert stream.feed(text) + stream.close() == text
