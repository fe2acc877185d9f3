"""List what a message may mean in its conversation, and go on where an answer ended.

message and earlier turns → readings, each a text to search: as typed, after the previous question,
with the subject of the last answer. The documents decide between them (`query/answer.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ragstone.evidence import Evidence, Extract, ScoredUnit
from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.messages import list_translations
from ragstone.query.understand.small_talk import match_small_talk
from ragstone.reading.classifier import classify
from ragstone.reading.units import list_units
from ragstone.text import find_sentence_spans, split_words
from ragstone.types import NO_ANSWER, Message, Reading

_MARKER = re.compile(r"\s*\[(?:Source \d+|[\w.-]{1,80}:\d{1,6})\]")
_MAX_CHARS = 300
_MAX_SUBJECT_WORDS = 8
# A sentence counts as said when so many of its words are in the earlier answer.
_SAID = 0.8
_MIN_UNIT_WORDS = 4
_MAX_UNITS = 3


def list_readings(text: str, history: Sequence[Message]) -> tuple[Reading, ...]:
    """Return what a message may mean, as it is typed first."""
    question, answer = find_last_exchange(history)
    typed = Reading(text)
    if not question or split_words(question) == split_words(text):
        return (typed,)
    if classify("stands_alone", text)[0] == "more":
        return (Reading(question, "more"),)
    readings = [typed, Reading(f"{question} {text}"[-_MAX_CHARS:], "joined")]
    if subject := find_subject(question, answer):
        readings.append(Reading(f"{text} ({subject})", "subject"))
    return tuple(readings)


def find_last_exchange(history: Sequence[Message]) -> tuple[str, str]:
    """Return the last question, as it was searched, and its answer; small talk is left out.

    The answer is empty where the documents held none.
    """
    answer = ""
    for message in reversed(history):
        if message.role == "assistant":
            answer = _MARKER.sub("", message.content).strip()
        elif message.role == "user" and match_small_talk(message.content) is None:
            is_refusal = answer.startswith(list_translations(NO_ANSWER))
            return message.searched_as or message.content, "" if is_refusal else answer
    return "", ""


def find_subject(question: str, answer: str) -> str:
    """Return the first words that the first sentence of an answer adds to its question."""
    spans = find_sentence_spans(answer)
    first = answer[slice(*spans[0])] if spans else ""
    asked = set(extract_terms(question))
    words = [word.strip(".,;:!?()*_`\"'") for word in first.split()]
    new = [word for word in words
           if word.casefold() not in STOP_WORDS and set(extract_terms(word)) - asked]  # fmt: skip
    return " ".join(new[:_MAX_SUBJECT_WORDS])


def say_more(evidence: Evidence, history: Sequence[Message]) -> Evidence:
    """Answer "tell me more": quote what follows the last answer in the place it was taken from."""
    said = set(split_words(find_last_exchange(history)[1]))
    counts = [
        sum(len(split_words(unit.text)) for unit in list_units(source) if _is_said(unit.text, said))
        for source in evidence.sources
    ]
    if not counts:
        return evidence
    here = evidence.sources[counts.index(max(counts))]
    same = [s for s in evidence.sources if s.hit.chunk.document_id == here.hit.chunk.document_id]
    later = sorted((s for s in same if s.start > here.start), key=lambda source: source.start)
    found: list[ScoredUnit] = []
    for source in (here, *later):
        units = list_units(source)
        first = max((n for n, unit in enumerate(units, 1) if _is_said(unit.text, said)), default=0)
        found += [
            ScoredUnit(source.number, unit.start, unit.end, 0.0, (unit.start, unit.end))
            for unit in (*units[first:], *units[:first])
            if unit.kind != "header"
            and len(split_words(unit.text)) >= _MIN_UNIT_WORDS
            and not _is_said(unit.text, said)
        ]
    more = replace(evidence.extract, answers=tuple(found[:_MAX_UNITS]), short_answer="", verdict="")
    return replace(evidence, extract=more if found else Extract())


def _is_said(text: str, said: set[str]) -> bool:
    own = split_words(text)
    return bool(own) and sum(word in said for word in own) >= _SAID * len(own)
