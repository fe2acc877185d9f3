"""Find a source that disagrees with the answer on the point that was asked."""

from __future__ import annotations

from dataclasses import dataclass

from ragstone.index.analyze import extract_terms
from ragstone.query.check.values import find_missing_values
from ragstone.query.check.verifier import WorkLimit, load_verifier
from ragstone.query.check.windows import read_source
from ragstone.query.ground.cite import CONFLICT_NOTICE, Notation, split_statements
from ragstone.reading.markers import escape_markers

# The share of words, numbers aside, that two sentences on the same point have in common.
_SAME_POINT = 0.6
# Another price, day or hour of the same thing gets .93 and more, of another thing up to .89.
_CONTRADICTED_FROM = 0.9


@dataclass(frozen=True, slots=True)
class Conflict:
    """A sentence of another document that gives another value than the answer."""

    number: int
    sentence: str
    start: int
    end: int

    @property
    def said(self) -> str:
        return escape_markers(self.sentence)

    def format_notice(self, notation: Notation) -> str:
        """Return the text to add: that the sources disagree, and what the other one says."""
        return f" {CONFLICT_NOTICE} {self.said} {notation.format_markers([self.number])}"


def find_conflict(question: str, answer: str, notation: Notation) -> Conflict | None:
    """Return the first sentence of another document that contradicts the first cited statement.

    Both give a value of the same dimension, and share the words of the question and most others.
    """
    statements = [s for s in split_statements(answer, notation) if s.is_claim and s.numbers]
    verifier = load_verifier()
    if not statements or verifier is None:
        return None
    first, mine = statements[0], _find_subject(statements[0].text)
    asked = _find_subject(question) & mine
    cited = {notation.sources[number - 1].hit.chunk.document_id for number in first.numbers}
    limit = WorkLimit.of_seconds(5, max_pairs=8)
    for source in notation.sources:
        if not asked or source.hit.chunk.document_id in cited:
            continue
        for unit in read_source(source).units:
            theirs = _find_subject(unit.text)
            is_related = len(mine & theirs) >= _SAME_POINT * max(len(mine), len(theirs))
            if not asked <= theirs or not is_related or not _differ(first.text, unit.text):
                continue
            if any(not _differ(unit.text, other.text) for other in statements[1:]):
                continue  # the answer says so itself
            scores = verifier.verify(first.text, unit.text, limit)
            if scores and scores.contradicted >= _CONTRADICTED_FROM:
                return Conflict(source.number, unit.text, unit.start, unit.end)
    return None


def _differ(one: str, other: str) -> bool:
    """Return True when each text has a value of the same dimension that the other lacks."""
    mine, theirs = find_missing_values(one, other), find_missing_values(other, one)
    return any(value.can_be_compared(another) for value in mine for another in theirs)


def _find_subject(text: str) -> frozenset[str]:
    """Return the terms of a sentence without its numbers."""
    return frozenset(term for term in extract_terms(text) if not any(map(str.isdigit, term)))
