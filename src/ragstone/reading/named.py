"""Find the document that a question names: "the notice period in the lease", "under the GPL".

question and sources → the question without that name, and the sources of that document. People name
a document by its file, and its text seldom repeats the name: a sentence that answers would seem to
speak of something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.index.analyze import STOP_WORDS, detect_language, extract_terms
from ragstone.reading.analysis import analyze_passage
from ragstone.reading.documents import find_document_kinds
from ragstone.reading.times import find_years
from ragstone.types import Source

_WORD = re.compile(r"[\w][\w.+'’-]*[\w+]|\w")
_ENDING = re.compile(r"\.\w{1,5}$")
_VERSION = re.compile(r"\b([^\W\d_]{2,}?)v?(\d+)\b")
# What introduces a document, and what may introduce any thing; then what may stand between.
_ARTICLE = r"((?:(?:the|this|our|my|your|an?|der|dem|den|die|das|des|unser(?:e[mnrs]?)?)\s+)?)$"
_BEFORE_DOCUMENT = re.compile(
    r",?\s*\b(?:according to|as per|per|under|in|within|pursuant to|as stated in|laut|gemäß|im)\s+"
    + _ARTICLE,
    re.IGNORECASE,
)
_BEFORE_THING = re.compile(r",?\s*\b(?:of|by|from|with|at|on)\s+" + _ARTICLE, re.IGNORECASE)
_BEFORE = re.compile(r"\b" + _ARTICLE, re.IGNORECASE)
_SUBJECT_FOLLOWS = re.compile(
    r"\b(?:do|does|did|is|was|can|may|will|must|should|has)\s+(?:the\s+)?$", re.IGNORECASE
)
# A name that the text of its document repeats in more of its sentences needs no help.
_MAX_SHARE = 0.3
_STAND_IN = "this document"


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """Hold a question without the name of a document, and the sources of the documents so named."""

    question: str
    sources: tuple[Source, ...]


def find_named_document(
    question: str, sources: Sequence[Source], *, in_part: bool = False
) -> NamedDocument | None:
    """Return the document that a question names, or None when it names none of the sources'.

    `in_part`: a part of a name at the end will do, as in "the rent of the ridge" for
    lease-of-the-ridge.pdf.
    """
    names = {one.hit.chunk.document_name: _list_name_terms(one) for one in sources}
    runs = _list_runs(question, frozenset().union(*names.values()))
    if len(runs) != 1:  # two documents are compared, or the words are those of the subject
        return None
    start, end, terms = runs[0]
    # The whole name: "visitors" does not name the visitor guide.
    meant = {
        name
        for name, held in names.items()
        if terms <= held and (in_part or _drop_numbers(held) <= terms)
    }
    chosen = tuple(one for one in sources if one.hit.chunk.document_name in meant)
    if not chosen or not terms or _is_in_text(terms, chosen):
        return None
    if _names_other_year(question, chosen):
        return None
    left = _remove_end(question, start, end) if in_part else _remove(question, start, end)
    return NamedDocument(left, chosen) if left else None


def _list_name_terms(source: Source) -> frozenset[str]:
    name = _ENDING.sub("", source.hit.chunk.document_name.rpartition("/")[2])
    return _split_terms(re.sub(r"[_.-]+", " ", name))


def _drop_numbers(terms: frozenset[str]) -> frozenset[str]:
    return frozenset(term for term in terms if not term.isdigit())


def _split_terms(text: str) -> frozenset[str]:
    return frozenset(extract_terms(_VERSION.sub(r"\1 \2", text)))


def _list_runs(question: str, known: frozenset[str]) -> list[tuple[int, int, frozenset[str]]]:
    """Return the longest runs of words that names of documents hold, with their terms."""
    runs: list[tuple[int, int, frozenset[str]]] = []
    words = list(_WORD.finditer(question))
    at = 0
    while at < len(words):
        end = at
        terms: frozenset[str] = frozenset()
        while end < len(words) and (more := _split_terms(words[end][0])) <= known:
            if not more and not terms:  # a name may hold "of the", and does not begin with it
                break
            terms |= more
            end += 1
        while end > at and not _split_terms(words[end - 1][0]):
            end -= 1
        # "MPL 1.1" is not MPL-2.0, and a number alone names nothing.
        follows = words[end][0] if end < len(words) else ""
        if any(not term.isdigit() for term in terms) and not follows[:1].isdigit():
            if end < len(words) and _is_kind(words[end][0]) and _is_end(question, words[end].end()):
                end += 1
            runs.append((words[at].start(), words[end - 1].end(), terms))
        at = max(end, at + 1)
    return runs


def _is_kind(word: str) -> bool:
    return bool(find_document_kinds(word)) or word.casefold() in ("license", "licence", "lizenz")


def _names_other_year(question: str, sources: Sequence[Source]) -> bool:
    """Return True when question and names have years, and none in common."""
    asked = set(find_years(question))
    held = {year for one in sources for year in find_years(one.hit.chunk.document_name)}
    return bool(asked and held) and not asked & held


def _is_in_text(terms: frozenset[str], sources: Sequence[Source]) -> bool:
    """Return True when sentences of the documents hold these terms themselves."""
    units = [unit for one in sources for unit in analyze_passage(one).units]
    holding = sum(terms <= unit.terms for unit in units)
    return holding > _MAX_SHARE * len(units)


def _is_end(question: str, place: int) -> bool:
    """Return True when a phrase ends here: no noun follows that it could belong to."""
    follows = _WORD.match(question[place:].lstrip())
    return follows is None or follows[0].casefold() in STOP_WORDS


def _remove_end(question: str, start: int, end: int) -> str:
    """Take the last words out with their preposition; empty where others follow."""
    before = question[:start]
    match = _BEFORE_DOCUMENT.search(before) or _BEFORE_THING.search(before)
    is_last = not _WORD.search(question[end:])
    return before[: match.start()] + question[end:] if match and is_last else ""


def _remove(question: str, start: int, end: int) -> str:
    """Take a name out, with its preposition; where the sentence needs it, a stand-in remains.

    Empty where that would break the sentence. An ordinary word may be the subject: "an hour of
    parking" is not asked of parking.txt. Only what introduces a document tells; else the name must
    be a proper one, in English, where other nouns have no capital.
    """
    before, after = question[:start], question[end:]
    is_last = _is_end(question, end)
    if is_last and (match := _BEFORE_DOCUMENT.search(before)):
        return (before[: match.start()] + after).lstrip(" ,")
    is_proper = question[start].isupper() and detect_language(question) == "english"
    if not is_proper:
        is_first = not before.strip()
        return after.lstrip() if is_first and not is_last else ""
    if is_last and (match := _BEFORE_THING.search(before)):
        return before[: match.start()] + after
    if not is_last and not _is_verb_before(before):
        return before + after.lstrip()
    match = _BEFORE.search(before)
    return before[: match.start(1) if match else start] + _STAND_IN + after


def _is_verb_before(before: str) -> bool:
    """Return True when the name is the subject of a question: "does the MPL terminate"."""
    return _SUBJECT_FOLLOWS.search(before) is not None
