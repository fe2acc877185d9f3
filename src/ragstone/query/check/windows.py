"""Find the few sentences of a source that a claim must be read against.

claim and source → windows of one to four sentences, table rows with their header. Chosen by words,
rare ones counting more: reading a window costs milliseconds, choosing it microseconds. Text that
reads like an instruction to a model is never evidence.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragstone.index.analyze import extract_terms
from ragstone.reading.injection import find_suspicious_spans
from ragstone.reading.layout import clean_for_reading
from ragstone.reading.units import split_units
from ragstone.text import LIST_MARK, find_sentence_spans

WINDOW_SENTENCES = 4
_SCATTERED_SENTENCES = 3
_CENTRES = 3
_NAMES_BOTH = 0.25
_MAX_WINDOW_CHARS = 1_400
# The snippet of a citation may leave out sentences that add less than this to the coverage.
_SNIPPET_SHARE = 0.85
_TOKEN = re.compile(r"(?<![\w.])[-−–]\d[\w.,]*\w|\d[\w.,]*\w|\w+|[%‰€$£¥°<>≤≥±]")
_LIST_MARK = re.compile(rf"\s*{LIST_MARK}\s+")
_NEGATIVE_LEAD = re.compile(
    r"\b(?:not|never|no|avoid|wrong|false|myths?|incorrect|don['’]t|untrue|forbidden|excluded?|"
    r"except)\b[^.!?]*:\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """Hold a sentence or row of a source, as it is read, and its place in the stored text."""

    start: int
    end: int
    text: str
    terms: frozenset[str]
    is_row: bool


@dataclass(frozen=True, slots=True)
class SuspiciousPart:
    """Hold a sentence that reads like an instruction."""

    start: int
    end: int
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Hold a source split for reading."""

    units: tuple[ReadUnit, ...]
    terms: frozenset[str]
    suspicious: tuple[SuspiciousPart, ...]
    words: str
    """All units as words, each between spaces, to find quotations."""
    word_starts: tuple[int, ...]
    """The place in `words` at which each unit begins, and the end of the last."""
    negated: frozenset[int]
    """Units under a lead-in such as "Do not:"."""


@dataclass(frozen=True, slots=True)
class Window:
    """Hold sentences of one source to read a claim against; `start` and `end` are its snippet."""

    number: int
    text: str
    start: int
    end: int
    coverage: float


@lru_cache(maxsize=1024)
def read_source(text: str) -> ReadSource:
    """Split a source into units without markup and without suspicious sentences."""
    clean = clean_for_reading(text)
    spans = find_suspicious_spans(text)
    units: list[ReadUnit] = []
    negated: set[int] = set()
    lead = ""
    for unit in split_units(clean.text):
        start, end = clean.locate(unit.start, unit.end)
        if any(start < stop and begin < end for begin, stop in spans):
            continue
        sentence = " ".join(unit.sentence.split())
        if unit.header or _LIST_MARK.match(unit.text):
            if _NEGATIVE_LEAD.search(lead):
                negated.add(len(units))
        else:
            lead = sentence
        terms = frozenset(extract_terms(sentence))
        units.append(ReadUnit(start, end, sentence, terms, bool(unit.header)))
    words, starts = _join_words(units)
    return ReadSource(
        tuple(units),
        frozenset().union(*(unit.terms for unit in units)),
        tuple(_split_suspicious(text, spans)),
        words,
        starts,
        frozenset(negated),
    )


def _split_suspicious(text: str, spans: Sequence[tuple[int, int]]) -> list[SuspiciousPart]:
    return [
        SuspiciousPart(start, end, frozenset(extract_terms(text[start:end])))
        for start, end in find_sentence_spans(text)
        if any(start < stop and begin < end for begin, stop in spans)
    ]


def _join_words(units: Sequence[ReadUnit]) -> tuple[str, tuple[int, ...]]:
    joined = " "
    starts = []
    for unit in units:
        starts.append(len(joined))
        words = split_exact_words(unit.text)
        joined += " ".join(words) + (" " if words else "")
    return joined, (*starts, len(joined))


def split_exact_words(text: str) -> list[str]:
    """Return words and signs that carry meaning (%, €, a minus), without a list's mark."""
    plain = unicodedata.normalize("NFKC", _LIST_MARK.sub("", text, count=1)).casefold()
    plain = plain.replace("’", "").replace("'", "").replace("−", "-").replace("–", "-")
    return _TOKEN.findall(plain)


def find_quotation(claim: str, source: ReadSource) -> tuple[int, int] | None:
    """Return the place of a claim that stands word for word in a source, as whole sentences.

    Part of a sentence is not a quotation: a condition or a "not" may stand in the rest.
    """
    words = split_exact_words(claim)
    if not words:
        return None
    wanted = f" {' '.join(words)} "
    at = source.words.find(wanted)
    while at >= 0:
        first = bisect_left(source.word_starts, at + 1)
        last = bisect_left(source.word_starts, at + len(wanted))
        begins = first < len(source.units) and source.word_starts[first] == at + 1
        ends = last < len(source.word_starts) and source.word_starts[last] == at + len(wanted)
        # Units without words share their place with the next one.
        while first + 1 < last and source.word_starts[first + 1] == at + 1:
            first += 1
        if begins and ends and first < last and first not in source.negated:
            return source.units[first].start, source.units[last - 1].end
        at = source.words.find(wanted, at + 1)
    return None


def weigh_terms(wanted: frozenset[str], units: Sequence[ReadUnit]) -> dict[str, float]:
    """Return the weight of each term of a claim: the rarer in the source, the higher."""
    count = Counter(term for unit in units for term in wanted & unit.terms)
    raw = {t: math.log(1 + (len(units) + 1) / (count[t] + 0.5)) for t in wanted}
    total = sum(raw.values()) or 1.0
    return {term: weight / total for term, weight in raw.items()}


def find_windows(claim: str, number: int, source: ReadSource) -> list[Window]:
    """Return the best run of up to four sentences, and the best sentences wherever they are."""
    units = source.units
    if not units:
        return []
    weights = weigh_terms(frozenset(extract_terms(claim)), units)
    coverage = [_measure(weights, unit.terms) for unit in units]
    order = sorted(range(len(units)), key=lambda place: (-coverage[place], place))
    runs = [_find_best_run(weights, units, order)]
    if len(units) > WINDOW_SENTENCES and not units[order[0]].is_row:
        runs.append(_find_scattered(weights, units, order))
    return [
        _build_window(number, weights, units, places)
        for places in dict.fromkeys(tuple(run) for run in runs if run)
    ]


def _measure(weights: dict[str, float], terms: frozenset[str]) -> float:
    return sum(weight for term, weight in weights.items() if term in terms)


def _measure_all(
    weights: dict[str, float], units: Sequence[ReadUnit], places: Sequence[int]
) -> float:
    return _measure(weights, frozenset().union(*(units[place].terms for place in places)))


def _find_best_run(
    weights: dict[str, float], units: Sequence[ReadUnit], order: Sequence[int]
) -> list[int]:
    best = order[0]
    if units[best].is_row:
        # Another row says nothing about this one, and its values must not confirm a claim; two rows
        # are read together only where a claim names both.
        rows = [
            place
            for place in order[1:2]
            if units[place].is_row
            and _measure(weights, units[place].terms - units[best].terms) >= _NAMES_BOTH
        ]
        return sorted([best, *rows])
    found: tuple[float, int, list[int]] | None = None
    for centre in order[:_CENTRES]:
        for begin in range(max(0, centre - WINDOW_SENTENCES + 1), centre + 1):
            run = list(range(begin, min(begin + WINDOW_SENTENCES, len(units))))
            distance = -abs(best - (run[0] + run[-1]) // 2)
            rank = (round(_measure_all(weights, units, run), 6), distance, run)
            if found is None or rank[:2] > found[:2]:
                found = rank
    return found[2] if found else [best]


def _find_scattered(
    weights: dict[str, float], units: Sequence[ReadUnit], order: Sequence[int]
) -> list[int]:
    """Return the sentences that together hold most of the claim's terms."""
    chosen: list[int] = []
    covered: set[str] = set()
    for _ in range(_SCATTERED_SENTENCES):
        rest = [place for place in order[:24] if place not in chosen]
        if not rest:
            break
        place = max(rest, key=lambda one: _measure(weights, units[one].terms - covered))
        chosen.append(place)
        covered |= units[place].terms
    return sorted(chosen)


def _build_window(
    number: int, weights: dict[str, float], units: Sequence[ReadUnit], places: Sequence[int]
) -> Window:
    coverage = _measure_all(weights, units, places)
    first, last = _find_snippet(weights, units, places, coverage)
    text = " ".join(units[place].text for place in places)
    return Window(number, text[:_MAX_WINDOW_CHARS], units[first].start, units[last].end, coverage)


def _find_snippet(
    weights: dict[str, float], units: Sequence[ReadUnit], places: Sequence[int], coverage: float
) -> tuple[int, int]:
    """Return the shortest run of the window that holds nearly all its terms."""
    first, last = places[0], places[-1]
    if last - first != len(places) - 1:  # scattered: the best sentence stands for all
        best = max(places, key=lambda place: _measure(weights, units[place].terms))
        return best, best
    runs = [
        (end - begin, -_measure_all(weights, units, range(begin, end + 1)), begin, end)
        for begin in range(first, last + 1)
        for end in range(begin, last + 1)
    ]
    good = [run for run in runs if -run[1] >= _SNIPPET_SHARE * coverage]
    _, _, begin, end = min(good or runs)
    return begin, end


def rank_sources(claim: str, sources: Sequence[ReadSource]) -> list[int]:
    """Return the places of the sources that hold most of a claim's terms, best first."""
    wanted = frozenset(extract_terms(claim))
    shares: list[tuple[float, int]] = []
    for place, source in enumerate(sources):
        best = max((len(wanted & unit.terms) for unit in source.units), default=0)
        if best:
            shares.append((-(best + 0.5 * len(wanted & source.terms)), place))
    return [place for _, place in sorted(shares)]


def find_suspicious_part(claim: str, source: ReadSource, least: float) -> SuspiciousPart | None:
    """Return the sentence that reads like an instruction and holds `least` of a claim's terms."""
    wanted = frozenset(extract_terms(claim))
    best = max(source.suspicious, key=lambda one: len(wanted & one.terms), default=None)
    if best is None or not wanted or len(wanted & best.terms) < least * len(wanted):
        return None
    return best
