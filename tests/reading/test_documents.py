"""Requests about documents as a whole are told from questions by their form."""

from __future__ import annotations

import re
import tomllib
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.documents import (
    find_document_kinds,
    match_comparison,
    match_request,
    needs_model,
)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Summarize the lease", "the lease"),
        ("Please summarise the catering contract in three sentences", "the catering contract"),
        ("Could you sum up chapter two for me", "chapter two"),
        ("Give me a short overview of garbage collection", "garbage collection"),
        ("What are the key points of the annual report?", "the annual report"),
        ("TL;DR the safety policy", "the safety policy"),
        ("What is the lease about?", "the lease"),
        ("Fasse den Bericht bitte kurz zusammen", "den Bericht"),
        ("Zusammenfassung der Hausordnung", "Hausordnung"),
        ("Résume le contrat", "le contrat"),
        ("Resume el contrato", "el contrato"),
        ("Riassumi il manuale", "il manuale"),
        ("Vat de handleiding samen", "de handleiding"),
        ("Обобщи договор", "договор"),
        ("总结合同", "合同"),
    ],
)
def test_a_summary_names_its_subject(text: str, subject: str) -> None:
    request = match_request(text)
    assert request is not None
    assert (request.kind, request.subject) == ("summary", subject)


@pytest.mark.parametrize(
    "text",
    [
        "What are these documents about?",
        "What topics do these documents cover?",
        "what's in this collection",
        "Summarize all documents",
        "Give me an overview of my files",
        "Worum geht es in diesen Dokumenten?",
        "De quoi parlent ces documents ?",
        "¿De qué tratan estos documentos?",
        "Di cosa trattano questi documenti?",
        "Waar gaan deze documenten over?",
        "О чём эти документы?",
        "这些文件讲什么？",
    ],
)
def test_an_overview_names_no_document(text: str) -> None:
    request = match_request(text)
    assert request is not None
    assert request.kind == "overview"


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("List all contracts", "contracts"),
        ("Which manuals do we have?", "manuals"),
        ("how many policies are there", "policies"),
        ("How many documents are in the collection?", "documents"),
        ("Show me all documents about backups", "documents about backups"),
        ("Liste alle Verträge auf", "Verträge"),
        ("Welche Richtlinien gibt es?", "Richtlinien"),
        ("¿Cuántos contratos hay?", "contratos"),
        ("列出所有合同", "合同"),
    ],
)
def test_a_list_of_documents_needs_a_kind_of_document(text: str, subject: str) -> None:
    request = match_request(text.lstrip("¿"))
    assert request is not None
    assert (request.kind, request.subject) == ("catalog", subject)


@pytest.mark.parametrize(
    "text",
    [
        "When does the lease end?",
        "Which Service types are there?",
        "How many pods are there?",
        "How many minutes does it take?",
        "how many files can I upload",
        "Resume a paused rollout",
        "Who wrote the summary?",
        "What does the overview page say about nodes?",
        "List the steps to create a pod",
        "Show the logs of a pod",
        "What is a Pod?",
        "What are the main components of a cluster?",
        "How do I write a Dockerfile?",
        "Name some new features of Outlook 2003",
        "Enumera los autores del artículo.",
    ],
)
def test_a_question_is_not_taken_for_a_request(text: str) -> None:
    assert match_request(text) is None


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("Write an email to the landlord", True),
        ("Translate the lease into German", True),
        ("Can you rephrase this more politely?", True),
        ("Schreibe einen Brief an den Vermieter", True),
        ("Who wrote the letter to the landlord?", False),
        ("How is an email translated?", False),
    ],
)
def test_only_writing_and_translating_need_a_model(text: str, needed: bool) -> None:
    assert needs_model(text) is needed


def test_kinds_of_documents_are_known_in_several_languages() -> None:
    kinds = {find_document_kinds(word) for word in ("contracts", "Verträge", "contratos", "合同")}
    assert kinds == {("contract",)}


@given(st.text(max_size=400))
def test_any_text_is_read_without_error(text: str) -> None:
    request = match_request(text)
    assert request is None or request.kind in ("summary", "overview", "catalog", "compose")


def test_a_long_message_is_no_request() -> None:
    assert match_request("Summarize " + "the lease and " * 3_000) is None


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("Compare the lease and the catering agreement", ("the lease", "the catering agreement")),
        ("Please compare a.pdf with b.pdf", ("a.pdf", "b.pdf")),
        ("Vergleiche Vertrag A mit Vertrag B", ("Vertrag A", "Vertrag B")),
        ("Compara el contrato A con el contrato B", ("el contrato A", "el contrato B")),
        ("Compare Secrets and ConfigMaps", None),
        ("How do Deployments and Jobs compare?", None),
    ],
)
def test_a_comparison_names_documents(text: str, sides: tuple[str, str] | None) -> None:
    assert match_comparison(text) == sides


def test_the_help_promises_only_what_is_recognised() -> None:
    table = tomllib.loads(
        resources.files("ragstone.query.understand").joinpath("replies.toml").read_text("utf-8")
    )
    quoted = re.compile(r"[“„«]\s?([^“”„«»]+?)\s?[”“»]")
    for reply in table["help"].values():
        first, *others = quoted.findall(reply)
        assert match_request(first) is None, first
        assert len(others) in (0, 4)  # none where such requests are not recognised
        for text in others:
            assert match_request(text) or match_comparison(text), text
