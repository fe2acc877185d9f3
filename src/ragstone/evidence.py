"""Define what the steps of the pipeline hand to each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from ragstone.calls import StopReason
from ragstone.types import AnswerStatus, Citation, Claim, Intent, Query, RetrievedHits, Source

Grade: TypeAlias = Literal["correct", "ambiguous", "incorrect"]

CORRECT_FROM = 0.6
INCORRECT_BELOW = 0.3
ANSWER_FROM = 0.46
"""Below this nothing is quoted as an answer, and what looks like small talk is small talk."""
NEAR_FROM = 0.07
"""From here on the closest passages are shown, labelled as such."""


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
class ScoredUnit:
    """A unit of a source, at `text[start:end]`, with its score as an answer."""

    source: int
    """The number of its source."""
    start: int
    end: int
    score: float
    """Log odds of its best span against "no answer"."""
    answer: tuple[int, int]
    """The words of the source that answer."""


@dataclass(frozen=True, slots=True)
class Extract:
    """What the reader takes from the sources of a question."""

    answers: tuple[ScoredUnit, ...] = ()
    """The best unit, and those that score nearly as well."""
    closest: tuple[ScoredUnit, ...] = ()
    """The best unit of each of the closest passages."""
    probability: float = 0.0
    """How probable it is that the best unit answers the question."""
    short_answer: str = ""
    """The name, date or amount asked for, if the best unit has one."""
    verdict: Literal["Yes", "No", ""] = ""
    """What the best unit says to a yes/no question, where that is sure."""
    is_unread: bool = False
    """True for a text that the reader can't read: the closest passages are those of the search."""

    @property
    def outcome(self) -> Literal["answered", "near", "abstained"]:
        if self.probability >= ANSWER_FROM:
            return "answered"
        is_near = self.is_unread or self.probability >= NEAR_FROM
        return "near" if is_near and self.closest else "abstained"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sources of a query, and how probable it is that they hold its answer."""

    query: Query
    sources: tuple[Source, ...] = ()
    extract: Extract = field(default_factory=Extract)
    other_wordings: tuple[str, ...] = ()
    """The other wordings that were searched."""
    chunks_found: int = 0
    """How many chunks the searches listed."""

    @property
    def probability(self) -> float:
        """How probable it is that the sources hold the answer."""
        outline = self.query.outline
        return self.extract.probability if outline is None else outline.probability

    @property
    def grade(self) -> Grade:
        return grade_evidence(self.probability)

    @property
    def holds_answer(self) -> bool:
        """Return True when the sources probably hold the answer."""
        return self.probability >= ANSWER_FROM


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation of a draft: the text to show, and the span of the source it rests on."""

    text: str
    source: int
    start: int
    end: int
    place: int
    """Where it begins in the text of its draft."""

    @property
    def end_place(self) -> int:
        """Where it ends: its marker follows, and after that its listing."""
        return self.place + len(self.text.partition("\n\n```")[0])


@dataclass(slots=True)
class Draft:
    """An answer as it was written, not yet checked."""

    provider: str
    """The name of the provider that wrote it."""
    model: str = ""
    text: str = ""
    is_fallback: bool = False
    """True when the provider failed and the fallback wrote it."""
    is_plain: bool = False
    """True when it was written without documents."""
    stop_reason: StopReason = "stop"
    status: Literal["written", "answered", "near", "abstained"] = "written"
    """What a reader quoted has one of three outcomes; what a model wrote is still to be checked."""
    quotes: tuple[Quote, ...] = ()
    """The quotations of an answer that no model wrote, in their order."""


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
