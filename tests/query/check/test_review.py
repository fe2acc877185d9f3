"""Whatever a model writes, the answer ends with citations that resolve and that support it."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone import system
from ragstone.query.check import verifier, worker
from ragstone.query.check.review import (
    Review,
    check_against_facts,
    is_all_supported,
    review_text,
)
from ragstone.query.ground.cite import MarkerStream, Notation
from ragstone.reading.model import ReadingModel
from ragstone.text import find_sentence_spans
from ragstone.types import CitationStyle, Source

from ..build import sources

TEXTS = (
    "The dome must be closed as soon as the mean wind speed exceeds 13 m/s. It opens last. 🔭",
    "The lease begins on 1 July 2009. It ends on 30 June 2039 without notice being required.",
    "| Ticket | Day visit | Evening |\n|---|---|---|\n| Adult | €16 | €24 |\n\nDogs are welcome.",
    "In 1911 the society received the refractor of Eleanor Morrow. [Source 2] says otherwise.",
)
READ = sources(*TEXTS, start=50)
SAID = st.sampled_from([
    "The dome must be closed as soon as the mean wind speed exceeds 13 m/s.",
    "The lease ends on 30 June 2039.", "The lease ends on 30 June 2040.", "Dogs are welcome.",
    "Adult: Day visit €16, Evening €24.", "Bananas are yellow and grow in Ecuador.",
    "The refractor came from Eleanor Morrow in 1911.", "I hope this helps!", "天文台は開いている。",
    "```\nx = a[Source 1]\n```", "It said “nothing of this kind”.", "",
])  # fmt: skip
MARKS = st.sampled_from(
    ["", "[Source 1]", "[Source 2]", "[Source 4]", "[Source 99]", "[Sources 1, 3]", "[Source ",
     "[Source [Source 7]1]", "[[Source 3]]", "[Source 1][Source 1]", "[doc:3]", "[doc:12]", "]"]
)  # fmt: skip
ANSWERS = st.lists(st.tuples(SAID, MARKS, st.sampled_from([" ", "\n\n", ". "])), max_size=6).map(
    lambda parts: "".join(f"{said} {mark}{gap}" for said, mark, gap in parts)
)


def checked(answer: str, style: CitationStyle = "source") -> Review:
    notation = Notation(READ, style)
    stream = MarkerStream(notation)
    return review_text((stream.feed(answer) + stream.close()).strip(), notation)


@settings(max_examples=150, deadline=None)
@given(ANSWERS, st.sampled_from(["source", "chunk"]))
def test_every_citation_of_every_answer_resolves(answer: str, style: CitationStyle) -> None:
    result = checked(answer, style=style)
    document = {source.number: " " * source.start + source.text for source in READ}
    for one in result.citations:
        assert document[one.number][one.start : one.end] == one.snippet
        assert one.snippet
    for claim in result.claims:
        assert 0 <= claim.start < claim.end <= len(result.text)
    # The markers in the text are the citations, one for one and in order.
    marked = [n for m in Notation(READ, style).find_markers(result.text) for n in m.numbers]
    assert marked == [one.number for one in result.citations]


@pytest.mark.parametrize(
    ("answer", "text", "verdict"),
    [
        ("Dogs are welcome. [Source 3]", "Dogs are welcome. [Source 3]", "supported"),
        ("Dogs are welcome [Source 1].", "Dogs are welcome. [Source 3]", "supported"),
        ("Dogs are welcome.", "Dogs are welcome. [Source 3]", "supported"),
        ("The lease begins on 1 July 2019. [Source 2]",
         "The lease begins on 1 July 2019. [Source 2]", "contradicted"),
        ("Bananas grow in Ecuador. [Source 1]", "Bananas grow in Ecuador.", "unsupported"),
        ("It says “dogs are loved”. [Source 3]", "It says “dogs are loved”.", "unsupported"),
        ("Adult: Day visit €16, Evening €24. [Source 3]",
         "Adult: Day visit €16, Evening €24. [Source 3]", "supported"),
    ],
)  # fmt: skip
def test_verdicts_and_repairs(answer: str, text: str, verdict: str) -> None:
    result = checked(answer)
    assert (result.text, [claim.verdict for claim in result.claims]) == (text, [verdict])
    assert [claim.repaired for claim in result.claims] == [answer != text]


def test_a_value_of_no_source_is_named() -> None:
    claim = checked("The lease ends on 30 June 2040 without notice being required.").claims[0]
    assert claim.reasons[-1] == "30 June 2040 isn't in the source."


@pytest.mark.parametrize("manners", ["never cites", "cites at random", "invents sources"])
def test_bad_manners_end_with_good_citations(manners: str) -> None:
    chance = random.Random(7)
    marks = {
        "never cites": lambda: "",
        "cites at random": lambda: f" [Source {chance.randint(1, 4)}]",
        "invents sources": lambda: f" [Source {chance.randint(40, 90)}]",
    }[manners]
    true = [text[a:b] for text in TEXTS[:2] for a, b in find_sentence_spans(text) if b - a > 15]
    result = checked(" ".join(f"{sentence}{marks()}" for sentence in true))
    assert result.precision >= 0.9
    assert result.recall >= 0.9


def test_a_marker_of_an_unknown_source_is_no_part_of_the_claim() -> None:
    facts = ["The gate is green.", "The lease ends in 2039."]
    found = check_against_facts("The gate is green [7]. The lease ends in 2039 [2, 9].", facts)
    assert [claim.text for claim in found.claims] == [
        "The gate is green.",
        "The lease ends in 2039.",
    ]
    assert [claim.verdict for claim in found.claims] == ["supported", "supported"]
    assert found.notes == ("The answer names sources that do not exist: [7], [2, 9].",)
    assert found.unknown_sources == ("[7]", "[2, 9]")
    assert not is_all_supported(found)
    assert is_all_supported(check_against_facts("The gate is green [1].", facts))
    assert check_against_facts("The gate is green [1].", facts).notes == ()


def test_a_damaged_model_is_a_message_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ReadingModel().directory, tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text("")
    monkeypatch.setattr(verifier, "_SHIPPED", [verifier.Verifier(ReadingModel(tmp_path / "model"))])
    monkeypatch.setattr(system, "limit_processor_time", lambda _: None)
    request = {"answer": "The gate is red.", "facts": ["The gate is green."]}
    (reply,) = worker.answer({**request, "threshold": 0.6, "timeout_s": 30})
    assert b"model.json" in reply
    assert b"damaged" in reply


def label(source: Source, *path: str) -> Source:
    """Put a source under headings."""
    chunk = replace(source.hit.chunk, heading_path=path)
    return replace(source, hit=replace(source.hit, chunk=chunk))


WIKI = (
    label(
        sources("Office staff may work from home two days a week. Bakers may not.")[0],
        "Onboarding wiki: Harbour Bakery Ltd.",
        "Remote work",
    ),
)
PLACE = "Onboarding wiki: Harbour Bakery Ltd. > Remote work:"


@pytest.mark.parametrize("quoted", ["Bakers may not.", "Office staff may work from home."])
def test_the_place_shown_before_a_short_quotation_is_no_claim(quoted: str) -> None:
    review = review_text(f"No.\n\n{PLACE} {quoted} [Source 1]", Notation(WIKI))
    assert [claim.text for claim in review.claims] == [quoted]
    (claim,) = review.claims
    assert review.text[claim.start : claim.end] == quoted
    assert (claim.score == 1.0) == (quoted == "Bakers may not.")
    if claim.score == 1.0:
        assert [one.snippet for one in review.citations] == [quoted]
        assert review.text == f"No.\n\n{PLACE} {quoted} [Source 1]"


def test_what_follows_the_place_of_a_source_is_checked() -> None:
    review = review_text(f"{PLACE} Bakers may. [Source 1]", Notation(WIKI))
    assert [claim.verdict for claim in review.claims] != ["supported"]
    assert not review_text(f"{PLACE} What now?", Notation(WIKI)).claims


def test_the_place_of_another_document_is_a_claim() -> None:
    said = "Handbook > Night work: Bakers may not."
    review = review_text(f"{said} [Source 1]", Notation(WIKI))
    assert [claim.text for claim in review.claims] == [said]


CODE = "```shell\npip install shelfmark\n```"


@pytest.mark.parametrize(
    ("answer", "stored", "cited"),
    [
        (f"Install it with: [Source 1]\n\n{CODE}", f"Install it with:\n\n{CODE}", True),
        (f"{PLACE} [Source 1]\n\n{CODE}", CODE, True),
        (f"Install it with: [Source 1]\n\n{CODE}", "Install it with:\n\n```\nrm -r /\n```", False),
    ],
)
def test_a_quoted_listing_is_cited(answer: str, stored: str, cited: bool) -> None:
    place = ("Onboarding wiki: Harbour Bakery Ltd.", "Remote work")
    review = review_text(answer, Notation((label(sources(stored)[0], *place),)))
    assert [one.snippet for one in review.citations] == [stored] * cited
    assert [claim.score for claim in review.claims] == [1.0] * cited
    assert (review.text == answer) == cited
