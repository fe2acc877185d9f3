"""Convert text to the terms of keyword search, the same for documents and questions.

Terms are Unicode words, case-folded, without stop words, stemmed in the language of the text.
Identifiers such as `readTimeout` or `max_file_mb` are kept whole and also split into parts.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import resources

import Stemmer

# Hyphens, dots and apostrophes separate words: also keeping `time-sharing` whole loses 0.0035
# nDCG@10 of BM25 (`bench/tune_refine.py`).
_WORD = re.compile(r"\w+", re.UNICODE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+", re.UNICODE)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")

FUNCTION_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in tomllib.loads(
        resources.files(__package__).joinpath("function_words.toml").read_text("utf-8")
    ).items()
}
STOP_WORDS = FUNCTION_WORDS["english"]

_stemmers = {language: Stemmer.Stemmer(language) for language in FUNCTION_WORDS}
_LATIN = tuple(language for language in FUNCTION_WORDS if language != "russian")


def extract_terms(text: str) -> list[str]:
    """Return the terms of a text, in order, repeated as often as they occur."""
    return list(_extract_terms_cached(text))


# The checks need the terms of the same sentences many times; ingestion never does.
@lru_cache(maxsize=16_384)
def _extract_terms_cached(text: str) -> tuple[str, ...]:
    words = _split_words(text)
    return tuple(_stem_words(words, (_find_languages(words) or ("english",))[0]))


def extract_query_terms(text: str) -> list[str]:
    """Return the distinct terms of a question.

    If the language of a short question is unclear, it is stemmed in every possible language; the
    documents contain only the terms of the right one.
    """
    words = _split_words(text)
    languages = _find_languages(words) or _LATIN
    return list(dict.fromkeys(term for one in languages for term in _stem_words(words, one)))


def detect_language(text: str) -> str | None:
    """Detect the language of a text in Latin script by its function words; None if unclear."""
    found = _find_languages(_split_words(text))
    return found[0] if len(found) == 1 else None


def _split_words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def _find_languages(words: Sequence[str]) -> tuple[str, ...]:
    """Return the languages with the most function words among the words; none if there are few.

    In prose a third of the words are function words, in code and lists hardly any.
    """
    counts = Counter(one for word in words for one in _languages_of_word(word.casefold()))
    highest = max(counts.values(), default=0)
    if highest * 10 < len(words) or not highest:
        return ()
    return tuple(language for language in _LATIN if counts[language] == highest)


@lru_cache(maxsize=65536)
def _languages_of_word(word: str) -> tuple[str, ...]:
    # A single letter may as well be the name of a variable.
    if len(word) < 2:
        return ()
    return tuple(language for language in _LATIN if word in FUNCTION_WORDS[language])


def _stem_words(words: Iterable[str], language: str) -> Iterator[str]:
    for word in words:
        yield from _terms_of_word(word, language)


@lru_cache(maxsize=131072)
def _terms_of_word(word: str, language: str) -> tuple[str, ...]:
    if word.isascii() and word.islower() and word.isalpha():  # most words: only one part
        parts: list[str] = []
    elif _CJK.search(word):
        word = word.casefold()
        return tuple(word[i : i + 2] for i in range(max(1, len(word) - 1)))
    else:
        language = "russian" if _CYRILLIC.search(word) else language
        parts = _PARTS.findall(word)
    words = (word, *(parts if len(parts) > 1 else ()))
    return tuple(term for one in words if (term := _stem(one.casefold(), language)))


def _stem(word: str, language: str) -> str:
    """Return the stem of a word; empty for a stop word."""
    if word in FUNCTION_WORDS[language]:
        return ""
    return str(_stemmers[language].stemWord(word))
