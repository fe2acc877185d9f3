"""A claim that gives one subject what the source says of another is not supported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.query.check.clauses import find_mixed_clauses, split_clauses
from ragstone.query.check.review import check_against_facts

# Written before the rule: sentences with two subjects, true paraphrases, and exchanged subjects.
ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "two_subjects.jsonl").read_text("utf-8").splitlines()
]
EXCHANGED = [row for row in ROWS if "exchanged" in row]


def split(*sentences: str) -> list[str]:
    return [clause.text for clause in split_clauses(sentences)]


@pytest.mark.parametrize(
    ("sentence", "clauses"),
    [
        ("Ada audits Kiln and Ben audits Forge.", ["Ada audits Kiln.", "Ben audits Forge."]),
        ("Adults pay 16 euros, but children pay 8.", ["Adults pay 16 euros.", "Children pay 8."]),
        ("Tin fell sharply; copper rose.", ["Tin fell sharply.", "Copper rose."]),
        (
            "The restored mill houses the archive and the listed barn houses the shop.",
            ["The restored mill houses the archive.", "The listed barn houses the shop."],
        ),
        (
            "Plan A includes phones and Plan B includes screens.",
            ["Plan A includes phones.", "Plan B includes screens."],
        ),
        # one subject, two objects or two verbs
        ("The mayor opened the bridge and the tunnel.", []),
        ("The mayor opened the bridge and visited the school.", []),
        ("It weighs 2.8 kg empty and 3.2 kg full.", []),
        # a subject that stands elsewhere
        ("The north hired more people, but it earned less.", []),
        ("Sharing is off and must be enabled by hand.", []),
    ],
)
def test_clauses_have_a_subject_and_a_verb_of_their_own(sentence: str, clauses: list[str]) -> None:
    assert split(sentence) == clauses


def test_a_sentence_about_it_stays_with_the_one_before() -> None:
    found = split("The east wing is old.", "It uses a heat pump.", "The west wing burns gas.")
    assert found == ["The east wing is old. It uses a heat pump.", "The west wing burns gas."]


@pytest.mark.parametrize(
    ("claim", "is_mixed"),
    [
        ("Ben audits Kiln.", True),
        ("Kiln is audited by Ben.", True),
        ("Kiln is audited by Ada.", False),
        ("Ada and Ben audit Kiln and Forge.", False),
    ],
)
def test_a_claim_about_one_clause_or_about_both_subjects_mixes_nothing(
    claim: str, is_mixed: bool
) -> None:
    clauses = split_clauses(("Ada audits Kiln and Ben audits Forge.",))
    assert bool(find_mixed_clauses(claim, clauses)) == is_mixed


@pytest.mark.parametrize("is_apart", [False, True])
def test_exchanged_subjects_are_refused_and_true_paraphrases_are_not(is_apart: bool) -> None:
    """Before the rule 14 of the 20 exchanged claims were shown as supported."""

    def is_supported(claim: str, evidence: str) -> bool:
        texts = split(evidence) if is_apart else [evidence]
        return check_against_facts(claim, [" ".join(texts)], None).claims[0].verdict == "supported"

    true = [row["true"] for row in ROWS if not is_supported(row["true"], row["evidence"])]
    passed = [
        row["exchanged"] for row in EXCHANGED if is_supported(row["exchanged"], row["evidence"])
    ]
    assert (len(ROWS), len(EXCHANGED)) == (32, 20)
    assert len(true) <= 5, true
    assert len(passed) <= 3, passed


def test_the_reason_is_said() -> None:
    (claim,) = check_against_facts(
        "The landlord cleans the gutters.",
        ["The landlord repairs the roof and the tenant cleans the gutters."],
        None,
    ).claims
    assert claim.verdict == "unsupported"
    assert claim.reasons == ("The source says this of something else.",)
