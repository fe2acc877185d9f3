"""Make true sentences false in one point: a number, a unit, a date, a name, a negation.

The rules are not those of the check: they know nothing of what it can compare. A sentence that a
rule cannot change gives None.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_NUMBER = re.compile(r"(?<![\w.,$€£-])\d{1,3}(?:,\d{3})*(?:\.\d+)?(?![\w,%-]|\.\d)")
_YEAR = re.compile(r"\b(1[0-9]\d\d|20[0-2]\d)\b(?!s)")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_MONTH = re.compile(rf"\b({'|'.join(_MONTHS)})\b(?= \d)")
_UNITS = {
    "km": "miles", "kilometres": "miles", "kilometers": "miles", "miles": "kilometres",
    "metres": "feet", "meters": "feet", "feet": "metres", "inches": "centimetres", "%": "‰",
    "percent": "per mille", "million": "billion", "billion": "million", "thousand": "million",
    "years": "months", "months": "weeks", "weeks": "days", "days": "hours", "hours": "minutes",
    "minutes": "seconds", "dollars": "euros", "euros": "dollars", "tonnes": "kilograms",
    "tons": "pounds", "pounds": "tons", "°C": "°F", "°F": "°C", "kg": "g", "m": "km",
}  # fmt: skip
_UNIT = re.compile(
    r"(?<=\d)(\s?)(" + "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True)) + r")(?!\w)"
)
_NAME = re.compile(r"(?<=[a-z,] )([A-Z][a-z]{3,})(?![\w'’])")
_VERB = re.compile(r"\b(is|was|are|were|has been|have been|can|will|could|must|should)\b (?!not\b)")
_NOT = re.compile(r"\b(is|was|are|were|can|will|could|must|should|do|does|did) not\b")
_NAMES = (
    "Meredith",
    "Castellan",
    "Vilnius",
    "Okonkwo",
    "Harrow",
    "Brandenburg",
    "Tanaka",
    "Delacroix",
    "Ottawa",
    "Lindqvist",
)


def _change_number(sentence: str, chance: random.Random) -> str | None:
    found = [m for m in _NUMBER.finditer(sentence) if not _YEAR.fullmatch(m[0])]
    if not found:
        return None
    match = chance.choice(found)
    value = float(match[0].replace(",", ""))
    other = value * chance.choice((2, 3, 0.5)) + chance.randint(1, 7)
    shown = f"{other:.1f}" if "." in match[0] else f"{int(other):,}"
    return sentence[: match.start()] + shown + sentence[match.end() :]


def _change_unit(sentence: str, chance: random.Random) -> str | None:
    found = list(_UNIT.finditer(sentence))
    if not found:
        return None
    match = chance.choice(found)
    return sentence[: match.start()] + match[1] + _UNITS[match[2]] + sentence[match.end() :]


def _change_date(sentence: str, chance: random.Random) -> str | None:
    found = [*_YEAR.finditer(sentence), *_MONTH.finditer(sentence)]
    if not found:
        return None
    match = chance.choice(found)
    if match[0].isdigit():
        other = str(int(match[0]) + chance.choice((-11, -3, -1, 1, 2, 10)))
    else:
        other = chance.choice([month for month in _MONTHS if month != match[0]])
    return sentence[: match.start()] + other + sentence[match.end() :]


def _change_name(sentence: str, chance: random.Random) -> str | None:
    found = [m for m in _NAME.finditer(sentence) if m[0] not in _MONTHS]
    if not found:
        return None
    match = chance.choice(found)
    return sentence[: match.start()] + chance.choice(_NAMES) + sentence[match.end() :]


def _negate(sentence: str, chance: random.Random) -> str | None:
    if match := _NOT.search(sentence):
        return sentence[: match.start()] + match[1] + sentence[match.end() :]
    match = _VERB.search(sentence)
    return f"{sentence[: match.end()]}not {sentence[match.end() :]}" if match else None


CHANGES: dict[str, Callable[[str, random.Random], str | None]] = {
    "number": _change_number,
    "unit": _change_unit,
    "date": _change_date,
    "name": _change_name,
    "negation": _negate,
}


def shorten_sentence(sentence: str) -> str | None:
    """Cut a sentence at its last comma: still true, no longer verbatim."""
    head, comma, tail = sentence.rpartition(", ")
    if not comma or len(head.split()) < 6 or len(tail.split()) < 3:
        return None
    return f"{head}."


def make_pairs(
    sentences: Sequence[str], kind: str, max_pairs: int, seed: int = 7
) -> list[tuple[str, str]]:
    """Return at max_pairs `max_pairs` pairs of a sentence and its false version."""
    chance = random.Random(seed)
    found = []
    for sentence in sentences:
        other = CHANGES[kind](sentence, chance)
        if other is not None and other != sentence:
            found.append((sentence, other))
        if len(found) == max_pairs:
            break
    return found
