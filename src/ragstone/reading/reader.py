"""Read a question with the passages that were found: sources → an extract.

The network reads the question with each of the first passages under its headings, and scores every
unit by its best span against "no answer". Two passages are read first, then up to five while no
unit is good enough. There are no rules and one threshold; the score alone is the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ragstone.evidence import ANSWER_FROM, Extract, ScoredUnit
from ragstone.index.analyze import detect_language, extract_terms
from ragstone.reading.injection import find_suspicious_spans
from ragstone.reading.model import ReadingModel, load_reading_model
from ragstone.reading.units import Unit, list_units
from ragstone.reading.yes_no import YesNo, judge_yes_no
from ragstone.types import Source

FIRST, MOST = 2, 5
# The probability that a unit answers, from its log odds against "no answer": fitted to the
# answers given on the development halves of three packs (bench/calibrate.py).
_SLOPE, _OFFSET = 0.29, 0.71
_MAX_UNITS = 3
# So far below the best unit, in log odds, another one is quoted with it.
_MARGIN = 5.0
# A short answer is a name, a date or an amount, and stands alone: it has to be likelier.
_SHORT_FROM, _MAX_SHORT_WORDS = 0.6, 9
_MAX_LANGUAGE_CHARS = 600


def estimate_probability(score: float) -> float:
    """Turn the score of the best unit into the probability that it answers the question."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, _SLOPE * score + _OFFSET))))


def estimate_score(probability: float) -> float:
    """Return the score that has a probability."""
    return (math.log(probability / (1 - probability)) - _OFFSET) / _SLOPE


@dataclass(frozen=True, slots=True)
class UnitReader:
    """Scores the units of passages with the reading model."""

    model: ReadingModel = field(default_factory=load_reading_model)

    def read(self, question: str, sources: Sequence[Source]) -> Extract:
        """Return the units nearest to an answer, and how probable it is that the best answers."""
        if not sources or not self.model.is_installed or not can_read(question, sources):
            return list_nearest(question, sources)
        scored: list[ScoredUnit] = []
        for some in (sources[:FIRST], *([source] for source in sources[FIRST:MOST])):
            scored += self._score(question, some)
            best = max(scored, key=lambda unit: unit.score, default=None)
            if best is not None and estimate_probability(best.score) >= ANSWER_FROM:
                break
        if best is None:
            return Extract()
        ranked = sorted(scored, key=lambda unit: -unit.score)
        probability = estimate_probability(best.score)
        near = [unit for unit in ranked[:_MAX_UNITS] if unit.score >= best.score - _MARGIN]
        short = _take_short_answer(question, best, sources, probability)
        verdict = self._judge(question, best, sources) if probability >= ANSWER_FROM else ""
        closest = {unit.source: unit for unit in reversed(ranked)}.values()
        ordered = tuple(sorted(closest, key=lambda unit: -unit.score))
        return Extract(tuple(near), ordered[:_MAX_UNITS], probability, short, verdict)

    def _score(self, question: str, sources: Sequence[Source]) -> Iterator[ScoredUnit]:
        readable = [list_readable(source) for source in sources]
        captions = [source.hit.chunk.caption for source in sources]
        texts = [f"{above}{source.text}" for above, source in zip(captions, sources, strict=True)]
        places = [
            [(len(above) + unit.start, len(above) + unit.end) for unit in units]
            for above, units in zip(captions, readable, strict=True)
        ]
        read = self.model.read(question, texts, places)
        for source, above, units, spans in zip(sources, captions, readable, read, strict=True):
            for unit, span in zip(units, spans, strict=True):
                answer = span.start - len(above), span.end - len(above)
                if math.isfinite(span.score):
                    yield ScoredUnit(source.number, unit.start, unit.end, span.score, answer)

    def _judge(self, question: str, best: ScoredUnit, sources: Sequence[Source]) -> YesNo:
        source = next(source for source in sources if source.number == best.source)
        unit = next(unit for unit in list_units(source) if unit.start == best.start)
        return judge_yes_no(question, unit.sentence, self.model)


def list_readable(source: Source) -> list[Unit]:
    """Return the units that may be quoted: no column names, nothing that instructs a model."""
    suspicious = find_suspicious_spans(source.text)
    return [
        unit
        for unit in list_units(source)
        if unit.kind != "header"
        and not any(start < unit.end and unit.start < end for start, end in suspicious)
    ]


def can_read(question: str, sources: Sequence[Source]) -> bool:
    """Return True when question and text are in the language that the network was taught."""
    texts = (question, sources[0].text[:_MAX_LANGUAGE_CHARS])
    return all(detect_language(text) in (None, "english") and _is_latin(text) for text in texts)


def _is_latin(text: str) -> bool:
    letters = [char for char in text if char.isalpha()]
    return sum(char.isascii() for char in letters) >= 0.9 * len(letters)


def list_nearest(question: str, sources: Sequence[Source]) -> Extract:
    """Return for each of the first passages the unit that shares most words with the question."""
    asked = set(extract_terms(question))
    found: list[ScoredUnit] = []
    for source in sources[:_MAX_UNITS]:
        units = list_readable(source)
        if units:
            unit = max(units, key=lambda unit: len(asked & set(extract_terms(unit.sentence))))
            place = unit.start, unit.end
            found.append(ScoredUnit(source.number, *place, -math.inf, place))
    return Extract((), tuple(found), 0.0, is_unread=True)


def _take_short_answer(
    question: str, best: ScoredUnit, sources: Sequence[Source], probability: float
) -> str:
    """Return the words that answer, if they are few and are not those of the question."""
    text = next(source.text for source in sources if source.number == best.source)
    short = " ".join(text[slice(*best.answer)].split()).strip(" ,;:|")
    is_short = probability >= _SHORT_FROM and 0 < len(short.split()) <= _MAX_SHORT_WORDS
    return short if is_short and short.casefold() not in question.casefold() else ""
