"""Find the names of a text: capitalised words, and words with digits or inner capitals."""

from __future__ import annotations

import re
from functools import lru_cache

from ragstone.query.check.values import MONTHS

_CAPITALISED = re.compile(r"(?<![\w’'])[^\W\d_]*[A-ZÀ-ÖØ-Þ][\w’'&-]*")
_SENTENCE_END, _OPENING = frozenset(".!?:;"), frozenset('"“„(•*-')
_NOT_NAMES = frozenset(
    """
    the a an this that these those it its he she they we i in on at by for from to of and or
    but if as with when where who what which how why after before during while since until
    although however there here all some many most no not each every both one two first see
    also note his her their our your mr mrs ms dr according under between because so then
    neither nor though unlike once only just even every nobody everyone someone anyone such if
    """.split()  # noqa: SIM905  a list of words reads better as text
)


def _is_sentence_start(text: str, place: int) -> bool:
    """Return True after the end of a sentence, a line break, a bullet or an opening mark."""
    end = place
    while end and text[end - 1].isspace():
        end -= 1
        if text[end] == "\n":
            return True
    if not end:
        return not place
    return text[end - 1] in _OPENING or (end < place and text[end - 1] in _SENTENCE_END)


@lru_cache(maxsize=8192)
def find_names(text: str, known: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return capitalised words, and words with digits or inner capitals.

    The first word of a sentence counts only when it is a `known` name or another name follows.
    """
    found = []
    for match in _CAPITALISED.finditer(text):
        word = match[0].rstrip("’'-")
        if word.endswith(("'s", "’s")):
            word = word[:-2]
        first = _is_sentence_start(text, match.start())
        follows = _CAPITALISED.match(text, match.end() + 1) is not None
        if word.casefold() in _NOT_NAMES or word.casefold() in MONTHS or len(word) < 2:
            continue
        plain = not any(c.isupper() or c.isdigit() for c in word[1:])
        if first and not follows and plain and word not in known:
            continue
        found.append(word)
    return tuple(found)
