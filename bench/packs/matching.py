"""Compare an answer with the strings that a right answer must and must not contain.

answer text, `must`, `must_not` → what is missing, what is forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DASHES = dict.fromkeys(map(ord, "‐‑‒–—−"), "-")
_QUOTES = {ord("“"): '"', ord("”"): '"', ord("‘"): "'", ord("’"): "'", 0xA0: " ", 0x202F: " "}
_EMPHASIS = re.compile(r"[`*|]|(?<![^\W_])_+|_+(?![^\W_])")
_SPACE = re.compile(r"\s+")


def normalize_text(text: str) -> str:
    """Lower the case, fold white space, drop Markdown marks, unify dashes and quotes."""
    plain = text.translate(_DASHES | _QUOTES)
    return _SPACE.sub(" ", _EMPHASIS.sub(" ", plain)).replace(" ,", ",").strip().casefold()


def contains_phrase(text: str, phrase: str) -> bool:
    """Tell whether the phrase stands in the text as whole words and whole numbers.

    A bare substring would find "3" in "13" and "no" in "node". Words may touch digits,
    because tables whose cells ran together ("tool530 tokens") are quoted as they stand.
    """
    wanted = normalize_text(phrase)
    if not wanted:
        return False
    # "7,70%" is two cells of a CSV line, "1,700" is one number.
    group = r"(?<!\d,)" if re.match(r"\d{3}(?!\d)", wanted) else ""
    before = _choose_guard(wanted[0], r"(?<![^\W\d_])", r"(?<!\d)(?<!\d\.)" + group)
    after = _choose_guard(wanted[-1], r"(?![^\W\d_])", r"(?!\d)(?!\.\d)(?!,\d{3}(?!\d))")
    return re.search(before + re.escape(wanted) + after, normalize_text(text)) is not None


def find_missing(answer: str, must: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Return the groups of alternatives of which none occurs in the answer."""
    return [group for group in must if not any(contains_phrase(answer, one) for one in group)]


def find_forbidden(answer: str, must_not: Iterable[str]) -> list[str]:
    """Return the strings that occur in the answer though they must not."""
    return [one for one in must_not if contains_phrase(answer, one)]


def _choose_guard(character: str, for_letter: str, for_digit: str) -> str:
    if character.isdigit():
        return for_digit
    return for_letter if character.isalpha() else ""
