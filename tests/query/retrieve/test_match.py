"""Requests are matched with names, folders, titles and metadata; documents are grouped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.index.analyze import extract_terms
from ragstone.outline import DocumentEntry
from ragstone.query.retrieve.match import find_described, find_named, find_two, group_documents

ENTRIES = [
    DocumentEntry("1", "contracts/lease-of-the-ridge.pdf", "Lease of the Ridge"),
    DocumentEntry("2", "contracts/catering-agreement.txt", "Catering Agreement"),
    DocumentEntry("3", "policies/safety.md", "Safety Policy"),
    DocumentEntry("4", "minutes/2025-board-meeting.txt", "Minutes"),
    DocumentEntry("5", "hr/a1.docx", "", labels="Arbeitsvertrag"),
    DocumentEntry("6", "notes/besucherinfo.html", "Besucherinfo"),
    DocumentEntry("7", "archive/合同.pdf"),
]


@pytest.mark.parametrize(
    ("subject", "ids"),
    [
        ("the lease", "1"),
        ("the board meeting of November 2025", "4"),
        ("the safety policy", "3"),
        ("die Besucherinfo", "6"),
        ("合同", "7"),
        ("contracts", ""),  # a folder is no name
        ("the agreement with the cleaning company of the village", ""),  # too few of its words
        ("", ""),
    ],
)
def test_a_document_is_named_by_its_title_and_its_file(subject: str, ids: str) -> None:
    assert "".join(one.id for one in find_named(extract_terms(subject), ENTRIES)) == ids


def test_of_several_the_one_with_the_fewest_other_words_is_meant() -> None:
    entries = [
        DocumentEntry("1", "deployment.md", "Deployments"),
        DocumentEntry("2", "run-a-deployment.md", "Run a Deployment"),
        DocumentEntry("3", "pods.md", "Pods"),
    ]
    assert [one.id for one in find_named(extract_terms("deployments"), entries)] == ["1"]


def test_a_list_also_uses_folders_and_metadata() -> None:
    for subject, ids in (("contracts", "12"), ("Arbeitsvertrag", "5"), ("invoices", "")):
        found = find_described(extract_terms(subject), ENTRIES)
        assert "".join(one.id for one in found) == ids


@pytest.mark.parametrize(
    ("subject", "ids"),
    [
        ("the lease and the catering agreement", "12"),
        ("the catering agreement with the lease", "21"),  # in the order of the request
        ("the dome and the café", ""),
        ("the lease and the dome", ""),
        ("the lease, the safety policy and the minutes", ""),
    ],
)
def test_two_documents_are_named_by_different_words(subject: str, ids: str) -> None:
    terms = list(dict.fromkeys(extract_terms(subject)))
    assert "".join(one.id for one in find_two(terms, ENTRIES)) == ids


def test_documents_are_grouped_by_folder_with_the_longest_in_front() -> None:
    entries = [
        DocumentEntry(f"{folder}{n}", f"docs/{folder}/{name}.md", chunk_count=size)
        for folder in ("storage", "network", "nodes")
        for n, (name, size) in enumerate([("big", 50), ("_index", 1), ("small", 2)])
    ]
    groups = group_documents(entries)
    assert [(group.name, group.count) for group in groups] == [
        ("network", 3), ("nodes", 3), ("storage", 3),
    ]  # fmt: skip
    assert all(group.documents[0].name.endswith("big.md") for group in groups)


def test_documents_without_folders_are_listed() -> None:
    names = [f"letter-{n:02}" for n in range(14)]
    groups = group_documents([DocumentEntry(name, f"{name}.pdf") for name in names])
    assert [group.count for group in groups] == [1] * 10 + [4]
    assert groups[0].name == "letter-00.pdf"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "a/", "b/", "b/c/"]), st.text("xyz ", min_size=1, max_size=4)
        ),
        max_size=40,
    )
)
def test_every_document_is_in_one_group(names: list[tuple[str, str]]) -> None:
    entries = [DocumentEntry(str(n), f + name, name) for n, (f, name) in enumerate(names)]
    assert sum(one.count for one in group_documents(entries)) == len(entries)
