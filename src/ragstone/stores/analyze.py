"""Text to the terms of keyword search; documents and questions go through the same steps.

Unicode words, case folded, stop words dropped, stemmed by script; identifiers such as
`readTimeout` or `max_file_mb` are kept whole and also split into their parts.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import Stemmer

_WORD = re.compile(r"\w+(?:[.\-'’]\w+)*", re.UNICODE)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+", re.UNICODE)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")

# Lucene's English list with the question words, which say how to answer and not what about.
_STOP_WORDS = """
a an and are as at be but by do does did for from had has have how i if in into is it its me my no
not of on or our she he so such that the their then there these they this those to was we were what
when where which who whom whose why will with would you your can could should shall may about
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_stemmers = {"english": Stemmer.Stemmer("english"), "russian": Stemmer.Stemmer("russian")}


def terms(text: str) -> list[str]:
    """The terms of a text, in order, repeated as often as they occur."""
    found: list[str] = []
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        found.extend(_terms_of_word(match.group()))
    return found


@lru_cache(maxsize=65536)
def _terms_of_word(word: str) -> tuple[str, ...]:
    if _CJK.search(word):
        return _bigrams(word.casefold())
    parts = _PARTS.findall(word)
    whole = _stem(word.casefold().replace("’", "'"))
    if len(parts) < 2:
        return (whole,) if whole else ()
    return tuple(term for term in (whole, *(_stem(part.casefold()) for part in parts)) if term)


def _stem(word: str) -> str:
    if word in STOP_WORDS:
        return ""
    language = "russian" if _CYRILLIC.search(word) else "english"
    return str(_stemmers[language].stemWord(word))


def _bigrams(word: str) -> tuple[str, ...]:
    if len(word) == 1:
        return (word,)
    return tuple(word[i : i + 2] for i in range(len(word) - 1))
