"""Find the few lines of a source that a claim must be read against.

claim and source → windows: neighbouring sentences, a row under its header, an item with its
lead-in. They are chosen by words, rare ones counting more. Text that reads like an instruction to a
model is never evidence.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragstone.index.analyze import extract_terms
from ragstone.reading.injection import find_suspicious_spans
from ragstone.reading.units import find_units
from ragstone.text import LIST_MARK, find_sentence_spans
from ragstone.types import Source, UnitKind

# About 100 tokens: of whole passages (170 tokens) true sentences about a row or a list got .05 to
# .5, of windows of this size .6 to .98.
_MAX_CHARS = 400
_CENTRES = 6
_WORD = re.compile(r"(?<![\w.])[-−–]\d[\w.,]*\w|\d[\w.,]*\w|[^\W_]+|[%‰€$£¥°<>≤≥±]")
_LINK_TARGET = re.compile(r"(?<=\])\([^()\s]*\)|<[^<>\s]+>")
_LIST_MARK = re.compile(rf"\s*{LIST_MARK}\s+")


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """A unit of a source as it is read, and its place in the stored text."""

    start: int
    end: int
    text: str
    terms: frozenset[str]
    kind: UnitKind
    lead: int | None
    """The place of the unit that leads to this item or listing."""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source split for reading."""

    units: tuple[ReadUnit, ...]
    suspicious: tuple[frozenset[str], ...]
    """The terms of each sentence that reads like an instruction."""
    words: str
    """All units as words, each between spaces, to find quotations."""
    word_starts: tuple[int, ...]
    """The place in `words` at which each unit begins, and the end of the last."""


@dataclass(frozen=True, slots=True)
class Window:
    """Lines of a source to read a claim against; `start` and `end` are its snippet."""

    number: int
    start: int
    end: int
    text: str
    is_row: bool
    coverage: float
    """The share of the claim's terms that it holds, rare terms counting more."""


def read_source(source: Source) -> ReadSource:
    return _read_text(source.text, source.hit.chunk.table_header)


@lru_cache(maxsize=1024)
def _read_text(text: str, table_header: str) -> ReadSource:
    spans = find_suspicious_spans(text)

    def is_suspicious(start: int, end: int) -> bool:
        return any(start < stop and begin < end for begin, stop in spans)

    units: list[ReadUnit] = []
    joined, starts = " ", []
    places: dict[int | None, int] = {}
    for place, unit in enumerate(find_units(text, table_header)):
        if unit.kind == "header" or is_suspicious(unit.start, unit.end):
            continue
        places[place] = len(units)
        said = " ".join(unit.sentence.split())
        terms, lead = frozenset(extract_terms(said)), places.get(unit.lead)
        units.append(ReadUnit(unit.start, unit.end, said, terms, unit.kind, lead))
        starts.append(len(joined))
        joined += "".join(f"{word} " for word in split_exact_words(said))
    suspicious = tuple(
        frozenset(extract_terms(text[start:end]))
        for start, end in (find_sentence_spans(text) if spans else ())
        if is_suspicious(start, end)
    )
    return ReadSource(tuple(units), suspicious, joined, (*starts, len(joined)))


def split_exact_words(text: str) -> list[str]:
    """Return words and signs that carry meaning (%, €, a minus), without markup."""
    plain = _LINK_TARGET.sub("", _LIST_MARK.sub("", text, count=1))
    plain = unicodedata.normalize("NFKC", plain).casefold()
    return _WORD.findall(plain.replace("’", "").replace("'", ""))


def find_quotation(claim: str, source: ReadSource) -> tuple[int, int] | None:
    """Return the place of a claim that stands word for word in a source, as whole units.

    Part of a sentence is not a quotation: a condition or a "not" may stand in the rest.
    """
    wanted = " " + "".join(f"{word} " for word in split_exact_words(claim))
    at = source.words.find(wanted) if wanted != " " else -1
    while at >= 0:
        first = bisect_left(source.word_starts, at + 1)
        last = bisect_left(source.word_starts, at + len(wanted))
        ends = [source.word_starts[first] - 1, source.word_starts[min(last, len(source.units))]]
        if ends == [at, at + len(wanted)] and first < last:
            # A unit without words shares its place with the next one.
            while first + 1 < last and source.word_starts[first + 1] == at + 1:
                first += 1
            return source.units[first].start, source.units[last - 1].end
        at = source.words.find(wanted, at + 1)
    return None


def find_windows(claim: str, source: Source) -> list[Window]:
    """Return the windows of a source that hold most of a claim's terms, best first."""
    units = read_source(source).units
    wanted = frozenset(extract_terms(claim))
    count = Counter(term for unit in units for term in wanted & unit.terms)
    weights = {t: math.log(1 + (len(units) + 1) / (count[t] + 0.5)) for t in wanted}
    total = sum(weights.values()) or 1.0

    def measure(places: Iterable[int]) -> float:
        held = frozenset().union(*(units[place].terms for place in places))
        return sum(weight for term, weight in weights.items() if term in held) / total

    order = sorted(range(len(units)), key=lambda place: (-measure([place]), place))[:_CENTRES]
    # Of the sentences of one window the one that holds most is cited.
    runs = {tuple(_widen(best, units)): best for best in reversed(order)}
    heading = " > ".join(source.hit.chunk.heading_path)
    windows = []
    for run, best in runs.items():
        text = " ".join(units[place].text for place in run)
        if heading and len(heading) + len(text) <= _MAX_CHARS:
            text = f"{heading}\n{text}"
        place = (source.number, units[best].start, units[best].end)
        windows.append(Window(*place, text, units[best].kind == "row", measure(run)))
    return sorted(windows, key=lambda window: -window.coverage)


def _widen(best: int, units: Sequence[ReadUnit]) -> list[int]:
    """Return a unit with its lead-in, or a sentence with its neighbours while they are short."""
    lead = units[best].lead
    if lead is not None or units[best].kind != "sentence":
        return [best] if lead is None else [lead, best]
    first, last = best, best
    size = len(units[best].text)
    while True:
        beside = [
            place
            for place in (first - 1, last + 1)
            if 0 <= place < len(units)
            and units[place].kind == "sentence"
            and size + len(units[place].text) <= _MAX_CHARS
        ]
        if not beside:
            return list(range(first, last + 1))
        # The sentence before says more often what "it" is.
        size += len(units[beside[0]].text)
        first, last = min(first, beside[0]), max(last, beside[0])
