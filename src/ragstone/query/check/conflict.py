"""Find a source that disagrees with the answer on the point that was asked.

question, answer and sources → the first sentence that says otherwise, or None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ragstone.index.analyze import extract_terms, terms_memo
from ragstone.query.check.facts import Kind as FactKind
from ragstone.query.check.facts import find_disagreements
from ragstone.query.ground.cite import CONFLICT_NOTICE, Notation, Statement, split_statements
from ragstone.reading.injection import has_instructions
from ragstone.reading.kinds import Kind, detect_kind
from ragstone.reading.markers import escape_markers
from ragstone.reading.units import Unit, split_units

# The share of terms, numbers aside, that two sentences on the same subject have in common.
_SAME_SUBJECT = 0.6
_STATEMENTS_COMPARED = 3
_MAX_DISAGREEMENTS = 2
_DIGIT = re.compile(r"\d")
_QUANTITIES: frozenset[FactKind] = frozenset({"number", "unit"})
_POLARITY: frozenset[FactKind] = frozenset({"negation", "opposite"})
_ASKED_FOR: dict[Kind, frozenset[FactKind]] = {
    "money": _QUANTITIES, "percent": _QUANTITIES, "duration": _QUANTITIES,
    "number": _QUANTITIES, "when": _QUANTITIES | {"date"}, "who": frozenset({"name"}),
    "where": frozenset({"name"}), "yes_no": _QUANTITIES | _POLARITY | {"date"},
    "how": _QUANTITIES | _POLARITY, "what": _QUANTITIES | _POLARITY | {"date"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conflict:
    """Hold a sentence of another source that says otherwise than the answer."""

    number: int
    sentence: str

    def format_notice(self, notation: Notation) -> str:
        """Return the text to add: that the sources disagree, and what the other one says."""
        sentence, marker = escape_markers(self.sentence), notation.format_markers([self.number])
        return f" {CONFLICT_NOTICE} {sentence} {marker}"


def find_conflict(question: str, answer: str, notation: Notation) -> Conflict | None:
    """Return the first disagreement on the point asked, from a source not cited for it.

    None where the answer holds the other sentence's value already, or ends with the question which
    of several values is meant: then it has said so itself.
    """
    wanted = _ASKED_FOR.get(detect_kind(question), frozenset())
    if not wanted or answer.rstrip().endswith("?"):
        return None
    asked = frozenset(extract_terms(question))
    claims = [one for one in split_statements(answer, notation) if one.is_claim]
    claims = claims[:_STATEMENTS_COMPARED]
    for statement in claims:
        subject = _find_subject(statement.text)
        point = asked & subject
        for number, unit in _list_uncited_units(statement, notation) if point else ():
            # Most sentences lack a word of the point, and need not be looked at any further.
            if not point.issubset(terms_memo[unit.sentence]):
                continue
            if not _has_same_subject(subject, _find_subject(unit.sentence)):
                continue
            sentence = " ".join(unit.sentence.split())
            if (
                _is_disagreement(statement.text, sentence, wanted)
                and not any(_is_repeated(sentence, one.text) for one in claims)
                and not has_instructions(unit.text)
            ):
                return Conflict(number, sentence)
    return None


def _list_uncited_units(statement: Statement, notation: Notation) -> list[tuple[int, Unit]]:
    """List the units of the sources that a statement does not cite."""
    return [
        (source.number, unit)
        for source in notation.sources
        if source.number not in statement.numbers
        for unit in split_units(source.text)
    ]


def _has_same_subject(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return len(mine & theirs) >= _SAME_SUBJECT * max(len(mine), len(theirs))


def _is_disagreement(mine: str, theirs: str, wanted: frozenset[FactKind]) -> bool:
    """Return True when two sentences contradict each other, and only on what was asked."""
    found = [one for one in find_disagreements(mine, theirs, theirs) if one.contradicts]
    back = [one for one in find_disagreements(theirs, mine, mine) if one.contradicts]
    kinds: set[FactKind] = {one.kind for one in found}
    if not kinds or not back or not kinds <= wanted:
        return False
    return "name" in kinds or len(found) <= _MAX_DISAGREEMENTS


def _is_repeated(sentence: str, statement: str) -> bool:
    """Return True when a statement of the answer says the same as the sentence."""
    subject = _find_subject(sentence)
    shared = len(_find_subject(statement) & subject)
    return shared >= _SAME_SUBJECT * len(subject) and not any(
        True for _ in find_disagreements(sentence, statement, statement)
    )


def _find_subject(text: str) -> frozenset[str]:
    """Return the terms of a sentence without numbers."""
    return frozenset(term for term in extract_terms(text) if not _DIGIT.search(term))
