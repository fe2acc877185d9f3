"""Prefer the statement that holds at the time a question asks about.

question, candidates and their scores → scores. Three things tell the time of a statement: a date in
it, a table that says from when each row is valid, and a change ("60 days instead of 35") that
replaces what another statement says. A time to come is a plan, and does not count.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragstone.index.analyze import extract_terms
from ragstone.reading.question import Question
from ragstone.reading.units import VALID_FROM, Unit, split_cells

if TYPE_CHECKING:
    from ragstone.reading.features import Candidate

# Sentences compete when their scores differ by no more than this.
_COMPETES = 3.0
# One that is preferred gets the best score and this: enough to stand alone in the answer.
_RAISED = 2.0
_YEAR = re.compile(r"(?<!\d)((?:19|20)\d\d)(?!\d)")
_PAST = re.compile(
    r"\b(?:still (?:cost|was|were)|formerly|previous(?:ly)?|used to|no longer|replaces? the|"
    r"until (?:19|20)\d\d|at that time|back then)\b",
    re.IGNORECASE,
)
# A value that holds no longer, told in passing: "which replaces the list where it still cost €14".
_WITHDRAWN = re.compile(
    r"\b(?:still (?:cost|was|were|had|paid)|formerly|at that time|back then|superseded|"
    r"(?:was|were|is|are|been) withdrawn|used to (?:be|cost|have|pay|take|last)|"
    r"(?:was|were|cost|had)\b[^.;]{0,40}\bpreviously|previously (?:was|were|cost|had)|"
    r"(?:was|were|cost)\b[^.;]{0,60}\bbefore(?= (?:that|then|this|the change)\b|[.,;]|$)|"
    r"(?:war|waren|betrug|galt|galten|kostete[nt]?)\b[^.;]{0,40}\b(?:früher|zuvor)|"
    r"(?:früher|zuvor)\b[^.;]{0,40}\b(?:war|waren|betrug|galt|galten|kostete[nt]?)|"
    r"vormals|ehemals|damals|aufgehoben|außer kraft|galt|galten|kostete[nt]?|"
    r"noch [^.;]{0,40}\b(?:war|waren|betrug))\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[;()]")
_UNTIL = re.compile(r"\b(?:until|till|bis)\b[^.;,]{0,25}?((?:19|20)\d\d)(?!\d)", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_MONEY = re.compile(
    r"[€$£¥]|\b(?:EUR|USD|GBP|CHF|euros?|dollars?|pounds?|francs?)\b", re.IGNORECASE
)
_ASKS_PAST = re.compile(
    # "Was kostet …" is German.
    r"\b(?:(?<!^)was|was(?= (?:the|an?|it|there|this|that|s?he)\b)|were|did|had|been|"
    r"original(?:ly)?|first|initial(?:ly)?|former(?:ly)?|before|"
    r"previous(?:ly)?|old|earlier|used to|change[ds]?|history|develop(?:ed|ment)|"
    r"war|waren|wurden?|hatten?|kostete[nt]?|früher|ursprünglich|vorher|bisher|damals|galt)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:(?:is|are|was|were) (?:hereby )?(?:replaced|amended)\b|instead of\b"
    r"|(?:raised|lowered|increased|reduced|changed|extended|shortened|decreased)\b.{0,40}\bto\b"
    r"|(?:rises?|rose|falls?|fell|goes up|went up|goes down|went down)\b from .{0,40}\bto\b"
    r"|(?:steigt|stieg|sinkt|sank|erhöht|gesenkt|geändert)\b.{0,40}\bvon\b.{0,40}\bauf\b)",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"\b(?:clause|section|article|paragraph|§)\s*(\d+(?:\.\d+)*)", re.IGNORECASE)
_OWN_CLAUSE = re.compile(r"^(?:§\s*)?(\d{1,3}(?:\.\d{1,3})+)\.?\s")
_VALUE = re.compile(r"(?<![\d.,])\d+(?:[.,]?\d)+")
_IN_FORCE = re.compile(
    r"\b(?:effective|in force|valid|dated|as of|from|with effect)\b[^.\n|]{0,30}?"
    r"((?:19|20)\d\d)(?!\d)",
    re.IGNORECASE,
)


def find_years(text: str) -> list[int]:
    return [int(year) for year in _YEAR.findall(text)]


def list_covered_years(units: Sequence[Unit]) -> dict[int, tuple[str, ...]]:
    """Return for the rows of a table of dated values the years in which each is valid.

    A row is valid until the next one begins; the last one until this year. The year that stands in
    a row itself is left out. Keys are the places of the rows in `units`.
    """
    begins: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for place, unit in enumerate(units):
        if (year := find_valid_from(unit)) is not None:
            begins.setdefault(unit.header, []).append((year, place))
    this_year = _this_year()
    covered: dict[int, tuple[str, ...]] = {}
    for rows in begins.values():
        rows.sort()
        ends = [year for year, _ in rows[1:]] + [this_year + 1]
        for (year, place), end in zip(rows, ends, strict=True):
            covered[place] = tuple(str(one) for one in range(year + 1, end))
    return covered


def find_valid_from(unit: Unit) -> int | None:
    """Return the year from which a row is valid; None where its table does not say so."""
    columns = [at for at, name in enumerate(unit.header) if VALID_FROM.search(name)]
    cells = split_cells(unit.text)
    if not columns or columns[0] >= len(cells):
        return None
    years = find_years(cells[columns[0]])
    return years[0] if years else None


def find_covered_year(question: str, candidates: Sequence[Candidate]) -> int | None:
    """Return the one year of a question, if a table of dated values says what is valid in it."""
    years = set(find_years(question))
    if len(years) != 1:
        return None
    (year,) = years
    return year if any(_is_valid_in(year, one) for one in candidates) else None


def _is_valid_in(year: int, one: Candidate) -> bool:
    """Return True for a row of dated values that is valid in a year."""
    begin = one.valid_from
    return begin is not None and (begin == year or str(year) in one.covered_years)


def remove_year(question: str, year: int) -> str:
    """Return a question without its year: a row says it in another way ("from 1 July 2024")."""
    return re.sub(rf"\s*\b(?:(?:in|for|during|of|as of) )?(?:the year )?{year}\b", "", question)


def prefer_valid(
    question: Question,
    candidates: Sequence[Candidate],
    scores: NDArray[np.float64],
    year: int | None = None,
) -> NDArray[np.float64]:
    """Raise the statement that is valid in a year, or now, unless another time is asked about."""
    best = int(np.argmax(scores))
    if year is not None:
        valid = _find_valid_row(year, candidates, scores)
    elif question.wants_latest:
        return _prefer_newest(candidates, scores)
    elif find_years(question.text) or _ASKS_PAST.search(question.text):
        return scores
    elif is_withdrawn(candidates[best].text):
        valid = _find_current(question, best, candidates, scores)
    else:
        scores = _lower_withdrawn(best, candidates, scores)
        valid = _find_newer(best, candidates, scores)
    return scores if valid is None else _raise_one(scores, valid)


def _raise_one(scores: NDArray[np.float64], place: int) -> NDArray[np.float64]:
    raised = scores.copy()
    raised[place] = scores.max() + _RAISED
    return raised


def _find_valid_row(
    year: int, candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> int | None:
    """Return the place of the row of dated values that is valid in a year."""
    best = int(np.argmax(scores))
    found = [
        (one.valid_from or 0, float(scores[at]), at)
        for at, one in enumerate(candidates)
        if _is_valid_in(year, one)
        and (scores[at] >= scores[best] - 2 * _COMPETES or _share_table(candidates[best], one))
    ]
    return max(found)[2] if found else None


def _prefer_newest(
    candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Raise the newest of the dated statements that compete."""
    this_year = _this_year()
    is_past = np.array([bool(_PAST.search(one.text)) for one in candidates])
    scores = scores - 2 * _COMPETES * is_past
    best = int(np.argmax(scores))
    dated = {
        at: max(years)
        for at, one in enumerate(candidates)
        if scores[at] >= scores[best] - _COMPETES
        and (years := [year for year in _list_years(one) if year <= this_year])
    }
    if not dated or (best in dated and len(set(dated.values())) < 2):
        newer = _find_newer(best, candidates, scores)
        return scores if newer is None else _raise_one(scores, newer)
    return _raise_one(scores, max(dated, key=lambda at: (dated[at], scores[at])))


def _list_years(one: Candidate) -> list[int]:
    """Return the years of a statement; of a change, those from which its document is in force."""
    own = find_years(one.text)
    if own or not _CHANGE.search(one.text):
        return own
    return [int(year) for year in _IN_FORCE.findall(one.passage.source.text)]


def _find_newer(
    best: int, candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> int | None:
    """Return the place of a statement that replaces the best one, the newest if there are several.

    It is a later row of the same table of dated values, or of one that holds the best one's value
    in an earlier row; or it changes a number or clause of the best one.
    """
    chosen = candidates[best]
    this_year = _this_year()
    own_clause = _OWN_CLAUSE.match(chosen.text)
    found: list[tuple[int, float, int]] = []
    for at, one in enumerate(candidates):
        begin = one.valid_from
        if begin is not None:
            is_later = (chosen.valid_from or 0) < begin <= this_year
            if is_later and _share_table(chosen, one, before=begin):
                found.append((begin, float(scores[at]), at))
        elif (
            scores[at] >= scores[best] - 2 * _COMPETES
            and _CHANGE.search(one.text)
            and not _CHANGE.search(chosen.text)
        ):
            clauses = _CLAUSE.findall(one.text)
            replaces = own_clause is not None and own_clause[1] in clauses
            if replaces or (not clauses and _find_values(chosen) & _find_values(one)):
                found.append((max(_list_years(one), default=0), float(scores[at]), at))
    return max(found)[2] if found else None


def is_withdrawn(text: str) -> bool:
    """Return True for a statement about what held before, unless it says what holds instead.

    "It costs 209 euros; until 2025 it cost 189 euros." has a value that holds.
    """
    if _CHANGE.search(text):
        return False
    valued = [one for one in _CLAUSE_END.split(text) if _DIGIT.search(one)] or [text]
    return all(map(_tells_past, valued))


def _tells_past(clause: str) -> bool:
    ends = [int(year) for year in _UNTIL.findall(clause)]
    is_over = bool(ends) and max(ends) < _this_year()
    return is_over or bool(_WITHDRAWN.search(clause))


# Terms that say that a value is asked for, not of what.
_LIGHT = frozenset(
    extract_terms("cost price pay charge fee amount rate much many long kosten preis zahlen gebühr")
)


def _find_current(
    question: Question, best: int, candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> int | None:
    """Return the place of the statement that holds in the place of a withdrawn one.

    First one that changes its value; else the best of the same document with a value of the same
    kind, which speaks of what is asked as much. However near the wording of the withdrawn
    one is to the question, its score does not count.
    """
    chosen = candidates[best]
    values, asked = _find_values(chosen), set(extract_terms(question.text)) - _LIGHT
    wanted = asked & set(extract_terms(chosen.text))
    found: list[tuple[bool, float, int]] = []
    for at, one in enumerate(candidates):
        if is_withdrawn(one.text) or max(find_years(one.text), default=0) > _this_year():
            continue
        changes = bool(_CHANGE.search(one.text) and _find_values(one) & values)
        said = set(extract_terms(f"{one.text} {' '.join(one.header)}"))
        if changes or (_are_alike(chosen, one) and wanted and wanted <= said):
            found.append((changes, float(scores[at]), at))
    return max(found)[2] if found else None


def _lower_withdrawn(
    best: int, candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Lower what held before, where the best statement gives the value that holds now."""
    chosen = candidates[best]
    is_past = [_are_alike(chosen, one) and is_withdrawn(one.text) for one in candidates]
    return scores - 2 * _COMPETES * np.array(is_past)


def _are_alike(chosen: Candidate, one: Candidate) -> bool:
    """Return True for statements of one document with values of one kind."""
    return (
        one.source.hit.chunk.document_id == chosen.source.hit.chunk.document_id
        and all(_DIGIT.search(each.text) for each in (one, chosen))
        and bool(_MONEY.search(one.text)) == bool(_MONEY.search(chosen.text))
    )


def _this_year() -> int:
    return time.localtime().tm_year


def _share_table(chosen: Candidate, row: Candidate, before: int | None = None) -> bool:
    """Return True when a statement is a row of the same table, or says a value of it.

    `before` limits this to rows that are valid from an earlier year.
    """
    if chosen.header:
        return chosen.passage is row.passage and chosen.header == row.header
    values = _find_values(chosen)
    return any(
        values & set(_VALUE.findall(unit.text))
        for unit in (one.unit for one in row.passage.analysis.units)
        if unit.header == row.header
        and (before is None or (find_valid_from(unit) or before) < before)
    )


def _find_values(one: Candidate) -> set[str]:
    """Return the numbers of a statement that tell it from others: not those of a day or clause."""
    text = _OWN_CLAUSE.sub("", one.text)
    return {number for number in _VALUE.findall(text) if not _YEAR.fullmatch(number)}
