"""Define what the steps of the pipeline hand to each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ragstone.calls import StopReason
from ragstone.types import AnswerStatus, Citation, Claim, Intent, Query, RetrievedHits, Source

Grade: TypeAlias = Literal["correct", "ambiguous", "incorrect"]

CORRECT_FROM = 0.6
INCORRECT_BELOW = 0.3
ANSWER_FROM = 0.35
"""Below this nothing is quoted as an answer, and what looks like small talk is small talk."""


def grade_evidence(probability: float) -> Grade:
    """Turn the probability that the sources hold the answer into a grade.

    `bench/grounding.py` prints how often each grade held the answer.
    """
    if probability >= CORRECT_FROM:
        return "correct"
    return "ambiguous" if probability >= INCORRECT_BELOW else "incorrect"


@dataclass(frozen=True, slots=True)
class DetectedIntent:
    """Hold an intent, how probable it is, and the layer that detected it."""

    intent: Intent
    confidence: float
    layer: int


@dataclass(frozen=True, slots=True)
class UnderstoodQuery:
    """Hold a query that can be searched, with a `reply` if it looks like small talk."""

    query: Query
    detected: DetectedIntent
    reply: str | None = None
    """The reply to small talk. Only a whole message of layer 0 is answered without a search."""

    @property
    def is_certain_small_talk(self) -> bool:
        return self.reply is not None and self.detected.layer == 0

    def settle(self, evidence: Evidence) -> UnderstoodQuery:
        """Take over the reading that the evidence answers; drop the reply to what it answers."""
        if self.reply is None or not evidence.holds_answer:
            return replace(self, query=evidence.query)
        detected = DetectedIntent("question", 1 - self.detected.confidence, self.detected.layer)
        return UnderstoodQuery(evidence.query, detected)


@dataclass(frozen=True, slots=True)
class Start:
    """Hold the first two steps of a query, so that two answers can share them."""

    understood: UnderstoodQuery
    retrieved: RetrievedHits = field(default_factory=RetrievedHits)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold the sources of a query, and how probable it is that they hold its answer."""

    query: Query
    sources: tuple[Source, ...] = ()
    probability: float = 0.0
    other_wordings: tuple[str, ...] = ()
    """The other wordings that were searched."""
    chunks_found: int = 0
    """How many chunks the searches listed."""
    short_answer: str = ""
    """The name, date or amount asked for, if one was found in the sources."""

    @property
    def grade(self) -> Grade:
        return grade_evidence(self.probability)

    @property
    def holds_answer(self) -> bool:
        """Return True when the sources probably hold the answer."""
        return self.probability >= ANSWER_FROM


@dataclass(slots=True)
class Draft:
    """Hold an answer as it was written, not yet checked."""

    provider: str
    """The name of the provider that wrote it."""
    model: str = ""
    text: str = ""
    is_fallback: bool = False
    """True when the provider failed and the fallback wrote it."""
    is_plain: bool = False
    """True when it was written without documents."""
    stop_reason: StopReason = "stop"


@dataclass(frozen=True, slots=True)
class CheckedDraft:
    """Hold what the check says of a draft."""

    text: str
    status: AnswerStatus = "answered"
    citations: tuple[Citation, ...] = ()
    claims: tuple[Claim, ...] = ()
    is_grounded: bool = False
    groundedness_score: float = 0.0
    confidence: float = 0.0
    citation_precision: float = 0.0
    citation_recall: float = 0.0
    short_answer: str = ""
    highlights: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """Hold one written and checked answer, and the evidence it was written from."""

    evidence: Evidence
    draft: Draft
    checked: CheckedDraft
