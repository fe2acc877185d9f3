"""Compare the facts of two sentences: numbers, units, dates, names, polarity.

claim and evidence → disagreements, each with a reason. A claim may round ("about 25,000") and may
change the unit (1.2 km, 1,200 m) or the spelling (12 %, twelve percent), but not the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from ragstone.index.analyze import STOP_WORDS
from ragstone.text import measure_word_overlap, split_words

Kind: TypeAlias = Literal["number", "unit", "date", "name", "negation", "opposite", "word"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Name one point on which a claim differs from its evidence."""

    kind: Kind
    reason: str
    contradicts: bool
    """True when the evidence says something else; False when it does not mention it."""


def find_disagreements(claim: str, evidence: str, around: str = "") -> Iterator[Disagreement]:
    """Yield the points on which a claim differs from `evidence`, the sentences it rests on.

    `around` is the rest of the source: a name or a number that occurs only there is not confirmed
    by the evidence, but is not invented either.
    """
    yield from _compare_dates(claim, evidence, around)
    yield from _compare_quantities(claim, evidence, around)
    yield from _compare_names(claim, evidence, around)
    yield from _compare_polarity(claim, evidence)


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


def _compare_polarity(claim: str, evidence: str) -> Iterator[Disagreement]:
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


@dataclass(frozen=True, slots=True)
class Quantity:
    """Hold a number in a common unit; `unit` is empty for a bare number."""

    value: float
    unit: str
    text: str
    is_rounded: bool = False

    def matches(self, other: Quantity) -> bool:
        tolerance = 0.05 if self.is_rounded else 1e-9
        same = math.isclose(self.value, other.value, rel_tol=tolerance, abs_tol=1e-12)
        return same and (self.unit == other.unit or not self.unit or not other.unit)


@dataclass(frozen=True, slots=True)
class Date:
    """Hold a date as far as it is given; a missing part matches everything."""

    year: int | None
    month: int | None
    day: int | None
    text: str

    def matches(self, other: Date) -> bool:
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        known = [(mine, theirs) for mine, theirs in pairs if mine is not None]
        return all(theirs is None or mine == theirs for mine, theirs in known) and any(
            theirs is not None for _, theirs in known
        )


_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()  # noqa: E501, SIM905
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_WORD_VALUES = {word: float(value) for value, word in enumerate(_SMALL)} | {
    word: 20.0 + 10 * place for place, word in enumerate(_TENS)
}
_WORD_VALUES |= {"dozen": 12.0, "hundred": 100.0, "half": 0.5, "twice": 2.0, "once": 1.0}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
# unit as written → (common unit, factor)
_UNITS: dict[str, tuple[str, float]] = {}
for _common, _spellings in {
    "m": "m:1 metre:1 metres:1 meter:1 meters:1 km:1e3 kilometre:1e3 kilometres:1e3 kilometer:1e3 "
    "kilometers:1e3 cm:1e-2 centimetres:1e-2 centimeters:1e-2 mm:1e-3 millimetres:1e-3 "
    "millimeters:1e-3 µm:1e-6 nm:1e-9 mile:1609.344 miles:1609.344 ft:0.3048 foot:0.3048 "
    "feet:0.3048 inch:0.0254 inches:0.0254 yards:0.9144 yard:0.9144",
    "g": "g:1 gram:1 grams:1 kg:1e3 kilogram:1e3 kilograms:1e3 mg:1e-3 tonne:1e6 tonnes:1e6 "
    "ton:907184.74 tons:907184.74 lb:453.59237 lbs:453.59237 pounds_weight:453.59237",
    "s": "s:1 second:1 seconds:1 minute:60 minutes:60 min:60 hour:3600 hours:3600 h:3600 ms:1e-3",
    "day": "day:1 days:1 week:7 weeks:7 night:1 nights:1",
    "month": "month:1 months:1 year:12 years:12 quarter:3 quarters:3 decade:120 decades:120 "
    "century:1200 centuries:1200",
    "m/s": "m/s:1 km/h:0.277777777778 mph:0.44704 kmh:0.277777777778 knots:0.514444444444",
    "l": "l:1 litre:1 litres:1 liter:1 liters:1 ml:1e-3 gallon:3.785411784 gallons:3.785411784",
    "%": "%:1 percent:1 percentage:1", "‰": "‰:1",
    "°C": "°c:1 celsius:1", "°F": "°f:1 fahrenheit:1", "K": "k:1 kelvin:1", "°": "°:1 degrees:1",
    "EUR": "€:1 eur:1 euro:1 euros:1", "USD": "$:1 usd:1 dollar:1 dollars:1 cents:0.01",
    "GBP": "£:1 gbp:1 pounds:1", "CHF": "chf:1 francs:1", "JPY": "¥:1 yen:1",
    "W": "w:1 kw:1e3 mw:1e6 gw:1e9 watts:1", "Hz": "hz:1 khz:1e3 mhz:1e6 ghz:1e9",
    "V": "v:1 volts:1 kv:1e3", "B": "bytes:1 kb:1e3 mb:1e6 gb:1e9 tb:1e12",
    "people": "people:1 persons:1 visitors:1 inhabitants:1",
}.items():  # fmt: skip
    for _entry in _spellings.split():
        _name, _, _factor = _entry.partition(":")
        _UNITS[_name] = (_common, float(_factor))

_MONTHS = {
    name: number
    for number, find_names in enumerate(
        (
            "january jan januar", "february feb februar", "march mar märz", "april apr", "may mai",
            "june jun juni", "july jul juli", "august aug", "september sep sept",
            "october oct oktober", "november nov", "december dec dezember",
        ),
        start=1,
    )
    for name in find_names.split()
}  # fmt: skip
_MONTH = rf"(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DATE = re.compile(
    rf"\b(?P<y1>\d{{4}})-(?P<m1>\d{{2}})-(?P<d1>\d{{2}})\b"
    rf"|\b(?P<d2>\d{{1,2}})\.\s?(?P<m2>\d{{1,2}})\.\s?(?P<y2>\d{{4}})\b"
    rf"|\b(?P<d3>\d{{1,2}})(?:st|nd|rd|th|\.)?\s(?:of\s)?(?P<m3>{_MONTH})\b(?:,?\s(?P<y3>\d{{4}}))?"
    rf"|\b(?P<m4>{_MONTH})\s(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,?\s(?P<y4>\d{{4}}))?"
    rf"|\b(?P<m5>{_MONTH})\s(?:of\s)?(?P<y5>\d{{4}})\b"
    rf"|\b(?P<y6>1[0-9]\d\d|20\d\d)\b(?!\s?(?:%|€|[kc]?m\b|kg\b|°))",
    re.IGNORECASE,
)
_UNIT = "|".join(
    sorted((re.escape(name) for name in _UNITS if name != "pounds_weight"), key=len, reverse=True)
)
_QUANTITY = re.compile(
    rf"(?P<before>€|\$|£|¥|\bEUR\s?|\bUSD\s?|\bCHF\s?|\bGBP\s?)?"
    rf"(?P<number>(?<![\w.,])[−–-]?\d{{1,3}}(?:[, ]\d{{3}})+(?:\.\d+)?(?![\d])"
    rf"|(?<![\w.,])[−–-]?\d+(?:\.\d+)?(?![\d])"
    rf"|\b(?:(?:{'|'.join(_TENS)})-(?:{'|'.join(_SMALL[1:10])})|{'|'.join(_WORD_VALUES)})\b)"
    rf"(?:[\s-](?P<scale>hundred|thousand|million|billion|trillion)\b)?"
    rf"(?:[\s-]?(?P<unit>{_UNIT})(?![\w]))?",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\b(?:about|around|roughly|nearly|almost|approximately|approx\.?|circa|ca\.?|some|over|"
    r"more than|less than|under|up to|at least|at most)\s+$",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def find_dates(text: str) -> tuple[Date, ...]:
    found = []
    for match in _DATE.finditer(text):
        parts = {key[0]: value for key, value in match.groupdict().items() if value}
        month = parts.get("m", "")
        number = _MONTHS.get(month.casefold().rstrip("."), int(month) if month.isdigit() else None)
        year, day = parts.get("y"), parts.get("d")
        found.append(
            Date(int(year) if year else None, number, int(day) if day else None, match[0].strip())
        )
    return tuple(found)


@lru_cache(maxsize=4096)
def find_quantities(text: str) -> tuple[Quantity, ...]:
    """Return every number that is not part of a date."""
    masked = _DATE.sub(lambda match: " " * len(match[0]), text)
    return tuple(
        quantity for match in _QUANTITY.finditer(masked) if (quantity := _parse_quantity(match))
    )


def _parse_quantity(match: re.Match[str]) -> Quantity | None:
    number, scale = match["number"].casefold(), (match["scale"] or "").casefold()
    if number in {"one", "once", "half"} and not (scale or match["unit"]):
        return None  # "one of them" counts nothing
    written = (match["unit"] or match["before"] or "").strip().casefold()
    common, factor = _UNITS.get(written, ("", 1.0))
    value = _parse_number(number) * _SCALES.get(scale, 1.0) * factor
    is_rounded = bool(_ABOUT.search(match.string[: match.start()]))
    return Quantity(value, common, match[0].strip(), is_rounded)


def _parse_number(number: str) -> float:
    if number in _WORD_VALUES:
        return _WORD_VALUES[number]
    tens, _, ones = number.partition("-")
    if tens in _WORD_VALUES:
        return _WORD_VALUES[tens] + _WORD_VALUES[ones]
    return float(re.sub(r"[, ]", "", number).replace("−", "-").replace("–", "-"))


_CAPITALISED = re.compile(r"(?<![\w’'])[^\W\d_]*[A-ZÀ-ÖØ-Þ][\w’'&-]*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;]\s+|[\"“„(\n•*-]\s*)$")
_NOT_NAMES = frozenset(
    "the a an this that these those it its he she they we i in on at by for from to of and or but if as with when where who what which how why after before during while since until although however there here all some many most no not each every both one two first see also note his her their our your mr mrs ms dr according under between because so then".split()  # noqa: E501, SIM905
)


@lru_cache(maxsize=4096)
def find_names(text: str, known: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return capitalised words, and words with digits or inner capitals.

    The first word of a sentence counts only when it is a `known` name or another name follows.
    """
    found = []
    for match in _CAPITALISED.finditer(text):
        word = match[0].rstrip("’'-")
        if word.endswith(("'s", "’s")):
            word = word[:-2]
        first = bool(_SENTENCE_START.search(text[: match.start()]))
        follows = _CAPITALISED.match(text, match.end() + 1) is not None
        if word.casefold() in _NOT_NAMES or word.casefold() in _MONTHS or len(word) < 2:
            continue
        plain = not any(c.isupper() or c.isdigit() for c in word[1:])
        if first and not follows and plain and word not in known:
            continue
        found.append(word)
    return tuple(found)


def _compare_dates(claim: str, evidence: str, around: str) -> Iterator[Disagreement]:
    there, nearby = find_dates(evidence), find_dates(around)
    bare = {quantity.value for quantity in find_quantities(evidence + " " + around)}
    for date in find_dates(claim):
        if any(date.matches(other) for other in there) or (
            date.month is None and date.year in bare
        ):
            continue
        other = _find_nearest_date(date, there)
        reason = (
            f"The source says {other.text}, not {date.text}."
            if other
            else f"The source does not say {date.text}."
        )
        known = other is None and any(date.matches(one) for one in nearby)
        yield Disagreement("date", reason, contradicts=not known and other is not None)


def _find_nearest_date(date: Date, there: Sequence[Date]) -> Date | None:
    """Return the date with most parts in common: it could have been meant."""

    def count_shared(other: Date) -> int:
        mine, theirs = (date.year, date.month, date.day), (other.year, other.month, other.day)
        return sum(a == b for a, b in zip(mine, theirs, strict=True) if a is not None)

    return max(there, key=count_shared, default=None)


def _compare_quantities(claim: str, evidence: str, around: str) -> Iterator[Disagreement]:
    there, nearby = find_quantities(evidence), find_quantities(around)
    years = {float(d.year) for d in find_dates(evidence) if d.year is not None and d.month is None}
    for quantity in find_quantities(claim):
        if any(quantity.matches(other) for other in there):
            continue
        if not quantity.unit and quantity.value in years:
            continue
        same_value = next((o for o in there if math.isclose(o.value, quantity.value)), None)
        same_number = same_value or next(
            (o for o in there if _extract_digits(o) == _extract_digits(quantity)), None
        )
        if same_number:
            reason = f"The source says {same_number.text}, not {quantity.text}."
            yield Disagreement("unit", reason, contradicts=True)
            continue
        rival = next((o for o in there if o.unit == quantity.unit), None)
        if rival is None and any(quantity.matches(other) for other in nearby):
            yield Disagreement("number", f"The source says {quantity.text} elsewhere.", False)
            continue
        reason = (
            f"The source says {rival.text}, not {quantity.text}."
            if rival
            else f"The source does not say {quantity.text}."
        )
        yield Disagreement("number", reason, contradicts=rival is not None)


def _extract_digits(quantity: Quantity) -> str:
    return re.sub(r"[^\d.]", "", quantity.text) or quantity.text


def _compare_names(claim: str, evidence: str, around: str) -> Iterator[Disagreement]:
    there, nearby = set(split_words(evidence)), set(split_words(around))
    mine = find_names(claim, frozenset(find_names(f"{evidence}\n{around}")))
    said = set(split_words(claim))
    for name in mine:
        parts = set(split_words(name))
        if parts <= there or (parts & there and len(parts) > 1):
            continue
        rivals = [other for other in find_names(evidence) if not set(split_words(other)) & said]
        known = parts <= nearby
        reason = f"The source does not name {name} here."
        yield Disagreement("name", reason, contradicts=bool(rivals) and not known)
