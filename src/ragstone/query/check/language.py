"""Tell whether two texts are in the same language, so that they can be compared."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from ragstone.index.analyze import detect_languages

# The first word of a letter's Unicode name is its script. Chinese and Japanese share signs.
_SCRIPT_LANGUAGES = {
    "CJK": "Chinese or Japanese", "HIRAGANA": "Chinese or Japanese",
    "KATAKANA": "Chinese or Japanese", "HANGUL": "Korean", "CYRILLIC": "Russian",
    "ARABIC": "Arabic", "DEVANAGARI": "Hindi", "GREEK": "Greek", "HEBREW": "Hebrew",
    "THAI": "Thai",
}  # fmt: skip
_MAX_CHARS = 4_000
_MIN_SHARE = 0.5


@lru_cache(maxsize=4_096)
def guess_languages(text: str) -> tuple[str, ...]:
    """Return the languages that a text may be in, by script or function words; none if unclear.

    A short sentence often fits several: "La gata está en la casa" is Spanish or Catalan, but
    certainly not English.
    """
    text = text[:_MAX_CHARS]
    if not text.isascii():
        letters = [letter for letter in text if letter.isalpha()]
        scripts = Counter(unicodedata.name(letter, "?").split()[0] for letter in letters)
        for script, count in scripts.most_common(1):
            if script in _SCRIPT_LANGUAGES and count >= _MIN_SHARE * len(letters):
                return (_SCRIPT_LANGUAGES[script],)
    return tuple(found.capitalize() for found in detect_languages(text))


def can_compare(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return True when two texts may be in the same language."""
    return not one or not other or bool(set(one) & set(other))
