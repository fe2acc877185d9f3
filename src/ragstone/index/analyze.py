"""Text to the terms of keyword search; documents and questions go through the same steps.

Unicode words, case folded, stop words dropped, stemmed by the language of the text; identifiers
such as `readTimeout` or `max_file_mb` are kept whole and also split into their parts.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources

import Stemmer

# Hyphens, dots and apostrophes part words: keeping `time-sharing` whole beside its parts loses
# 0.0035 nDCG@10 of BM25 (`bench/tune_refine.py`).
_WORD = re.compile(r"\w+", re.UNICODE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+", re.UNICODE)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")

_FUNCTION_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in tomllib.loads(
        resources.files(__package__).joinpath("function_words.toml").read_text("utf-8")
    ).items()
}
STOP_WORDS = _FUNCTION_WORDS["english"]

_stemmers = {language: Stemmer.Stemmer(language) for language in _FUNCTION_WORDS}
_LATIN = tuple(language for language in _FUNCTION_WORDS if language != "russian")


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeated as often as they occur."""
    return list(_terms_of_text(text))


# Checks ask for the terms of the same sentences again and again; ingestion never does.
@lru_cache(maxsize=16_384)
def _terms_of_text(text: str) -> tuple[str, ...]:
    words = _words(text)
    return tuple(_terms(words, (_languages(words) or ("english",))[0]))


def terms_of_all(texts: Iterable[str]) -> list[list[str]]:
    """Return the terms of each text."""
    return [list(_terms_of_text(text)) for text in texts]


def query_terms(text: str) -> list[str]:
    """The terms of a question, each once. A question too short to tell its language is stemmed in
    every language that it might be in; the documents hold only the one that fits."""
    words = _words(text)
    return list(
        dict.fromkeys(
            term for language in _languages(words) or _LATIN for term in _terms(words, language)
        )
    )


def language_of(text: str) -> str | None:
    """The language of a text in Latin script, by its function words; None when it is not clear."""
    found = _languages(_words(text))
    return found[0] if len(found) == 1 else None


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def _languages(words: Sequence[str]) -> tuple[str, ...]:
    """The languages whose function words are most frequent; none when there are few: in prose a
    third of the words are such, in code and lists hardly any."""
    counts: Counter[str] = Counter()
    for word in words:
        for language in _known_by(word.casefold()):
            counts[language] += 1
    most = max(counts.values(), default=0)
    if most * 10 < len(words) or not most:
        return ()
    return tuple(language for language in _LATIN if counts[language] == most)


@lru_cache(maxsize=65536)
def _known_by(word: str) -> tuple[str, ...]:
    # A single letter is as likely a variable's name.
    if len(word) < 2:
        return ()
    return tuple(language for language in _LATIN if word in _FUNCTION_WORDS[language])


def _terms(words: Iterable[str], language: str) -> list[str]:
    found: list[str] = []
    for word in words:
        found.extend(_terms_of_word(word, language))
    return found


@lru_cache(maxsize=131072)
def _terms_of_word(word: str, language: str) -> tuple[str, ...]:
    if word.isascii() and word.islower() and word.isalpha():  # most words: nothing to take apart
        stem = _stem(word, language)
        return (stem,) if stem else ()
    if _CJK.search(word):
        return _bigrams(word.casefold())
    if _CYRILLIC.search(word):
        language = "russian"
    parts = _PARTS.findall(word)
    whole = _stem(word.casefold(), language)
    if len(parts) < 2:
        return (whole,) if whole else ()
    return tuple(
        term for term in (whole, *(_stem(part.casefold(), language) for part in parts)) if term
    )


def _stem(word: str, language: str) -> str:
    if word in _FUNCTION_WORDS[language]:
        return ""
    return str(_stemmers[language].stemWord(word))


def _bigrams(word: str) -> tuple[str, ...]:
    if len(word) == 1:
        return (word,)
    return tuple(word[i : i + 2] for i in range(len(word) - 1))
