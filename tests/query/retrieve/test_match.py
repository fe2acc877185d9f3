"""Requests are matched with names, folders, titles and metadata; documents are grouped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstone.outline import DocumentEntry
from ragstone.query.retrieve.match import (
    choose_documents,
    group_documents,
    match_documents,
    read_subject,
)

ENTRIES = [
    DocumentEntry("1", "contracts/lease-of-the-ridge.pdf", "Lease of the Ridge", chunk_count=9),
    DocumentEntry("2", "contracts/catering-agreement.txt", "Catering Agreement", chunk_count=8),
    DocumentEntry("3", "policies/safety.md", "Safety Policy", chunk_count=7),
    DocumentEntry("4", "minutes/2025-board-meeting.txt", "Minutes", chunk_count=5),
    DocumentEntry("5", "wiki/history.md", "History of the Observatory", chunk_count=4),
    DocumentEntry("6", "hr/a1.docx", "", labels="Arbeitsvertrag", chunk_count=2),
    DocumentEntry("7", "hr/a2.docx", "", labels="Vertrag", chunk_count=2),
]


def find(text: str, *, by_kind: bool = False, limit: int = 6) -> list[str]:
    matches = match_documents(read_subject(text, by_kind=by_kind), ENTRIES)
    return [one.entry.id for one in choose_documents(matches, limit)]


def test_a_document_is_found_by_its_title_its_name_and_its_folder() -> None:
    assert find("the lease") == ["1"]
    assert find("the board meeting minutes") == ["4"]
    assert find("the catering contract") == ["2"]


def test_a_kind_stands_for_all_its_names_on_request_only() -> None:
    assert find("contracts") == ["2", "1"]
    assert set(find("contracts", by_kind=True)) == {"1", "2", "7"}


def test_a_subject_that_no_document_names_finds_none() -> None:
    assert find("the contract with the cleaning company") == []
    assert find("the minutes of the last works council meeting") == []


def test_more_documents_than_the_limit_are_none() -> None:
    assert find("contracts", limit=1) == []


def test_the_document_whose_title_is_the_request_is_meant_alone() -> None:
    entries = [
        DocumentEntry("1", "deployment.md", "Deployments", chunk_count=90),
        DocumentEntry("2", "run-a-deployment.md", "Run a Deployment", chunk_count=9),
    ]
    matches = match_documents(read_subject("Deployments"), entries)
    assert [one.entry.id for one in choose_documents(matches, 6)] == ["1"]


def test_a_first_page_is_not_meant_alone() -> None:
    entries = [
        DocumentEntry("1", "reduce-latency/how.md", "Reduce latency", chunk_count=1),
        DocumentEntry("2", "reduce-latency/stream.md", "Use streaming", chunk_count=4),
        DocumentEntry("3", "reduce-latency/model.md", "Choose the model", chunk_count=4),
    ]
    matches = match_documents(read_subject("the tips for reducing latency"), entries)
    assert {one.entry.id for one in choose_documents(matches, 6)} == {"1", "2", "3"}


def test_documents_are_grouped_by_folder_with_the_first_page_in_front() -> None:
    entries = [
        DocumentEntry(f"{folder}{n}", f"docs/{folder}/{name}.md", chunk_count=size)
        for folder in ("storage", "network", "nodes")
        for n, (name, size) in enumerate([("big", 50), ("_index", 1), ("small", 2)])
    ]
    groups = group_documents(entries)
    assert [(one.name, one.count) for one in groups] == [
        ("network", 3),
        ("nodes", 3),
        ("storage", 3),
    ]
    assert all(one.documents[0].name.endswith("_index.md") for one in groups)


def test_documents_without_folders_are_grouped_by_the_words_of_their_names() -> None:
    names = ["invoice-1", "invoice-2", "invoice-3", "letter-a", "letter-b", "plan"]
    groups = group_documents([DocumentEntry(name, f"{name}.pdf") for name in names])
    assert [(one.name, one.count) for one in groups] == [("invoice", 3), ("letter", 2), ("", 1)]


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
