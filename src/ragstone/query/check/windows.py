"""Find the few lines of a source that a claim must be read against.

claim and source → windows: one or two neighbouring units, a row under its header, an item with its
lead-in. They are chosen by words, rare ones counting more. Text that reads like an instruction to a
model is never evidence.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ragstone.index.analyze import extract_terms
from ragstone.reading.injection import find_suspicious_spans
from ragstone.reading.units import find_units
from ragstone.text import LIST_MARK, find_sentence_spans
from ragstone.types import Source

# About 100 tokens: of whole passages (170 tokens) true sentences about a row or a list got .05 to
# .5, of windows of this size .6 to .98.
_MAX_CHARS = 400
_MAX_UNITS = 4
_CENTRES = 6
# A neighbour joins the window if it holds this share more of the claim's terms.
_WORTH_JOINING, _WORTH_JOINING_APART = 0.04, 0.2
_WORD = re.compile(r"(?<![\w.])[-−–]\d[\w.,]*\w|\d[\w.,]*\w|[^\W_]+|[%‰€$£¥°<>≤≥±]")
_LINK_TARGET = re.compile(r"(?<=\])\([^()\s]*\)|<[^<>\s]+>")
Measure: TypeAlias = Callable[[Iterable[int]], float]
_LIST_MARK = re.compile(rf"\s*{LIST_MARK}\s+")


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """A sentence, item or row of a source as it is read, and its place in the stored text."""

    start: int
    end: int
    text: str
    terms: frozenset[str]
    is_row: bool
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
        if is_suspicious(unit.start, unit.end):
            continue
        places[place] = len(units)
        said = " ".join(unit.sentence.split())
        terms, lead = frozenset(extract_terms(said)), places.get(unit.lead)
        units.append(ReadUnit(unit.start, unit.end, said, terms, unit.kind == "row", lead))
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
        begins = source.word_starts[first] == at + 1
        ends = source.word_starts[min(last, len(source.units))] == at + len(wanted)
        if begins and ends and first < last:
            # A unit without words shares its place with the next one.
            while first + 1 < last and source.word_starts[first + 1] == at + 1:
                first += 1
            return source.units[first].start, source.units[last - 1].end
        at = source.words.find(wanted, at + 1)
    return None


def find_windows(claim: str, source: Source) -> list[Window]:
    """Return the windows of a source that hold most of a claim's terms, best first."""
    units = read_source(source).units
    weights = _weigh_terms(frozenset(extract_terms(claim)), units)

    def measure(places: Iterable[int]) -> float:
        held = frozenset().union(*(units[place].terms for place in places))
        return sum(weight for term, weight in weights.items() if term in held)

    order = sorted(range(len(units)), key=lambda place: (-measure([place]), place))[:_CENTRES]
    runs = [_grow(place, units, measure) for place in order]
    # What a claim joins may stand apart, in two rows or two paragraphs.
    apart = [sorted({*order[:1], place}) for place in order[1:]]
    runs += [run for run in apart if measure(run) >= measure(order[:1]) + _WORTH_JOINING_APART]
    found = {tuple(run): measure(run) - _WORTH_JOINING * len(run) for run in runs}
    ranked = sorted(found, key=lambda run: -found[run])
    return [_build_window(source, [units[place] for place in run], measure(run)) for run in ranked]


def _weigh_terms(wanted: frozenset[str], units: Sequence[ReadUnit]) -> dict[str, float]:
    """Return the weight of each term of a claim: the rarer in the source, the higher."""
    count = Counter(term for unit in units for term in wanted & unit.terms)
    raw = {term: math.log(1 + (len(units) + 1) / (count[term] + 0.5)) for term in wanted}
    total = sum(raw.values()) or 1.0
    return {term: weight / total for term, weight in raw.items()}


def _grow(place: int, units: Sequence[ReadUnit], measure: Measure) -> list[int]:
    """Add the lead-in, then the neighbours that hold more of the claim, while it stays short."""
    lead = units[place].lead
    run = [place] if lead is None else [lead, place]
    while lead is None and not units[place].is_row and len(run) < _MAX_UNITS:
        wider = [
            sorted([*run, beside])
            for beside in (run[0] - 1, run[-1] + 1)
            if 0 <= beside < len(units) and not units[beside].is_row
        ]
        best = max(wider, key=measure, default=run)
        size = sum(len(units[place].text) for place in best)
        if best is run or size > _MAX_CHARS or measure(best) < measure(run) + _WORTH_JOINING:
            break
        run = best
    return run


def _build_window(source: Source, units: Sequence[ReadUnit], coverage: float) -> Window:
    text = " ".join(unit.text for unit in units)
    heading = " > ".join(source.hit.chunk.heading_path)
    if heading and len(heading) + len(text) <= _MAX_CHARS:
        text = f"{heading}\n{text}"
    # Of units that stand apart the last is cited: a citation is one span.
    return Window(source.number, units[0].start, units[-1].end, text[: 2 * _MAX_CHARS], coverage)
