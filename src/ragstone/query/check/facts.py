"""Compare the exact facts of a claim with its evidence: numbers, units, dates, names, polarity.

claim and evidence → disagreements, each with a reason. A claim may round ("about 25,000"), change
the unit (1.2 km, 1,200 m) or the spelling (12 %, twelve percent), but not the value. A value
contradicts only where the evidence gives another one *for the same thing*: the words around both
must agree. Any other value is merely not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, TypeVar

from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.query.check.derive import is_derived, is_factor
from ragstone.query.check.names import find_names
from ragstone.query.check.values import (
    Date,
    Quantity,
    find_dates,
    find_implied_quantities,
    find_quantities,
    get_family,
    has_other_unit,
    is_inside_range,
)
from ragstone.text import measure_word_overlap, split_words

Kind: TypeAlias = Literal[
    "number", "unit", "date", "name", "negation", "opposite", "word", "role", "denial"
]
# Exact values. The other kinds are signs, which a verifier weighs better.
VALUES: frozenset[Kind] = frozenset({"number", "unit", "date", "denial"})
_Value = TypeVar("_Value", Quantity, Date)
_CONTEXT_CHARS = 45
_SAME_CONTEXT = 0.5
_MIN_PREFIX = 4


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Name one point on which a claim differs from its evidence."""

    kind: Kind
    reason: str
    contradicts: bool
    """True when the evidence says something else; False when it does not mention it."""
    is_unconfirmed: bool = False
    """True for an amount in digits or a date that the evidence does not give."""
    is_invented: bool = False
    """True for such a one that stands nowhere in the source."""


def find_disagreements(claim: str, evidence: str, around: str = "") -> Iterator[Disagreement]:
    """Yield the points on which a claim differs from `evidence`, the sentences it rests on.

    `around` is the rest of the source: a name or a number that occurs only there is not confirmed
    by the evidence, but is not invented either.
    """
    yield from _compare_dates(claim, evidence, around)
    yield from _compare_quantities(claim, evidence, around)
    yield from _compare_names(claim, evidence, around)
    yield from compare_polarity(claim, evidence)


_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|isn|aren|wasn|weren|don|doesn|"
    r"didn|won|wouldn|can|couldn|shouldn|mustn|hasn|haven|hadn)(?:['’]t)\b"
    r"|\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|nicht|kein\w*|nie|niemals|"
    r"ohne)\b",
    re.IGNORECASE,
)
_OPPOSITES = [
    ("increase", "decrease"), ("rise", "fall"), ("rises", "falls"), ("raised", "lowered"),
    ("increased", "decreased"), ("increases", "decreases"), ("higher", "lower"), ("more", "less"),
    ("more", "fewer"), ("above", "below"), ("before", "after"), ("first", "last"),
    ("open", "closed"), ("opens", "closes"), ("allowed", "forbidden"), ("always", "never"),
    ("maximum", "minimum"), ("largest", "smallest"), ("highest", "lowest"), ("north", "south"),
    ("east", "west"), ("northern", "southern"), ("eastern", "western"), ("all", "none"),
    ("accepted", "rejected"), ("approved", "rejected"), ("gain", "loss"), ("won", "lost"),
    ("early", "late"), ("earlier", "later"), ("old", "new"), ("older", "newer"), ("hot", "cold"),
    ("inside", "outside"), ("positive", "negative"), ("begins", "ends"), ("began", "ended"),
    ("start", "end"), ("most", "least"), ("best", "worst"), ("up", "down"), ("left", "right"),
    ("male", "female"), ("true", "false"), ("win", "lose"), ("buy", "sell"), ("long", "short"),
    ("longer", "shorter"), ("strong", "weak"), ("stronger", "weaker"), ("enabled", "disabled"),
    ("included", "excluded"), ("with", "without"), ("possible", "impossible"), ("legal", "illegal"),
    ("upper", "lower"), ("major", "minor"), ("larger", "smaller"), ("greater", "smaller"),
    ("faster", "slower"), ("promotes", "inhibits"), ("promote", "inhibit"), ("public", "private"),
]  # fmt: skip
_OPPOSITE_OF: dict[str, set[str]] = {}
for _one, _other in _OPPOSITES:
    _OPPOSITE_OF.setdefault(_one, set()).add(_other)
    _OPPOSITE_OF.setdefault(_other, set()).add(_one)


# Two sentences with this much in common are the same sentence, so every "not" counts.
_SAME_SENTENCE = 0.8
_SCOPE_WORDS = 2
_SKIPPED = STOP_WORDS | {"any", "be", "been", "being", "yet", "only", "also", "more", "than"}


def compare_polarity(claim: str, evidence: str) -> Iterator[Disagreement]:
    """Compare negations and opposites ("rise", "fall")."""
    mine, theirs = find_negated_words(claim), find_negated_words(evidence)
    claim_words, evidence_words = split_words(claim), split_words(evidence)
    denied = (mine & set(evidence_words)) - theirs or (theirs & set(claim_words)) - mine
    # A "not" that only the evidence has is about something that the claim leaves out.
    more = len(_NEGATION.findall(claim)) > len(_NEGATION.findall(evidence))
    same = measure_word_overlap(claim, evidence) >= _SAME_SENTENCE
    if denied or (same and more):
        at = f" about “{min(denied)}”" if denied else ""
        yield Disagreement("negation", f"Only one of the two says “not”{at}.", contradicts=True)
    only_mine, only_theirs = set(claim_words) - set(evidence_words), set(evidence_words)
    for word in sorted(only_mine):
        opposite = sorted(_OPPOSITE_OF.get(word, set()) & (only_theirs - set(claim_words)))
        if opposite:
            yield Disagreement("opposite", f"The source says {opposite[0]}, not {word}.", True)


def find_negated_words(text: str) -> set[str]:
    """Return the words that the negations of a text are about."""
    found: set[str] = set()
    for match in _NEGATION.finditer(text):
        following = [word for word in split_words(text[match.end() :][:80]) if word not in _SKIPPED]
        found.update(following[:_SCOPE_WORDS])
    return found


def _compare_dates(claim: str, evidence: str, around: str) -> Iterator[Disagreement]:
    mine = find_dates(claim)
    if not mine:
        return
    there, nearby = find_dates(evidence), find_dates(around)
    # Each text is read once for all claims; both together would be a new text for each window.
    numbers = (*find_quantities(evidence), *find_quantities(around))
    bare = {value for one in numbers for value, _ in one.readings}
    for date in mine:
        if any(date.matches(other) for other in there):
            continue
        if date.month is None and date.year in bare:
            continue
        rivals = [other for other in there if _has_same_parts(date, other)]
        rival = _find_rival(claim, date, evidence, rivals)
        if rival is not None:
            reason = f"The source says {rival.text}, not {date.text}."
            yield Disagreement("date", reason, contradicts=True)
        elif any(date.matches(other) for other in nearby):
            reason = f"The source says {date.text} elsewhere."
            yield Disagreement("date", reason, contradicts=False, is_unconfirmed=True)
        else:
            reason = f"The source does not say {date.text}."
            yield Disagreement("date", reason, False, is_unconfirmed=True, is_invented=True)


def _has_same_parts(one: Date, other: Date) -> bool:
    """Return True when both give the same parts of a date, e.g. day and month."""
    mine, theirs = (one.year, one.month, one.day), (other.year, other.month, other.day)
    return any(a is not None and b is not None for a, b in zip(mine, theirs, strict=True))


# "Closed when gusts exceed 17 m/s" names a limit: a gust of 41 m/s is no evidence for it.
_CONDITION = re.compile(
    r"\b(?:when|whenever|if|once|unless|until|as soon as)\b[^.;]*$", re.IGNORECASE
)


def _compare_quantities(claim: str, evidence: str, around: str) -> Iterator[Disagreement]:
    there, nearby = find_quantities(evidence), find_quantities(around)
    years = {float(d.year) for d in find_dates(evidence) if d.year is not None and d.month is None}
    for quantity in find_quantities(claim):
        matching = [other for other in there if quantity.matches(other)]
        if quantity.bound and _CONDITION.search(claim, 0, quantity.start):
            matching = [other for other in matching if quantity.is_equal(other)]
        if _is_implied(quantity, evidence, there) and not any(map(_has_unit, matching)):
            continue
        other_unit = [other for other in there if has_other_unit(quantity, other)]
        if other_unit and not any(quantity.is_equal(other) for other in matching):
            # Nobody writes 24 days for 24 hours by chance: the words around need not agree.
            reason = f"The source says {other_unit[0].text}, not {quantity.text}."
            yield Disagreement("unit", reason, contradicts=True)
            continue
        opposite = [other for other in matching if quantity.is_opposite_bound(other)]
        if matching and len(opposite) < len(matching):
            continue
        if any(value in years for value, unit in quantity.readings if not unit):
            continue
        if opposite and (rival := _find_rival(claim, quantity, evidence, opposite)):
            bounds = {"min": "more", "max": "less"}
            reason = (
                f"The source says {bounds[rival.bound]} than {rival.text}, "
                f"not {bounds[quantity.bound]}."
            )
            yield Disagreement("number", reason, contradicts=True)
            continue
        if is_derived(claim, quantity, evidence, there, find_dates(evidence)):
            continue
        if missing := _describe_missing(claim, quantity, evidence, there, nearby):
            yield missing


def _has_unit(quantity: Quantity) -> bool:
    return bool(quantity.readings[0][1])


_SMALL_COUNTS = frozenset({"two", "three", "both", "first", "second", "half", "a half"})


def _is_implied(quantity: Quantity, evidence: str, there: Sequence[Quantity]) -> bool:
    """Return True for a value inside a range, and for a unit that stands without a number."""
    implied = find_implied_quantities(evidence)
    return is_inside_range(quantity, there, evidence) or any(
        quantity.matches(other) for other in implied
    )


def _describe_missing(
    claim: str,
    quantity: Quantity,
    evidence: str,
    there: Sequence[Quantity],
    nearby: Sequence[Quantity],
) -> Disagreement | None:
    kind: Kind = "number"
    digits, (value, unit) = _extract_digits(quantity), quantity.readings[0]
    rivals = [other for other in there if digits and _extract_digits(other) == digits]
    if rivals:
        kind = "unit"
    else:
        rivals = [other for other in there if get_family(other.readings[0][1]) == get_family(unit)]
    # "Three times as many" is no rival of "30 members".
    factor = is_factor(claim, quantity)
    rivals = [other for other in rivals if is_factor(evidence, other) == factor]
    if not unit and value.is_integer():
        # "two buffers" and "pH 4.01": a count is no rival of a measurement.
        rivals = [other for other in rivals if "." not in other.text]
    # "An employee with five years" is no contradiction to "less than three years".
    rivals = [other for other in rivals if not other.bound or quantity.bound]
    rival = _find_rival(claim, quantity, evidence, rivals)
    if rival is not None:
        reason = f"The source says {rival.text}, not {quantity.text}."
        return Disagreement(kind, reason, contradicts=True)
    if quantity.text.casefold() in _SMALL_COUNTS:
        return None  # "the two enzymes": people count what a text lists
    # The digits of a name such as "CTLA-4" or "3T3" are no amount.
    around = claim[max(0, quantity.start - 1) : quantity.start] + claim[quantity.end :][:1]
    is_amount = quantity.text[0].isdigit() and not any(c.isalpha() or c == "-" for c in around)
    if any(quantity.matches(other) for other in nearby):
        reason = f"The source says {quantity.text} elsewhere."
        return Disagreement("number", reason, contradicts=False, is_unconfirmed=is_amount)
    reason = f"The source does not say {quantity.text}."
    return Disagreement("number", reason, False, is_unconfirmed=is_amount, is_invented=is_amount)


def _extract_digits(quantity: Quantity) -> str:
    return re.sub(r"[^\d.]", "", quantity.text)


def _find_rival(
    claim: str, value: Quantity | Date, evidence: str, rivals: Sequence[_Value]
) -> _Value | None:
    """Return the value that the evidence gives for the same thing as `value`."""
    mine = _find_context(claim, value)
    best: tuple[float, _Value] | None = None
    for other in rivals:
        theirs = _find_context(evidence, other)
        shared = len(mine & theirs) / len(mine) if mine else float(not theirs)
        if shared >= _SAME_CONTEXT and (best is None or shared > best[0]):
            best = shared, other
    return best[1] if best else None


def _find_context(text: str, value: Quantity | Date) -> frozenset[str]:
    """Return the terms around a value in its sentence, without other numbers."""
    before = text[max(0, value.start - _CONTEXT_CHARS) : value.start]
    after = text[value.end : value.end + _CONTEXT_CHARS]
    before = re.split(r"[.;!?]\s", before)[-1]
    after = re.split(r"[.;!?](?:\s|$)", after)[0]
    # Half a word at an edge is not a term.
    if value.start > _CONTEXT_CHARS:
        before = before.partition(" ")[2] or before
    if value.end + _CONTEXT_CHARS < len(text):
        after = after.rpartition(" ")[0] or after
    terms = extract_terms(f"{before} {after}")
    return frozenset(term for term in terms if not any(c.isdigit() for c in term))


def _compare_names(claim: str, evidence: str, around: str) -> Iterator[Disagreement]:
    there, nearby = set(split_words(evidence)), _list_words(around)
    mine = find_names(claim, frozenset(find_names(evidence)).union(find_names(around)))
    said = set(split_words(claim))
    for name in mine:
        parts = set(split_words(name))
        if parts <= there or (parts & there and len(parts) > 1) or _has_form_of(name, there):
            continue
        rivals = [other for other in find_names(evidence) if not set(split_words(other)) & said]
        if parts <= nearby or _has_form_of(name, nearby):
            reason = f"The source does not name {name} here."
            yield Disagreement("name", reason, contradicts=False)
        else:
            reason = f"The source does not name {name}."
            yield Disagreement("name", reason, contradicts=bool(rivals))


@lru_cache(maxsize=256)
def _list_words(text: str) -> frozenset[str]:
    """Split a source once for all claims that are compared with it."""
    return frozenset(split_words(text))


def _has_form_of(name: str, words: Set[str]) -> bool:
    """Return True for another form of a name: "Norwegian" for "Norway", or its initials."""
    word = name.casefold()
    return any(
        len(other) > _MIN_PREFIX and other[:_MIN_PREFIX] == word[:_MIN_PREFIX] for other in words
    )
