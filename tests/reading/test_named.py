"""A question may name a document by its file."""

from __future__ import annotations

import pytest

from ragstone.reading.named import find_named_documents
from ragstone.types import Chunk, Hit, Source

NAMES = (
    "licences/QPL-3.txt",
    "zebra_2.0.md",
    "employee-handbook.pdf",
    "minutes/2025-board-meeting.txt",
    "contracts/lease-of-the-ridge.pdf",
)
SOURCES = [
    Source(number, Hit(Chunk(name, 0, "Any text.", 0, 9, name), 1.0, "hybrid"), "Any text.")
    for number, name in enumerate(NAMES, 1)
]


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("How long is the offer valid under the QPL?", "licences/QPL-3.txt"),
        ("How long is the offer valid under QPLv3?", "licences/QPL-3.txt"),
        ("what happens under Zebra if I sue?", "zebra_2.0.md"),
        ("According to the employee handbook, who pays?", "employee-handbook.pdf"),
        ("who was present at the board meeting", "minutes/2025-board-meeting.txt"),
        ("Who was elected at the board meeting of 2025?", "minutes/2025-board-meeting.txt"),
        ("How much is the rent in the lease of the ridge?", "contracts/lease-of-the-ridge.pdf"),
        ("Wie lange gilt das laut QPL?", "licences/QPL-3.txt"),
        ("How long is the offer valid?", None),
        ("Is the QPL stricter than Zebra?", None),  # two documents
        ("When does QPL 2 end?", None),  # another version
        ("How many employees are there?", None),  # not the whole name
        ("Who was elected at the board meeting of 2022?", None),  # another year
        ("", None),
    ],
)
def test_the_document_is_the_one_whose_whole_name_is_in_the_question(
    question: str, document: str | None
) -> None:
    assert find_named_documents(question, SOURCES) == ({document} if document else set())
