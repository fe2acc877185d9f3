"""Test the terms by which a question finds a document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.index.analyze import extract_query_terms, extract_terms


def test_an_identifier_is_found_whole_and_by_its_parts() -> None:
    assert extract_terms("readTimeout") == ["readtimeout", "read", "timeout"]
    assert set(extract_terms("max_file_mb")) >= {"file", "mb"}


def test_a_hyphen_parts_words() -> None:
    assert extract_terms("time-sharing systems") == ["time", "share", "system"]


@pytest.mark.parametrize(
    ("question", "document"),
    [
        (
            "Wie lang sind die Kündigungsfristen?",
            "Die Kündigungsfrist ist in dem Vertrag genannt.",
        ),
        ("¿Cuáles son los contratos?", "El contrato fue firmado por las dos partes."),
        ("Какие договоры подписаны?", "Этот договор подписан директором."),
        ("Which contracts were signed?", "The contract was signed by both parties."),
    ],
)
def test_a_plural_meets_its_singular_in_its_own_language(question: str, document: str) -> None:
    assert set(extract_query_terms(question)) & set(extract_terms(document))


def test_a_question_without_function_words_is_stemmed_in_every_language() -> None:
    document = extract_terms(
        "Die Kündigungsfristen sind in dem Vertrag genannt und nicht verhandelbar."
    )
    assert set(extract_query_terms("Kündigungsfristen Mietwohnung")) & set(document)


def test_code_is_not_taken_for_a_language() -> None:
    code = "fn se(e: u8) -> u8 { let es = serde::de::from(e); match es { Some(y) => y, _ => 0 } }"
    assert "serd" in extract_terms(code)


def test_chinese_words_are_pairs_of_characters() -> None:
    assert extract_terms("通知期限") == ["通知", "知期", "期限"]


@given(st.text(max_size=200))
def test_a_question_finds_a_document_with_its_own_words(text: str) -> None:
    assert set(extract_terms(text)) <= set(extract_query_terms(text))


@given(st.text(max_size=200))
def test_terms_hold_no_white_space_and_are_never_empty(text: str) -> None:
    assert all(term and not term.isspace() for term in extract_terms(text))
