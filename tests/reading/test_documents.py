"""Requests about documents as a whole are told from questions by the classifier."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.documents import find_request, find_subject, needs_model

REQUESTS = [
    ("Summarize the lease", "summarize"),
    ("Please summarise the catering contract in three sentences", "summarize"),
    ("What are the key points of the annual report?", "summarize"),
    ("TL;DR the safety policy", "summarize"),
    ("Fasse den Bericht bitte kurz zusammen", "summarize"),
    ("Résume le contrat", "summarize"),
    ("Riassumi il manuale", "summarize"),
    ("Vat de handleiding samen", "summarize"),
    ("总结合同", "summarize"),
    ("What are these documents about?", "overview"),
    ("What topics do these documents cover?", "overview"),
    ("Summarize all documents", "overview"),
    ("Worum geht es in diesen Dokumenten?", "overview"),
    ("De quoi parlent ces documents ?", "overview"),
    ("¿De qué tratan estos documentos?", "overview"),
    ("List all contracts", "list"),
    ("How many documents are in the collection?", "list"),
    ("Show me all documents about backups", "list"),
    ("Liste alle Verträge auf", "list"),
    ("Compare the lease and the catering agreement", "compare"),
    ("Vergleiche Vertrag A mit Vertrag B", "compare"),
    ("What is the difference between the dome and the café?", None),
    ("When does the lease end?", None),
    ("How many minutes does it take?", None),
    ("how many files can I upload", None),
    ("Resume a paused rollout", None),
    ("Who wrote the summary?", None),
    ("Who took the minutes of the meeting of 26 June 2025?", None),
    ("List the steps to create a pod", None),
    ("What is a Pod?", None),
    ("How do I write a Dockerfile?", None),
    ("Write an email to the landlord", None),
]


@pytest.mark.parametrize(("text", "kind"), REQUESTS)
def test_a_request_is_told_from_a_question(text: str, kind: str | None) -> None:
    assert find_request(text) == kind


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Summarize the lease", "lease"),
        ("Summarize the rules about dogs", "rules about dogs"),
        ("What is the lease about?", "lease"),
        ("Summarize the contract with the cleaning company", "contract with the cleaning company"),
        ("What are these documents about?", ""),
        ("Summarize", ""),
        ("Compare the lease and the catering agreement", "lease and the catering agreement"),
        ("List all contracts", "contracts"),
        ("What documents do we have here?", ""),
        ("Show me all documents about backups", "backups"),
    ],
)
def test_the_subject_is_what_does_not_make_the_request(text: str, subject: str) -> None:
    assert find_subject(text) == subject


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("Write an email to the landlord", True),
        ("Translate the lease into German", True),
        ("Schreibe einen Brief an den Vermieter", True),
        ("Who wrote the letter to the landlord?", False),
        ("Summarize the lease", False),
    ],
)
def test_only_writing_and_translating_need_a_model(text: str, needed: bool) -> None:
    assert needs_model(text) is needed


@given(st.text(max_size=400))
def test_any_text_is_read_without_error(text: str) -> None:
    find_request(text)
    assert find_subject(text) in text


def test_a_long_message_is_no_request() -> None:
    assert find_request("Summarize " + "the lease and " * 300) is None


def test_the_help_promises_only_what_is_recognised() -> None:
    table = tomllib.loads(
        resources.files("ragstone.query.understand").joinpath("replies.toml").read_text("utf-8")
    )
    quoted = re.compile(r"[“„«]\s?([^“”„«»]+?)\s?[”“»]")
    for reply in table["help"].values():
        first, *others = quoted.findall(reply)
        assert find_request(first) is None, first
        for text in others:
            assert find_request(text), text
