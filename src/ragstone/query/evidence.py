"""What the evidence of a question is worth, before anything is written: no LLM is asked.

sources and choice → a grade. The probability that the best sentences answer the question is the
sentence chooser's; `bench/grounding.py` prints how often each grade held the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ragstone.types import Query, Source

Grade: TypeAlias = Literal["correct", "ambiguous", "incorrect"]

CORRECT_FROM = 0.6
INCORRECT_BELOW = 0.3


def graded(probability: float) -> Grade:
    if probability >= CORRECT_FROM:
        return "correct"
    return "ambiguous" if probability >= INCORRECT_BELOW else "incorrect"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sources that were found for a query, and how probable it is that they hold its answer."""

    query: Query
    sources: tuple[Source, ...] = ()
    probability: float = 0.0
    tried: tuple[str, ...] = field(default=())
    """The other wordings that were searched for."""

    @property
    def grade(self) -> Grade:
        return graded(self.probability)
