"""Recognise values that a reader computes from two of the evidence: sums, differences, shares.

claim, value and evidence → whether the value may be right although it stands nowhere. Whether it is
said of the right things is left to the verifier.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from ragstone.query.check.values import Date, Quantity

_FACTOR = re.compile(r"[\s-]?(?:times|fold)\b", re.IGNORECASE)
# A sum or a difference is announced: "40 more than", "a total of 70", "grew by 10".
_COMPUTED = re.compile(
    r"\b(?:more|less|fewer|further|additional|extra|difference|differ(?:s|ed)?|total|altogether|"
    r"together|combined|sum|in all|overall|both|between|increased?|rose|grew|fell|dropped|longer|"
    r"shorter|later|earlier|older|younger|higher|lower|larger|smaller|cheaper|dearer|left|lasted|"
    r"remain\w*|took)\b",
    re.IGNORECASE,
)
_MONTHS_PER_YEAR = 12


def is_factor(text: str, quantity: Quantity) -> bool:
    """Return True for "three times as many" and "threefold"."""
    return _FACTOR.match(text, quantity.end) is not None


def is_derived(
    claim: str, quantity: Quantity, there: Sequence[Quantity], dates: Sequence[Date]
) -> bool:
    """Return True when a value is the sum, difference or ratio of two values of the evidence."""
    is_computed = _COMPUTED.search(claim) is not None
    for value, unit in quantity.readings:
        if is_factor(claim, quantity):
            found = _list_ratios(there, 1.0)
        elif unit == "%":
            found = _list_ratios(there, 100.0)
        elif is_computed:
            found = itertools.chain(
                _list_sums(there, unit), _list_spans(dates) if unit == "month" else ()
            )
        else:
            continue
        if any(math.isclose(value, other, rel_tol=5e-3) for other in found):
            return True
    return False


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
