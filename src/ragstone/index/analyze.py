"""Convert text to the terms of keyword search, the same for documents and questions.

Terms are Unicode words, case-folded, without stop words, stemmed in the language of the text.
Scripts without spaces (Chinese, Japanese, Thai, …) are cut into overlapping pairs of characters.
Identifiers such as `readTimeout` or `max_file_mb` are kept whole and also split into parts.
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

from ragstone.text import TextMemo

# A higher number makes every keyword index be built again: its terms would not meet a question's.
ANALYZER_VERSION = 2

# `re` does not count combining marks to a word: it would cut Hindi at every vowel sign.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x10000)) if unicodedata.category(c)[0] == "M")
# Words are not set apart by spaces, or (Hangul) carry their particles.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # kana, Han
    "\uac00-\ud7af\U00020000-\U0003ffff"
)
# Hyphens, dots and apostrophes separate words: also keeping `time-sharing` whole loses 0.0035
# nDCG@10 of BM25 (`bench/tune_refine.py`). An elided article (l', dell') is a stop word.
_WORD = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{re.escape(_MARKS)}])+")
_ASCII_WORD = re.compile(r"\w+")
_CLUSTER = re.compile(rf".[{re.escape(_MARKS)}]*", re.DOTALL)
_FIRST_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]+")
# Soft hyphens, and the joiners of Persian and Indic scripts.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
# The parts of an identifier, by the shape of its characters: A upper, a other letters, 0 digits.
_PARTS = re.compile(r"A+(?!a)|A?a+|0+")

FUNCTION_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in tomllib.loads(
        resources.files(__package__).joinpath("function_words.toml").read_text("utf-8")
    ).items()
}
STOP_WORDS = FUNCTION_WORDS["english"]

# The languages of ISO 639-1 codes; one that has no stemmer is not here.
LANGUAGES = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque",
    "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "nb": "norwegian", "ne": "nepali", "nl": "dutch", "nn": "norwegian", "no": "norwegian",
    "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "st": "sesotho", "sv": "swedish", "ta": "tamil", "tr": "turkish", "vi": "vietnamese",
    "yi": "yiddish",
}  # fmt: skip
# Words of these scripts are stemmed in the first language of their row, unless the text is in
# another one of it. Every other script is taken for Latin.
_SCRIPTS = (
    ("\u0370", "\u03ff", ("greek",)),
    ("\u0400", "\u052f", ("russian", "serbian")),
    ("\u0530", "\u058f", ("armenian",)),
    ("\u0590", "\u05ff", ("yiddish",)),
    ("\u0600", "\u077f", ("arabic", "persian")),
    ("\u0900", "\u097f", ("hindi", "nepali")),
    ("\u0b80", "\u0bff", ("tamil",)),
    ("\u1f00", "\u1fff", ("greek",)),
)
_UNSPACED_LANGUAGES = {
    "thai": re.compile("[\u0e00-\u0e7f]+"),
    "korean": re.compile("[\uac00-\ud7af]+"),
    "chinese": re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"),
}
_KANA = re.compile("[\u3040-\u30ff]")
_LATIN = tuple(
    language
    for language in FUNCTION_WORDS
    if language == "serbian" or not any(language in row[2] for row in _SCRIPTS)
)
# A short question is stemmed in all of these if nothing tells its language.
_COMMON = ("english", "german", "spanish", "french", "italian", "portuguese", "dutch")
_MAX_QUERY_LANGUAGES = 8

_stemmers = {
    language: Stemmer.Stemmer(language) for language in FUNCTION_WORDS if language != "vietnamese"
}


def extract_terms(text: str, language: str | None = None) -> list[str]:
    """Return the terms of a text, in order, repeated as often as they occur.

    `language` is a name as `choose_language` returns it; without one the words decide.
    """
    if language is None:
        return list(terms_memo[text])
    return _stem_words(_split_words(text), language)


def _extract_terms(text: str) -> tuple[str, ...]:
    words = _split_words(text)
    return tuple(_stem_words(words, (_find_languages(words) or ("english",))[0]))


# The checks need the terms of the same sentences many times.
terms_memo = TextMemo(_extract_terms, max_entries=16_384)


def extract_query_terms(text: str, languages: Sequence[str] = ()) -> list[str]:
    """Return the distinct terms of a question that searches documents in `languages`.

    If its own language is unclear or is not one of theirs, it is stemmed in every one of them; the
    documents contain only the terms of the right one.
    """
    words = _split_words(text)
    own = _find_languages(words)
    shared = [one for one in own if one in languages]
    chosen = shared or languages[:_MAX_QUERY_LANGUAGES] or own or _COMMON
    if languages and not shared:
        words = [
            word
            for word in words
            if not set(own) & set(_LANGUAGES_OF_WORD.get(word.casefold(), ()))
        ]
    return list(dict.fromkeys(term for one in chosen for term in _stem_words(words, one)))


def choose_language(text: str, code: object) -> str:
    """Return the language to stem a passage in, given the code of its document's language.

    Function words decide where they are clear, so that each part of a mixed document is stemmed
    in its own language; a table or a list goes with its document.
    """
    found = _find_languages(_split_words(text))
    if len(found) == 1:
        return found[0]
    named = LANGUAGES.get(str(code))
    if named and (not found or named in found):
        return named
    return found[0] if found else "english"


def detect_language(text: str) -> str | None:
    """Detect the language of a text by its script or its function words; None if unclear."""
    found = detect_languages(text)
    return found[0] if len(found) == 1 else None


def detect_languages(text: str) -> tuple[str, ...]:
    """Return the languages that a text may be in, as far as its words tell; none if unclear."""
    return _languages_memo[text]


def _detect_languages(text: str) -> tuple[str, ...]:
    words = _split_words(text)
    for language, characters in () if text.isascii() else _UNSPACED_LANGUAGES.items():
        if 2 * sum(map(len, characters.findall(text))) > sum(map(len, words)):
            is_japanese = language == "chinese" and _KANA.search(text)
            return ("japanese",) if is_japanese else (language,)
    found = _find_languages(words)
    is_question = "?" in text or "？" in text or (words[:1] and _asks(words[0]))
    if is_question and len(found) != 1 and len(words) <= _SHORT_QUESTION:
        asked = {_LANGUAGE_OF_QUESTION[w.casefold()] for w in words if _asks(w)}
        if len(asked) == 1 and "english" not in found:
            return tuple(asked)
    return found if "english" in found or any(_is_clear(words, one) for one in found) else ()


def _asks(word: str) -> bool:
    return word.casefold() in _LANGUAGE_OF_QUESTION


def _is_clear(words: Sequence[str], language: str) -> bool:
    """Return True when words show a language that no English sentence has by chance.

    "Old batteries die in winter" has two function words of German, and both are English words.
    """
    function_words = {word.casefold() for word in words} & FUNCTION_WORDS[language]
    clear = function_words - _ENGLISH_TOO
    if len(function_words) == 1:
        return bool(clear) and len(words) <= _SHORT_SENTENCE
    return bool(clear) or len(function_words) >= _ENOUGH_DOUBTFUL


_languages_memo = TextMemo(_detect_languages, max_entries=4_096)


def count_words(text: str) -> int:
    """Count the words of a text; where no spaces separate them, one for two characters."""
    count = len(text.split())
    return (
        count
        if text.isascii()
        else count + sum(len(run) // 2 for run in _UNSPACED_RUN.findall(text))
    )


def get_language_name(code: str) -> str:
    """Return the name of a language by its ISO 639-1 code; the code itself if it has none here."""
    unspaced = {"ja": "japanese", "ko": "korean", "th": "thai", "zh": "chinese"}
    return {**LANGUAGES, **unspaced}.get(code, code)


def is_language_read(embedder: object, text: str) -> bool:
    """Return False when a text is in a language that an embedder was not trained on.

    An embedder says in `languages` what it reads; one that does not is taken to read everything.
    """
    languages = getattr(embedder, "languages", None)
    found = detect_language(text) if languages else None
    return found is None or languages is None or found in languages


def _split_words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text)
    return _WORD.findall(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def _find_languages(words: Sequence[str]) -> tuple[str, ...]:
    """Return the languages with the most function words among the words; none if there are few.

    In prose a third of the words are function words, in code and lists hardly any.
    """
    counts: dict[str, int] = {}
    for word, count in Counter(map(str.casefold, words)).items():
        for language in _LANGUAGES_OF_WORD.get(word, ()):
            counts[language] = counts.get(language, 0) + count
    highest = max(counts.values(), default=0)
    if highest * 10 < len(words) or not highest:
        return ()
    return tuple([one for one in FUNCTION_WORDS if counts.get(one) == highest])


_SHORT_QUESTION = 16
_LANGUAGE_OF_QUESTION = {
    word: language
    for language, words in tomllib.loads(
        resources.files(__package__).joinpath("question_words.toml").read_text("utf-8")
    ).items()
    for word in words.split()
}
# Function words of other languages that are also English words, names or parts of names.
_ENGLISH_TOO = FUNCTION_WORDS["english"].union(
    resources.files(__package__).joinpath("also_english.txt").read_text("utf-8").split()
)
# So many of them are enough without a clear one.
_ENOUGH_DOUBTFUL = 3
# One function word tells the language of a sentence with so many words, but not of a longer one.
_SHORT_SENTENCE = 6


def _list_languages_of_words() -> dict[str, tuple[str, ...]]:
    """Return the languages in which each function word is one."""
    found: dict[str, list[str]] = {}
    for language, words in FUNCTION_WORDS.items():
        for word in words:
            # A single letter may as well be the name of a variable.
            if len(word) > 1:
                found.setdefault(word, []).append(language)
    return {word: tuple(languages) for word, languages in found.items()}


_LANGUAGES_OF_WORD = _list_languages_of_words()


def _stem_words(words: Iterable[str], language: str) -> list[str]:
    return [term for word in words for term in _terms_of_word(word, language)]


@lru_cache(maxsize=131072)
def _terms_of_word(word: str, language: str) -> tuple[str, ...]:
    if word.isascii() and word.islower() and word.isalpha():  # most words: only one part
        parts: list[str] = []
    elif _FIRST_UNSPACED.match(word):
        return _pair_characters(word.casefold())
    else:
        parts = _split_identifier(word)
    language = _language_of_script(word, language)
    words = (word, *(parts if len(parts) > 1 else ()))
    return tuple(term for one in words if (term := _stem(_fold(one), language)))


def _pair_characters(word: str) -> tuple[str, ...]:
    """Return every two neighbouring characters, each with its vowel and tone marks."""
    clusters = _CLUSTER.findall(word)
    return tuple("".join(clusters[i : i + 2]) for i in range(max(1, len(clusters) - 1)))


def _split_identifier(word: str) -> list[str]:
    shape = "".join(
        "A" if c.isupper() else "0" if c.isdigit() else "_" if c == "_" else "a" for c in word
    )
    return [word[found.start() : found.end()] for found in _PARTS.finditer(shape)]


def _language_of_script(word: str, language: str) -> str:
    """Return `language` if a word's script can be its own, else the usual one of that script."""
    first = word.lstrip("_0123456789")[:1]
    if first > "\u036f":
        for start, end, languages in _SCRIPTS:
            if start <= first <= end:
                return language if language in languages else languages[0]
    return language if language in _LATIN else "english"


def _fold(word: str) -> str:
    """Fold the case; the Turkish İ leaves a dot behind, which ı never had."""
    return word.casefold().replace("i\u0307", "i")


def _stem(word: str, language: str) -> str:
    """Return the stem of a word; empty for a stop word."""
    if word in FUNCTION_WORDS[language]:
        return ""
    stemmer = _stemmers.get(language)
    return word if stemmer is None else str(stemmer.stemWord(word))
