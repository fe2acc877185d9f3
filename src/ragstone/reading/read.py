"""Read the passages of candidates with the reading model: features and short answers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragstone.protocols import Vectors
from ragstone.reading.features import Candidate
from ragstone.reading.model import ReadingModel

READING = (
    "read", "read_lead", "read_positive", "relevance", "relevance_lead", "short_span",
    "read_around", "read_best", "read_deep",
)  # fmt: skip
_NOT_READ = -14.0
_MAX_READ = 8.0
# A question in words that no passage has gets scores far below `_NOT_READ` everywhere. Which
# sentence is the best one still shows.
_DEEPEST = -30.0
_MAX_BEHIND = 12.0


@dataclass(frozen=True, slots=True)
class ShortAnswer:
    """Hold the words of a sentence that the reading model points at, and its score."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class ReadSentences:
    """Hold the features of sentences that were read, and the short answer found in each."""

    features: Vectors
    short_answers: list[ShortAnswer]


def read_sentences(
    question: str, sentences: Sequence[Candidate], model: ReadingModel
) -> ReadSentences:
    """Read the passages of the sentences: one row each, one column per name in `READING`."""
    passages = list(dict.fromkeys(one.passage for one in sentences))
    inside = [[one for one in sentences if one.passage is passage] for passage in passages]
    texts = [passage.readable.text for passage in passages]
    regions = [[one.passage.readable.units[one.order] for one in some] for some in inside]
    read = model.read_sentences(question, texts, regions)
    best_relevance = max(one.relevance for one in read)
    best_score = max((span.score for one in read for span in one.spans), default=_DEEPEST)
    found: dict[Candidate, tuple[list[float], ShortAnswer]] = {}
    for text, candidates, one in zip(texts, inside, read, strict=True):
        scores = [max(span.score, _NOT_READ) for span in one.spans]
        for at, (candidate, span) in enumerate(zip(candidates, one.spans, strict=True)):
            near = [scores[n] for n in (at - 1, at + 1) if 0 <= n < len(scores)]
            best_here = max(other.score for other in one.spans)
            row = [
                min(scores[at], _MAX_READ),
                max(span.score - best_here, -_MAX_BEHIND),
                max(0.0, min(scores[at], _MAX_READ)),
                one.relevance,
                one.relevance - best_relevance,
                math.exp(-max(span.end - span.start, 0) / 40),
                min(max(near, default=_NOT_READ), _MAX_READ),
                max(span.score - best_score, -_MAX_BEHIND),
                min(max(span.score, _DEEPEST) - _NOT_READ, 0.0),
            ]
            region = candidate.passage.readable.units[candidate.order]
            short = _complete_date(
                text[slice(*region)], span.start - region[0], span.end - region[0]
            )
            found[candidate] = row, ShortAnswer(short, span.score)
    rows = [found[one] for one in sentences]
    features = np.array([row for row, _ in rows], dtype=np.float32)
    return ReadSentences(features, [short for _, short in rows])


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DATE = re.compile(
    rf"(?:\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?)?{_MONTH} (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?\d{{4}}"
    r"|\d{4}-\d{2}-\d{2}"
)


def _complete_date(sentence: str, start: int, end: int) -> str:
    """Return a span of a sentence; part of a date becomes the whole date."""
    for match in _DATE.finditer(sentence):
        if match.start() <= start and end <= match.end():
            return match[0]
    return sentence[max(start, 0) : end]
