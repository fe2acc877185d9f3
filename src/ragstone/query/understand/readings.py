"""List what a message may mean in its conversation, and go on where an answer ended.

message and earlier turns → readings, each a text to search: as typed, with the words of the
previous question, with the subject of the last answer. The documents decide (`query/answer.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ragstone.evidence import Evidence, Extract, ScoredUnit
from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.messages import list_translations
from ragstone.query.understand.small_talk import drop_small_talk, match_small_talk
from ragstone.reading.classifier import classify, stands_alone
from ragstone.reading.units import list_units
from ragstone.text import find_sentence_spans, split_words
from ragstone.types import NEAREST, NO_ANSWER, Message, Reading

_MARKER = re.compile(r"\s*\[(?:Source \d+|[\w.-]{1,80}:\d{1,6})\]")
_MAX_WORDS, _MAX_SUBJECT_WORDS, _FEW_WORDS = 8, 4, 4
# A sentence counts as said when so many of its words are in the earlier answer.
_SAID = 0.8
_MIN_UNIT_WORDS = 4
_MAX_UNITS = 3


def list_readings(text: str, history: Sequence[Message]) -> tuple[Reading, ...]:
    """Return what a message may mean, the likeliest first: as typed if it makes sense alone."""
    question, answer = find_last_exchange(history)
    typed = Reading(text)
    if not question or split_words(question) == split_words(text):
        return (typed,)
    if classify("stands_alone", text)[0] == "more":
        return (Reading(question, "more"),)
    rest = drop_small_talk(text).rstrip("?!. ？！。")
    asked = " ".join(_list_words(question, ())[:_MAX_WORDS])
    others = [Reading(f"{rest} ({asked})?", "joined")]
    if len(split_words(rest)) < _FEW_WORDS:  # "no, Replace": they take the place of a part
        others.append(Reading(f"{asked}: {rest}", "joined"))
    elif subject := find_subject(question, answer):
        others.append(Reading(f"{rest} ({subject})?", "subject"))
    return (typed, *others) if stands_alone(text) else (*others, typed)


def find_last_exchange(history: Sequence[Message]) -> tuple[str, str]:
    """Return the last question, as it was searched, and its answer; small talk is left out.

    The answer is empty where the documents held none.
    """
    answer = ""
    for message in reversed(history):
        if message.role == "assistant":
            answer = _MARKER.sub("", message.content).strip()
        elif message.role == "user" and match_small_talk(message.content) is None:
            none = (*list_translations(NO_ANSWER), *list_translations(NEAREST))
            is_refusal = answer.startswith(none)
            return message.searched_as or message.content, "" if is_refusal else answer
    return "", ""


def find_subject(question: str, answer: str) -> str:
    """Return the first words that the first sentence of an answer adds to its question."""
    spans = find_sentence_spans(answer)
    new = _list_words(answer[slice(*spans[0])], extract_terms(question)) if spans else []
    return " ".join([word for word in new if word.isalpha()][:_MAX_SUBJECT_WORDS])


def _list_words(text: str, without: Sequence[str]) -> list[str]:
    """Return the words of a text that say what it is about, but for those of some terms."""
    words = [word.strip(".,;:!?()*_`\"'¿¡。，？") for word in text.split()]
    words = [word for word in words if word.casefold() not in STOP_WORDS]
    return [word for word in words if set(extract_terms(word)) - set(without)]


def repeats_answer(evidence: Evidence) -> bool:
    """Return True when the best unit stands in the last answer already."""
    said = set(split_words(find_last_exchange(evidence.query.history)[1]))
    texts = {source.number: source.text for source in evidence.sources}
    best = evidence.extract.answers[:1]
    return any(_is_said(texts[unit.source][unit.start : unit.end], said) for unit in best)


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
