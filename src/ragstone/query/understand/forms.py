"""Recognise the form of a message: a continuation, a correction, a wish for more, a bare "why?".

message → whether it has a form, or what is left of it without that. Only words are compared.
"""

from __future__ import annotations

import re

from ragstone.query.understand.nouns import (
    DETERMINERS,
    PREPOSITIONS,
    PRONOUNS,
    QUESTION_WORDS,
    load_words,
)
from ragstone.query.understand.small_talk import strip_small_talk
from ragstone.text import normalize_words


def _join_phrases(*names: str) -> str:
    """Return a pattern for any of the phrases of these lists, the longest first."""
    phrases = [phrase for name in names for phrase in load_words()[name]]
    return "|".join(sorted(map(re.escape, phrases), key=len, reverse=True))


CONTINUES = re.compile(
    rf"^[¿¡\s]*(?:(?:{_join_phrases('continues')})(?:\s+|,\s*)|那么?(?=\S))+", re.IGNORECASE
)
MORE = re.compile(
    rf"(?:(?:{_join_phrases('polite')}) )*(?:{_join_phrases('more')})"
    rf"(?: (?:{_join_phrases('more_about')}))?(?: (?:{_join_phrases('polite')}))*"
)
_WHY = re.compile(rf"(?:(?:{_join_phrases('continues')}) )?(?:{_join_phrases('why')})")
_CORRECTS = re.compile(
    rf"^(?:(?:wrong \w+|{_join_phrases('corrects')})(?:\s*[,.:;!–-]+\s*|\s+|$))+", re.IGNORECASE
)
# "No, the other contract": the last question, but not from the same document.
OTHER_DOCUMENT = re.compile(
    rf"(?:(?:{_join_phrases('continues', 'corrects')}) )*(?:(?:in|for|from) )?"
    r"(?:the other|das andere|den anderen|die andere|der andere|el otro|la otra|lautre|laltro|"
    r"o outro|a outra|de andere|het andere|другой|другая|drugi|druga) (?!one\b)\w+(?: please)?"
)
# "For the rent, I mean"
_MEANT_LAST = re.compile(rf",\s*(?:{_join_phrases('corrects_last')})\s*[.!?]*$", re.IGNORECASE)
RETURNS = re.compile(
    rf"^(?:(?:{_join_phrases('continues')})\s+)?(?:{_join_phrases('returns')}),?\s+"
    r"(?P<topic>[^:,;–—]{2,60}?)\s*(?:[:;,–—]|\s-\s)\s*(?P<rest>.{3,})$"
    rf"|^(?P<topic2>[^:,;?]{{2,60}}?),? (?:{_join_phrases('returns_last')})"
    r"\s*[:;,–—]\s*(?P<rest2>.{3,})$",
    re.IGNORECASE,
)
ORDINALS: tuple[tuple[int, str], ...] = (
    (0, r"first|former|erste[nrs]?|primer[oa]|premi(?:er|ère)|prim[oa]|primeir[oa]|eerste"),
    (1, r"second|other|zweite[nrs]?|andere[nrs]?|segund[oa]|otr[oa]|deuxième|second[oa]|autre|"
        r"altr[oa]|outr[oa]|tweede|ander[e]?"),
    (2, r"third|dritte[nrs]?|tercer[oa]|troisième|terz[oa]|terceir[oa]|derde"),
    (3, r"fourth|vierte[nrs]?|cuart[oa]|quatrième|quart[oa]|vierde"),
    (-1, r"last|latter|letzte[nrs]?|últim[oa]|derni(?:er|ère)|ultim[oa]|laatste"),
)  # fmt: skip
ORDINAL = re.compile(
    r"\b(?:the|der|die|das|den|dem|el|la|le|il|lo|o|a|de|het)\s+(?:"
    + "|".join(f"(?P<n{place % 5}>{words})" for place, words in ORDINALS)
    + r")(?:\s+(?:one|item|option|point|ones?))?(?=\s*[?.!,;]|\s*$|\s+(?!\w+s?\b\s*of))",
    re.IGNORECASE,
)


def strip_correction(text: str) -> tuple[str, bool]:
    """Return what is left of "No, I meant the other one", and whether anything was corrected."""
    bare = _CORRECTS.sub("", text.strip())
    bare = _MEANT_LAST.sub("", bare).strip(" .!,;")
    if not bare:
        return text, False
    return bare, bare != _MEANT_LAST.sub("", text.strip()).strip(" .!,;") or bool(
        _MEANT_LAST.search(text.strip())
    )


def is_bare_why(text: str) -> bool:
    return bool(_WHY.fullmatch(" ".join(normalize_words(strip_small_talk(text)))))


def refers_back(text: str) -> bool:
    """Return True when the form of a message says that it belongs to the one before."""
    bare, corrects = strip_correction(strip_small_talk(text))
    words = normalize_words(bare)
    starts = bool(words) and words[0] in (DETERMINERS - PRONOUNS) | PREPOSITIONS | QUESTION_WORDS
    return corrects or starts or bool(CONTINUES.match(bare) or ORDINAL.search(bare))
