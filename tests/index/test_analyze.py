"""Test the terms by which a question finds a document."""

from __future__ import annotations

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from ragstone.index.analyze import (
    FUNCTION_WORDS,
    LANGUAGES,
    choose_language,
    detect_language,
    extract_query_terms,
    extract_terms,
)


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


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Überraschung", ["überraschung"]),
        ("दक्षिण भारत", ["दक्षिण", "भारत"]),
        ("प्रतिस्पर्धात्मकता", ["प्रतिस्पर्धात्मक"]),
        ("مدرسة", ["مدرس"]),
        ("ประเทศ", ["ปร", "ระ", "ะเ", "เท", "ทศ"]),
        ("ที่นี่", ["ที่นี่"]),  # a tone mark stays with its letter
        ("Kündi\u00adgung", ["kündigung"]),
        ("iPhone手机壳", ["iphon", "phone", "手机", "机壳"]),
        ("größeÄndern", ["grösseändern", "grösse", "ändern"]),
    ],
)
def test_words_end_where_unicode_ends_them(text: str, terms: list[str]) -> None:
    assert extract_terms(text) == terms


def test_an_elided_article_is_no_term() -> None:
    assert extract_terms("L'école est dans la ville et l’hôtel aussi.", "french")[:1] == ["écol"]
    assert "l" not in extract_terms("Dove si trova l'albergo della città?")


def test_every_stemmer_of_snowball_has_a_language() -> None:
    # Both are older variants of another one in the list.
    algorithms = set(Stemmer.algorithms()) - {"porter", "dutch_porter"}
    assert algorithms <= set(LANGUAGES.values()) == set(FUNCTION_WORDS)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Rezultatele au fost publicate după ce comisia a votat pentru lege.", "romanian"),
        ("Bu şehir nerede kuruldu ve kim tarafından yönetildi?", "turkish"),
        ("Πόσοι άνθρωποι ζουν στην πόλη και ποιος είναι ο δήμαρχος;", "greek"),
        ("كم عدد الذين يعيشون في المدينة؟", "arabic"),
        ("Có bao nhiêu người sống ở thành phố này?", "vietnamese"),
        ("Hur många bor i staden och vem är borgmästare?", "swedish"),
        ("Сколько людей живёт в этом городе?", "russian"),
        ("इस शहर में कितने लोग रहते हैं?", "hindi"),
    ],
)
def test_the_function_words_tell_the_language(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_a_passage_without_function_words_goes_with_its_document() -> None:
    table = "Kündigungsfristen | Mietwohnungen | 3 Monate"
    assert choose_language(table, "de") == "german"
    assert choose_language(table, None) == "english"
    assert choose_language("It is stated in the contract that the rent is due.", "de") == "english"


def test_a_question_is_stemmed_as_the_documents_are() -> None:
    german = extract_terms("Kündigungsfristen | Mietwohnungen", "german")
    assert set(german) <= set(extract_query_terms("Kündigungsfristen Mietwohnungen", ["german"]))
    # A question in a language that the documents are not in.
    assert extract_query_terms("Who founded the Panthers?", ["german"]) == ["founded", "panth"]


@given(st.text(max_size=200))
def test_a_question_finds_a_document_with_its_own_words(text: str) -> None:
    assert set(extract_terms(text)) <= set(extract_query_terms(text))


@given(st.text(max_size=200))
def test_terms_hold_no_white_space_and_are_never_empty(text: str) -> None:
    assert all(term and not term.isspace() for term in extract_terms(text))


@pytest.mark.parametrize(
    "question",
    [
        "Wann bekomme ich mein Gehalt?",
        "Wann beginnt die Arbeitszeit?",
        "Wann läuft mein Resturlaub ab?",
        "Was kostet die elektrische Pumpe?",
    ],
)
def test_the_words_of_a_short_question_tell_its_language(question: str) -> None:
    assert detect_language(question) == "german"
