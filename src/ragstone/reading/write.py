"""Write a choice as an answer: readable units with their markers, and the short answer.

A unit is a sentence with what it cannot be read without: the list or listing it leads to, the
lead-in of an item, the header of a table row.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.index.analyze import count_words, extract_terms
from ragstone.reading.features import Candidate
from ragstone.reading.layout import (
    Span,
    find_blocks,
    find_lead_in,
    widen_sentence,
)
from ragstone.reading.markers import escape_markers, format_label
from ragstone.reading.question import Question
from ragstone.reading.read import ShortAnswer
from ragstone.reading.units import describe_row
from ragstone.text import LIST_MARK

_ITEM_MARK = re.compile(rf"^([ \t]*)({LIST_MARK})[ \t]+")
# A short answer is a name, a date, an amount: not a sentence.
_MAX_SHORT_WORDS = 9
_MIN_SHORT_SCORE = 0.0
# A condition of its own makes a sentence a special case of what stands before it.
_SPECIAL_CASE = re.compile(
    r"(?:\(?(?:\d{1,3}(?:\.\d{1,3})*|[a-z])[.)]?\s+)?"
    r"(?:if|where|when|unless|should|in case|falls|wenn|sofern)\b",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"^\(?\w{1,2}[.)]\s+")
# A shorter piece, such as a date under a heading, is shown with its heading.
_MIN_WORDS_ALONE = 4


@dataclass(frozen=True, slots=True)
class AnswerUnit:
    """Hold one readable piece of an answer."""

    number: int
    """The number of its source."""
    text: str
    is_complete: bool = True
    """False for a lead-in without what it leads to."""

    def format(self) -> str:
        """Return the text with its marker: after the text, but before a listing."""
        marker = f"[Source {self.number}]"
        head, fence, listing = self.text.partition("\n\n```")
        return f"{head} {marker}{fence}{listing}"


def build_unit(question: Question, one: Candidate) -> AnswerUnit:
    """Widen a sentence to a unit, and write it for reading."""
    if one.header:
        return AnswerUnit(one.source.number, format_row(one))
    text = one.passage.clean.text
    start = one.start
    if one.before and (one.points_back or follows_rule(question, one)):
        at = text.rfind(one.before, 0, one.start)
        start = at if at >= 0 else start
    whole_list = question.wants_whole_list or is_about_the_list(question, one)
    widened = widen_sentence(text, (one.start, one.end), whole_list=whole_list)
    spans = list(widened.spans)
    if spans[0] == (one.start, one.end):
        spans[0] = (start, one.end)
    written = format_spans(text, spans)
    if written.startswith("```") or count_words(written) < _MIN_WORDS_ALONE:
        gap = "\n\n" if written.startswith("```") else " "
        # The check knows this label: it is no part of what the source is quoted with.
        written = f"{format_label(one.source.hit.chunk)}:{gap}{written}"
    return AnswerUnit(one.source.number, written, widened.is_complete)


def follows_rule(question: Question, one: Candidate) -> bool:
    """Return True for a special case ("If it is 90 days late, …") after the rule that is asked for:
    the sentence before it names more of the question, and stands in the same paragraph."""
    if not _SPECIAL_CASE.match(one.text) or _SPECIAL_CASE.match(one.before):
        return False
    text = one.passage.clean.text
    at = text.rfind(one.before, 0, one.start)
    between = text[at + len(one.before) : one.start]
    if at < 0 or between.strip() or between.count("\n") > 1 or not one.before.endswith("."):
        return False
    asked = set(extract_terms(question.text))
    return len(asked & set(extract_terms(one.before))) > len(asked & one.terms)


def build_units(question: Question, sentences: Sequence[Candidate]) -> list[AnswerUnit]:
    """Build the units of an answer in reading order; one that another holds is left out."""
    units: list[AnswerUnit] = []
    for one in sort_in_reading_order(sentences):
        unit = build_unit(question, one)
        if any(unit.text in other.text for other in units):
            continue
        units = [other for other in units if other.text not in unit.text]
        units.append(unit)
    return [unit for unit in units if unit.is_complete] or units


_LISTING = re.compile(r"```[\s\S]*?```|^[ \t]*(?:[-|]|\d{1,3}[.)])[ \t].*$", re.MULTILINE)


def count_prose_words(units: Sequence[AnswerUnit]) -> int:
    """Count the words of units outside listings, lists and tables, which are long by nature."""
    return sum(len(_LISTING.sub("", unit.text).split()) for unit in units)


def is_about_the_list(question: Question, one: Candidate) -> bool:
    """Return True when the lead-in of a list says more of the question than the chosen item."""
    lead = find_lead_in(one.passage.clean.text, one.start)
    if not lead:
        return False
    asked = set(extract_terms(question.text))
    in_lead = len(asked & set(extract_terms(lead)))
    return in_lead >= max(2, len(asked & one.terms))


def format_row(one: Candidate) -> str:
    return escape_markers(describe_row(one.header, one.text))


def format_spans(text: str, spans: Sequence[Span]) -> str:
    """Write spans of a text: prose on one line, items and listings on their own lines."""
    kinds = {(block.start, block.end): block.kind for block in find_blocks(text)}
    out = ""
    for start, end in spans:
        piece = text[start:end]
        kind = kinds.get((start, end))
        if kind == "code":
            out += ("\n\n" if out else "") + textwrap.dedent(piece).strip("\n")
        elif kind == "item" or _ITEM_MARK.match(piece):
            mark = _ITEM_MARK.match(piece)
            bullet = mark[2] if mark and mark[2][0].isdigit() else "-"
            body = " ".join(piece[mark.end() if mark else 0 :].split())
            in_list = out.rpartition("\n")[2].startswith(("- ", bullet[:1]))
            out += ("" if not out else "\n" if in_list else "\n\n") + f"{bullet} {body}"
        elif kind == "row":
            out += ("\n" if out.rpartition("\n")[2].startswith("|") else "\n\n") + piece.strip()
        else:
            out += (" " if out else "") + " ".join(piece.split())
    return escape_markers(out.strip())


def find_short_answer(question: Question, short: ShortAnswer | None) -> str:
    """Return the short answer that the reading model found in a sentence; empty if there is none.

    It must be short, and must not repeat the question.
    """
    if short is None or not question.wants_short_answer or short.score < _MIN_SHORT_SCORE:
        return ""
    text = _LIST_MARK.sub("", " ".join(short.text.split()))
    text = cut_at_bracket(text).strip(" ,;:|")
    if not 0 < count_words(text) <= _MAX_SHORT_WORDS:
        return ""
    return "" if text.casefold() in question.text.casefold() else text


def cut_at_bracket(text: str) -> str:
    """Cut a text where a bracket ends that began before it, or begins and does not end in it."""
    opened: list[int] = []
    for place, letter in enumerate(text):
        if letter in "([":
            opened.append(place)
        elif letter in ")]":
            if not opened:
                return text[:place]
            opened.pop()
    return text[: opened[0]] if opened else text


def sort_in_reading_order(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Order sources by their best sentence; within a source, follow the text."""
    numbers = list(dict.fromkeys(one.source.number for one in chosen))
    return sorted(chosen, key=lambda one: (numbers.index(one.source.number), one.start))
