"""Two sources that disagree on the point asked: found, said, and both cited.

question, answer and sources → the sentence of another source that says otherwise. Careful rather
than complete: the two sentences must be about the same thing in nearly the same words, and
disagree in one kind of fact only, the one that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.index.analyze import terms
from ragstone.query.check.facts import Kind as FactKind
from ragstone.query.check.facts import disagreements
from ragstone.query.ground.cite import CONFLICT_NOTICE, Statement, statements
from ragstone.query.ground.inject import reads_like_instructions
from ragstone.query.ground.markers import Notation, neutral
from ragstone.reading.kinds import Kind, question_kind
from ragstone.reading.units import Unit, units

# Of the terms that are no facts, so much must be the same in both sentences.
_SAME_SUBJECT = 0.6
_STATEMENTS_COMPARED = 3
_MOST_NUMBERS = 2
_QUANTITIES: frozenset[FactKind] = frozenset({"number", "unit"})
_POLARITY: frozenset[FactKind] = frozenset({"negation", "opposite"})
_ASKED_FOR: dict[Kind, frozenset[FactKind]] = {
    "money": _QUANTITIES, "percent": _QUANTITIES, "duration": _QUANTITIES,
    "number": _QUANTITIES, "when": _QUANTITIES | {"date"}, "who": frozenset({"name"}),
    "where": frozenset({"name"}), "yes_no": _QUANTITIES | _POLARITY | {"date"},
    "how": _QUANTITIES | _POLARITY, "what": _QUANTITIES | _POLARITY | {"date"},
}  # fmt: skip


_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A sentence of another source that says otherwise than the answer."""

    number: int
    sentence: str

    def notice(self, notation: Notation) -> str:
        """What is added to the answer: that the sources disagree, and what the other one says."""
        return f" {CONFLICT_NOTICE} {neutral(self.sentence)} {notation.written([self.number])}"


def find_conflict(question: str, answer: str, notation: Notation) -> Conflict | None:
    """The first disagreement on the point asked, of a source that the answer does not cite for it.

    None where the answer holds the other sentence's value already: then it has said so itself.
    """
    wanted = _ASKED_FOR.get(question_kind(question), frozenset())
    if not wanted:
        return None
    asked = frozenset(terms(question))
    said = [one for one in statements(answer, notation) if one.is_claim][:_STATEMENTS_COMPARED]
    for statement in said:
        subject = _subject(statement.text)
        point = asked & subject
        for number, unit in _others(statement, notation) if point else ():
            sentence = " ".join(unit.words.split())
            about = _subject(unit.words)
            if not point <= about or not _overlap(subject, about):
                continue
            if _disagree(statement.text, sentence, wanted) and not any(
                _agree(one.text, sentence) for one in said
            ):
                return Conflict(number, sentence)
    return None


def _others(statement: Statement, notation: Notation) -> Iterator[tuple[int, Unit]]:
    for source in notation.sources:
        if source.number not in statement.numbers:
            for unit in units(source.text):
                if not reads_like_instructions(unit.text):
                    yield source.number, unit


def _overlap(mine: frozenset[str], theirs: frozenset[str]) -> bool:
    return len(mine & theirs) >= _SAME_SUBJECT * max(len(mine), len(theirs))


def _disagree(mine: str, theirs: str, wanted: frozenset[FactKind]) -> bool:
    found = [one for one in disagreements(mine, theirs, theirs) if one.contradicts]
    back = [one for one in disagreements(theirs, mine, mine) if one.contradicts]
    kinds: set[FactKind] = {one.kind for one in found}
    if not kinds or not back or not kinds <= wanted:
        return False
    return "name" in kinds or len(found) <= _MOST_NUMBERS


def _agree(mine: str, theirs: str) -> bool:
    """Whether a statement of the answer says the same already."""
    same = len(_subject(mine) & _subject(theirs)) >= _SAME_SUBJECT * len(_subject(theirs))
    return same and not any(True for _ in disagreements(theirs, mine, mine))


def _subject(text: str) -> frozenset[str]:
    """What a sentence is about: its terms without numbers."""
    return frozenset(term for term in terms(text) if term.isalpha() or not _DIGIT.search(term))
