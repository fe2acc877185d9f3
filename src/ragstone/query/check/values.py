"""Find the values of a text, and say which of them another text gives nowhere.

A value is a number with its unit, a date, a time, or an identifier such as `HR-215`. Equal values
in other words or units are equal: twelve and 12, 2 h and 120 minutes, 30 June 2024 and 2024-06-30.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import TypeAlias

Amount: TypeAlias = tuple[float, str]
Day: TypeAlias = tuple[int | None, int | None, int | None]
Tokens: TypeAlias = Sequence[re.Match[str]]

_UNITS: dict[str, list[Amount]] = {}
for _dimension, _spellings in tomllib.loads(
    resources.files(__package__).joinpath("units.toml").read_text("utf-8")
).items():
    for _names, _factor in _spellings.items():
        for _name in _names.split():
            _UNITS.setdefault(_name.replace("_", " "), []).append((float(_factor), _dimension))
_ONES = ("zero", "one first", "two second twice", "three third", "four fourth", "five fifth",
         "six sixth", "seven seventh", "eight eighth", "nine ninth", "ten tenth", "eleven eleventh",
         "twelve twelfth dozen", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
         "eighteen", "nineteen")  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred")
_NUMBERS = {word: float(number) for number, words in enumerate(_ONES) for word in words.split()}
_NUMBERS |= {word: 20.0 + 10 * place for place, word in enumerate(_TENS)}
_SCALES = {
    "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9,
}  # fmt: skip
_SHARES = {"half": 0.5, "third": 1 / 3, "quarter": 0.25, "fifth": 0.2, "tenth": 0.1}
_CURRENCIES = ("€", "$", "£", "¥", "eur", "usd", "gbp", "chf")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_TOKEN = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d|\d{1,2}\.\s?\d{1,2}\.\s?\d{4}|\d{1,2}/\d{1,2}/\d{4})(?!\d)"
    r"|(?P<name>(?<!\w)(?!(?:EUR|USD|CHF|GBP)\d)(?:[A-Z]{1,6}-\d[\w-]*|[A-Za-z]+\d\w*|\w+_\w+"
    r"|\w*[a-z][A-Z]\w*|\d+(?:\.\d+){2,}(?!\.?\d)))"
    r"|(?P<number>(?:(?<!\w)[-−–])?(?:\d{1,3}(?:[,.\u00a0\u202f ]\d{3})+(?!\d)(?:[.,]\d+)?"
    r"|\d+(?:[.,]\d+)?))(?::(?P<minute>[0-5]\d)(?!\d))?(?:(?:st|nd|rd|th)\b)?"
    r"(?:\s?(?P<half>[ap])\.?\s?m\b\.?)?"
    r"|[^\W\d_]+(?:/[^\W\d_]+)?²?|°\s?[CF]\b|\S"
)


@dataclass(frozen=True, slots=True)
class Value:
    """A value at `text[start:end]`, with each reading that its spelling allows."""

    number: float | None = None
    """The number without its unit."""
    amounts: tuple[Amount, ...] = ()
    days: tuple[Day, ...] = ()
    name: str = ""
    is_implied: bool = False
    """True for "a year", "half of it" and "two of them", which the verifier reads better."""
    text: str = ""

    def equals(self, other: Value) -> bool:
        if self.days and other.days:
            return any(_is_same_day(a, b) for a in self.days for b in other.days)
        if self.amounts and other.amounts:
            return any(_is_same_amount(a, b) for a in self.amounts for b in other.amounts)
        return _is_close(self.number, other.number)

    def can_be_compared(self, other: Value) -> bool:
        """Return True for values of the same dimension: two prices, two days."""
        units = [
            {unit.replace("month", "s") for _, unit in value.amounts} for value in (self, other)
        ]
        return bool(units[0] & units[1]) or bool(self.days and other.days)


def _is_same_day(mine: Day, theirs: Day) -> bool:
    known = [(a, b) for a, b in zip(mine, theirs, strict=True) if a is not None and b is not None]
    return bool(known) and all(a == b for a, b in known)


def _is_same_amount(mine: Amount, theirs: Amount) -> bool:
    (amount, unit), (other, other_unit) = mine, theirs
    if {unit, other_unit} == {"month", "s"}:
        months, seconds = (amount, other) if unit == "month" else (other, amount)
        # 28 to 31 days may be called a month: three months and 90 days.
        return 28 * months <= seconds / 86_400 <= 31 * months
    return unit == other_unit and _is_close(amount, other)


def _is_close(said: float | None, given: float | None) -> bool:
    """Return True for equal numbers, and for a rounded one: 25,000 for 24,960."""
    if said is None or given is None:
        return False
    is_rounded = said >= 1000 and said % 100 == 0 and given % 100 != 0
    return math.isclose(said, given, rel_tol=0.02 if is_rounded else 1e-6, abs_tol=1e-12)


@lru_cache(maxsize=8_192)
def find_values(text: str) -> tuple[Value, ...]:
    """Return the values of a text in order."""
    tokens = list(_TOKEN.finditer(text))
    words = [token[0].casefold() for token in tokens] + [""] * 6
    found: list[Value] = []
    at = 0
    while at < len(tokens):
        value, end = _read_day(tokens, words, at) or _read_amount(tokens, words, at) or (None, 0)
        if value is not None:
            found.append(replace(value, text=text[tokens[at].start() : tokens[end - 1].end()]))
        at = max(at + 1, end)
    return tuple(found)


def _read_day(tokens: Tokens, words: Sequence[str], at: int) -> tuple[Value, int] | None:
    """Read a date, or a month with what is given of its date."""
    if tokens[at]["day"]:
        first, second, last = (int(part) for part in re.findall(r"\d+", words[at]))
        if first > 31:
            return Value(days=((first, second, last),)), at + 1
        return Value(days=((last, second, first), (last, first, second))), at + 1
    day = _read_day_number(tokens, at)
    month_at = at if day is None else at + 1 + (words[at + 1] == "of")
    end = month_at + 1 + (words[month_at + 1] == ".")
    month = _find_month(words[month_at])
    if month is None:
        return None
    if day is None and (day := _read_day_number(tokens, end)) is not None:
        end += 1
    after = end + (words[end] in (",", "of"))
    year = _find_year(words[after])
    # "may" and "march" alone are words, and so is "May" at the beginning of a sentence.
    is_named = tokens[month_at][0][0].isupper() and words[month_at - 1] not in ("", ".", "!", "?")
    if day is None and year is None and not is_named:
        return None
    return Value(days=((year, month, day),)), after + 1 if year else end


def _read_day_number(tokens: Tokens, at: int) -> int | None:
    digits = (tokens[at]["number"] or "") if at < len(tokens) else ""
    if not digits.isdecimal() or tokens[at]["minute"] or tokens[at]["half"]:
        return None
    return int(digits) if 1 <= int(digits) <= 31 else None


def _find_month(word: str) -> int | None:
    found = (n for n, name in enumerate(_MONTHS, start=1) if name.startswith(word))
    return next(found, None) if len(word) >= 3 else None


def _find_year(word: str) -> int | None:
    return int(word) if word.isdecimal() and "1000" <= word <= "2199" and len(word) == 4 else None


def _read_amount(tokens: Tokens, words: Sequence[str], at: int) -> tuple[Value, int] | None:
    if tokens[at]["minute"] or tokens[at]["half"]:
        return _read_clock(tokens[at]), at + 1
    if tokens[at]["name"] or words[at] in ("noon", "midnight"):
        return replace(
            _give_unit(1, _UNITS.get(words[at], [])), name=tokens[at]["name"] or ""
        ), at + 1
    units, end = _find_unit(words, at + 1)
    if words[at] in ("a", "an", "each", "every", "per") and units and words[at + 1] != "quarter":
        half, end = _find_half(words, end)
        return replace(_give_unit(1 + half, units), is_implied=not half), end
    return _read_count(tokens, words, at)


def _read_count(tokens: Tokens, words: Sequence[str], at: int) -> tuple[Value, int] | None:
    """Read a number with its scale and unit."""
    currency = _UNITS[words[at]] if words[at] in _CURRENCIES else []
    number, end = _read_number(tokens, words, at + bool(currency))
    if number is None:
        return None
    if words[end - 1].removesuffix("s") in _SHARES and not number.is_integer():
        return _read_share(number, words, end)
    half, end = _find_half(words, end)
    number += half
    # "40m" is 40 metres, or with a currency 40 million; "1.5k" is a number, and "1.5 K" kelvin.
    is_glued = end < len(tokens) and tokens[end].start() == tokens[end - 1].end()
    is_scale = currency or words[end] not in _UNITS or (words[end] == "k" and is_glued)
    if words[end] in _SCALES and is_scale:
        more, after = _find_half(words, end + 1)
        number, end = (number + more) * _SCALES[words[end]], after
    units, after = (currency, end) if currency else _find_unit(words, end)
    if words[at] == "one" and after == at + 1:
        return None  # "one of them" counts nothing
    year = None if units else _find_year(words[at])
    is_word = not units and not half and number <= 12 and words[at][0].isalpha()
    value = replace(_give_unit(number, units), is_implied=is_word)
    return replace(value, days=((year, None, None),) if year else ()), after


def _read_share(share: float, words: Sequence[str], end: int) -> tuple[Value, int]:
    """Read what a half or a quarter is of: an hour, a dozen, or anything."""
    begin = end + (words[end] == "of")
    if words[begin] in ("a", "an"):
        if words[begin + 1] == "dozen":
            return Value(12 * share), begin + 2
        units, after = _find_unit(words, begin + 1)
        if units:
            return _give_unit(share, units), after
    quarter = [(12 * share, "month")] if words[end - 1].startswith("quarter") else []
    return Value(share, ((100 * share, "%"), (share, ""), *quarter), is_implied=True), end


def _read_clock(token: re.Match[str]) -> Value:
    hour, _, minute = token["number"].replace(",", ".").partition(".")
    late = {"p": 12, "a": 0}.get((token["half"] or "").casefold())
    hours = int(hour) if late is None else int(hour) % 12 + late
    return Value(float(hour), ((hours * 60.0 + int(token["minute"] or minute or 0), "clock"),))


def _read_number(tokens: Tokens, words: Sequence[str], at: int) -> tuple[float | None, int]:
    """Read digits or number words, and a share of them: "three quarters", "half"."""
    number: float | None = None
    if at < len(tokens) and tokens[at]["number"]:
        number, at = _parse_digits(tokens[at]["number"]), at + 1
    else:
        while words[at] in _NUMBERS and (number is None or number >= 20):
            number, at = (number or 0.0) + _NUMBERS[words[at]], at + 1
            if words[at] == "hundred":
                number, at = number * 100, at + 1
            if words[at] in ("-", "and") and number >= 20 and words[at + 1] in _NUMBERS:
                at += 1
    share = _SHARES.get(words[at].removesuffix("s"))
    if share and (number or words[at - 1] in ("a", "an") or words[at] in ("half", "quarter")):
        number, at = (number or 1.0) * share, at + 1
    return number, at


def _parse_digits(digits: str) -> float:
    plain = re.sub(r"[\u00a0\u202f ]", "", digits).replace("−", "-").replace("–", "-")
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        return float(plain.replace(",", ""))
    if re.fullmatch(r"-?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?", plain):
        plain = plain.replace(".", "")  # 1.850 is 1850 in German
    return float(plain.replace(",", "."))


def _find_half(words: Sequence[str], at: int) -> tuple[float, int]:
    return (0.5, at + 3) if words[at : at + 3] == ["and", "a", "half"] else (0.0, at)


def _find_unit(words: Sequence[str], at: int) -> tuple[Sequence[Amount], int]:
    """Return the unit that begins at a word: the longest of up to three words."""
    begin = at + (words[at] in ("-", "‑"))
    for size in (3, 2, 1):
        name = " ".join(words[begin : begin + size])
        for spelling in (name, name.removesuffix("s"), name.partition("/")[0] if size == 1 else ""):
            if spelling in _UNITS:
                return _UNITS[spelling], begin + size
    return [], at


def _give_unit(number: float, units: Sequence[Amount]) -> Value:
    return Value(number, tuple((number * factor, unit) for factor, unit in units))


def find_missing_values(claim: str, *evidence: str) -> list[Value]:
    """Return the values of a claim that no text of its evidence gives."""
    there = [value for text in evidence for value in find_values(text)]
    plain = "\n".join(evidence).casefold()
    return [
        value
        for value in find_values(claim)
        if not value.is_implied
        and not (_stands(value.name, plain) if value.name else any(map(value.equals, there)))
    ]


def _stands(name: str, text: str) -> bool:
    pattern = r"[\W_]*".join(re.findall(r"[^\W_]+", name.casefold()))
    return re.search(rf"(?<!\w){pattern}(?!\w)", text) is not None


def is_computed(value: Value, evidence: str) -> bool:
    """Return True for the sum, difference, ratio or share of two numbers of the evidence."""
    numbers = sorted({found.number for found in find_values(evidence) if found.number})
    return any(
        _is_close(value.number, result)
        for a, b in itertools.permutations(numbers, 2)
        for result in (a + b, a - b, a / b, 100 * a / b)
    )
