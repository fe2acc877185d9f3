"""Recognise values that a reader computes from two of the evidence: sums, differences, shares.

claim, value and evidence → whether the value may be right although it stands nowhere. Whether it is
said of the right things is left to the verifier.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from ragstone.index.analyze import extract_terms
from ragstone.query.check.values import Date, Quantity

_FACTOR = re.compile(r"[\s-]?(?:times|fold)\b", re.IGNORECASE)
# A sum or a difference is announced: "a total of 70", "grew by 10", "40 more", "5 km longer".
_TOTAL = re.compile(
    r"\b(?:difference|differ(?:s|ed)?|total|altogether|together|combined|sum|in all|remain\w*)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:(?:increas|decreas|rais|reduc|declin|exceed|lower|differ|outnumber)\w*|rise[ns]?|rose|"
    r"gr[eo]wn?|fall(?:s|en)?|fell|drop(?:s|ped)?|shr[aiu]nk|cut)\b[^.;]*\b(?P<cue>by)\s+"
    r"(?:(?:about|around|roughly|nearly|almost|some|only|over)\s+)?$"
    r"|\b(?P<extra>increase of|decrease of|further|additional|extra|another)\s+$",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"\s*(?:[^\W\d]+\s+)?(?P<cue>more|less|fewer|further|longer|shorter|later|earlier|older|younger|"
    r"higher|lower|larger|smaller|cheaper|dearer)\b",
    re.IGNORECASE,
)
# A share is announced too: "25 % of the members", "half the members".
_SHARE = re.compile(r"\s*(?:of|the|all)\b", re.IGNORECASE)
# The time between two years is said without any of these: "The war lasted six years."
_LASTING = re.compile(r"\b(?:lasted|took)\b", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[,;:.!?]\s")
_MONTHS_PER_YEAR = 12


def is_factor(text: str, quantity: Quantity) -> bool:
    """Return True for "three times as many" and "threefold"."""
    return _FACTOR.match(text, quantity.end) is not None


def is_derived(
    claim: str,
    quantity: Quantity,
    evidence: str,
    there: Sequence[Quantity],
    dates: Sequence[Date],
) -> bool:
    """Return True when a value is announced as computed, and two values of the evidence give it.

    A total is not computed where the evidence gives another total of the same thing.
    """
    cues = _find_cues(claim, quantity)
    for value, unit in quantity.readings:
        if is_factor(claim, quantity):
            found = _list_ratios(there, 1.0)
        elif unit == "%" and cues:
            found = _list_ratios(there, 100.0)
        elif cues - {"of"}:
            found = itertools.chain(
                _list_sums(there, unit), _list_spans(dates) if unit == "month" else ()
            )
        elif unit == "month" and _LASTING.search(_cut_clause(claim, quantity)):
            found = _list_spans(dates)
        else:
            continue
        if any(math.isclose(value, other, rel_tol=5e-3) for other in found):
            return not _has_rival(claim, quantity, evidence, there, cues)
    return False


def _find_cues(text: str, quantity: Quantity) -> frozenset[str]:
    """Return the words that announce a value as computed; "of" announces a share alone."""
    clause, after = _cut_clause(text, quantity), text[quantity.end :]
    cues = [match[0] for match in _TOTAL.finditer(clause)]
    if opening := _TOTAL.match(text):
        cues.append(opening[0])  # "Altogether, both clubs have 160 members."
    if change := _CHANGE.search(text[: quantity.start]):
        cues.append(change["cue"] or change["extra"])
    if compared := _COMPARED.match(after):
        cues.append(compared["cue"])
    if _SHARE.match(after):
        cues.append("of")
    return frozenset(cue.casefold() for cue in cues)


def _has_rival(
    claim: str,
    quantity: Quantity,
    evidence: str,
    there: Sequence[Quantity],
    cues: frozenset[str],
) -> bool:
    """Return True when the evidence gives another value for all that the claim's clause names."""
    unit, mine = quantity.readings[0][1], _extract_head(claim, quantity)
    return any(
        other.readings[0][1] == unit
        and (not cues or cues & _find_cues(evidence, other))
        and mine <= _extract_head(evidence, other)
        for other in there
    )


def _extract_head(text: str, quantity: Quantity) -> frozenset[str]:
    terms = extract_terms(_cut_clause(text, quantity), "english")
    return frozenset(term for term in terms if not any(c.isdigit() for c in term))


def _cut_clause(text: str, quantity: Quantity) -> str:
    """Return what stands around a value up to the next comma or stop on both sides."""
    starts = [match.end() for match in _CLAUSE_END.finditer(text, 0, quantity.start)]
    end = _CLAUSE_END.search(text, quantity.end)
    after = text[quantity.end : end.start() if end else None]
    return f"{text[max(starts, default=0) : quantity.start]} {after}"


def _list_pairs(
    there: Sequence[Quantity], unit: str | None = None
) -> Iterator[tuple[float, float]]:
    """Yield two values of the same unit, the larger one first."""
    for one, other in itertools.combinations(there, 2):
        (a, mine), (b, theirs) = one.readings[0], other.readings[0]
        if mine == theirs and unit in (None, mine, ""):
            yield max(a, b), min(a, b)


def _list_sums(there: Sequence[Quantity], unit: str) -> Iterator[float]:
    for a, b in _list_pairs(there, unit):
        yield from (a + b, a - b)
    yield sum(one.readings[0][0] for one in there if one.readings[0][1] == unit)


def _list_ratios(there: Sequence[Quantity], scale: float) -> Iterator[float]:
    for a, b in _list_pairs(there):
        if b > 0:
            yield from (scale * a / b, scale * b / a, scale * (a - b) / b, scale * (a - b) / a)


def _list_spans(dates: Sequence[Date]) -> Iterator[float]:
    """Yield the months between two years of the evidence."""
    years = [date.year for date in dates if date.year is not None]
    for one, other in itertools.combinations(years, 2):
        yield float(_MONTHS_PER_YEAR * abs(one - other))
