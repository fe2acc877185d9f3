"""Compute features of sentences, from which a linear model tells how well they answer a question.

question and sources → candidates (sentences, table rows with their header) → features. The cheap
ones (terms, kind, place, words) are computed for every sentence. Then the reading model reads the
passages whose sentences rank first. Where it cannot (its file is missing, or the text is in
another language), sentences are compared by the embedder instead.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.models.cache import embed_sentences
from ragstone.models.embedder import load_word_vectors
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.analysis import (
    SOURCES_READ,
    WORD,
    AnalyzedUnit,
    PassageAnalysis,
    ReadableText,
    Terms,
    analyze_passage,
)
from ragstone.reading.kinds import CHECKABLE, Kind, detect_kind, find_offers
from ragstone.reading.layout import CleanText
from ragstone.reading.question import Question, parse_question
from ragstone.reading.times import find_valid_from, list_covered_years
from ragstone.types import Source

# A longer sentence is a listing, and the cost grows with the length.
_MAX_CHARS_EMBEDDED = 160
_MIN_WORDS = 2


@dataclass(frozen=True, eq=False, slots=True)
class Passage:
    """Hold a source as it is read, with its analysis."""

    source: Source
    analysis: PassageAnalysis

    @property
    def clean(self) -> CleanText:
        return self.analysis.clean

    @property
    def readable(self) -> ReadableText:
        return self.analysis.readable


@dataclass(frozen=True, eq=False, slots=True)
class Candidate:
    """Hold a sentence of a passage, with the text around it. Offsets are into the clean text."""

    passage: Passage
    order: int

    @property
    def analyzed(self) -> AnalyzedUnit:
        return self.passage.analysis.units[self.order]

    @property
    def start(self) -> int:
        return self.analyzed.unit.start

    @property
    def end(self) -> int:
        return self.analyzed.unit.end

    @property
    def before(self) -> str:
        return self.passage.analysis.units[self.order - 1].unit.text if self.order else ""

    @property
    def header(self) -> tuple[str, ...]:
        """Return the cells of the table's first row, when the sentence is one of its rows."""
        return self.analyzed.unit.header

    @property
    def source(self) -> Source:
        return self.passage.source

    @property
    def text(self) -> str:
        return self.analyzed.unit.text

    @property
    def terms(self) -> Terms:
        return self.analyzed.terms

    @property
    def points_back(self) -> bool:
        return self.analyzed.traits.points_back

    @property
    def refers(self) -> bool:
        return self.analyzed.traits.refers

    @property
    def instructs(self) -> bool:
        return self.analyzed.traits.instructs

    @property
    def valid_from(self) -> int | None:
        """Return the year from which a row of a table of dated values is valid."""
        return find_valid_from(self.analyzed.unit)

    @property
    def covered_years(self) -> tuple[str, ...]:
        """Return the years after that in which such a row is valid."""
        units = [one.unit for one in self.passage.analysis.units]
        return list_covered_years(units).get(self.order, ())


def list_candidates(question: str, sources: Sequence[Source]) -> list[Candidate]:
    """List every sentence of the first sources once, if it says more than the question."""
    found: list[Candidate] = []
    seen: set[str] = set()
    asked = set(extract_terms(question))
    is_yes_no = parse_question(question).kind == "yes_no"
    for source in sources[:SOURCES_READ]:
        for candidate in _split_passage(Passage(source, analyze_passage(source))):
            one = candidate.analyzed
            key = " ".join(one.unit.text.split()).casefold()
            # "The gate is green." answers "Is the gate green?", and no other question.
            says_more = not one.terms <= asked or (is_yes_no and one.traits.is_sentence)
            # A line that instructs a model does not answer a reader.
            if key not in seen and says_more and not one.traits.is_suspicious:
                seen.add(key)
                found.append(candidate)
    return found


def _split_passage(passage: Passage) -> Iterator[Candidate]:
    for order, one in enumerate(passage.analysis.units):
        text = one.unit.text
        # A heading or a question (of a list of such) is context, and answers nothing itself.
        if one.length < _MIN_WORDS or text.startswith("#"):
            continue
        if text.endswith(("?", "？", "؟")) and not one.unit.header:
            continue
        yield Candidate(passage, order)


@dataclass(frozen=True)
class QuestionTerms:
    """Hold a question with its terms, kind and names."""

    question: Question
    weights: dict[str, float]
    """Its terms; one that few of the sentences hold weighs more."""
    kind: Kind
    names: frozenset[str]
    """Terms that an answer must have: capitalised words of the question, and numbers."""
    pairs: frozenset[tuple[str, str]]

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(name for name in self.names if name[0].isdigit())

    @property
    def text(self) -> str:
        return self.question.core

    @cached_property
    def total(self) -> float:
        return sum(self.weights.values()) or 1.0


# Chinese is cut into pairs of characters. A pair with one of these joins two words, or asks.
_JOINS_WORDS = frozenset("的了是在谁什么哪几多少吗呢怎样为何和与有这那从被它她他们吧着过把其之于")


def _drop_joining_pairs(terms: list[str]) -> list[str]:
    return [term for term in terms if len(term) != 2 or not _JOINS_WORDS & set(term)] or terms


def weigh_terms(text: str, sentences: Sequence[Candidate]) -> QuestionTerms:
    """Weigh the terms of a question by the sentences that may answer it."""
    question = parse_question(text)
    text = question.core
    asked = _drop_joining_pairs(extract_terms(text))
    wanted = set(asked)
    holds: Counter[str] = Counter()
    for one in sentences:
        holds.update(wanted & one.terms)
    count = len(sentences)
    weights = {term: math.log(1 + (count + 1) / (holds[term] + 0.5)) for term in wanted}
    words = WORD.findall(text)
    named = [
        word
        for place, word in enumerate(words)
        if word[0].isdigit() or (place and word[0].isupper())
    ]
    return QuestionTerms(
        question,
        weights,
        detect_kind(text),
        frozenset(term for word in named for term in extract_terms(word)),
        frozenset(itertools.pairwise(asked)),
    )


CHEAP = (
    "coverage", "coverage_around", "coverage_source", "names", "names_source", "pairs", "offers",
    "offers_nothing", "fresh", "length", "very_short", "no_sentence", "row", "points_back",
    "first", "rank", "similarity", "fused_gap", "offers_in_context", "nothing_in_context",
    "lead_in", "defines", "title", "numbers_missing", "instructs", "refers",
    "coverage_anywhere",
    "alignment", "alignment_least",
)  # fmt: skip
MEANING = ("cosine", "cosine_lead", "cosine_around", "offers_in_meaning")


def compute_cheap_features(question: QuestionTerms, sentences: Sequence[Candidate]) -> Vectors:
    """Compute one row per sentence, one column per name in `CHEAP`."""
    best = max((one.source.hit.score for one in sentences), default=0.0) or 1.0
    passages = {one.source.number: one.passage for one in sentences}
    held: frozenset[str] = frozenset()
    anywhere = measure_coverage(
        question, held.union(*(p.analysis.terms for p in passages.values()))
    )
    of_passage = {
        number: _compute_passage_features(question, one) for number, one in passages.items()
    }
    rows = [
        [*_compute_cheap_row(question, one, of_passage[one.source.number], best), anywhere]
        for one in sentences
    ]
    plain = np.array(rows, dtype=np.float32).reshape(len(sentences), -1)
    return np.hstack([plain, _compute_word_features(question, sentences)])


def _compute_passage_features(
    question: QuestionTerms, passage: Passage
) -> tuple[float, float, float]:
    """Compute what all sentences of a passage have in common: `coverage_source`, `names_source`
    and `title`."""
    analysis = passage.analysis
    return (
        measure_coverage(question, analysis.terms),
        _measure_share(question.names, analysis.terms),
        measure_coverage(question, analysis.title_terms),
    )


def _compute_cheap_row(
    question: QuestionTerms,
    candidate: Candidate,
    of_passage: tuple[float, float, float],
    best_score: float,
) -> list[float]:
    one, source, analysis = candidate.analyzed, candidate.source, candidate.passage.analysis
    coverage_source, names_source, title = of_passage
    text, traits = one.unit.text, one.traits
    offers = find_offers(question.kind, question.text, text)
    checkable = question.kind in CHECKABLE
    asked = question.weights.keys()
    pairs = question.pairs & set(itertools.pairwise(one.sequence))
    around = measure_coverage(question, one.context_terms)
    subject = question.question.subject
    return [
        measure_coverage(question, one.terms),
        around,
        coverage_source,
        _measure_share(question.names, one.context_terms),
        names_source,
        len(pairs) / len(question.pairs) if question.pairs else 0.0,
        float(bool(offers)),
        float(checkable and not offers),
        min(len(one.terms - asked), 8) / 8,
        math.log(1 + one.length),
        float(one.length < 6),
        float(not traits.is_sentence),
        float(bool(one.unit.header)),
        float(traits.points_back),
        float(candidate.order == 0),
        1.0 / source.number,
        source.hit.scores.similarity or 0.0,
        1.0 - source.hit.score / best_score,
        around * bool(offers),
        around * (checkable and not offers),
        float(traits.leads_in),
        float(bool(subject) and is_definition(subject, text)),
        title,
        1.0 - _measure_share(question.numbers, one.context_terms | analysis.terms)
        if question.numbers
        else 0.0,
        float(question.question.kind == "how_to" and traits.instructs),
        float(traits.refers),
    ]


_DEFINES = re.compile(
    r"^\W*(?:is|are|was|were|means|refers to|stands for|describes?|denotes|provides?|represents?"
    r"|allows?|lets|enables?|ensures?|contains?|consists? of|defines?|holds?|[:–—-])",
    re.IGNORECASE,
)


# What may stand before the subject of a sentence: a bullet, "In Kubernetes,", an article, bold.
_BEFORE_SUBJECT = re.compile(
    r"^(?:[-*+•]\s+|\d+[.)]\s+)?(?:in \w+(?: \w+)?,\s+)?(?:(?:an?|the)\s+)?[*_`“\"]*",
    re.IGNORECASE,
)


def is_definition(subject: str, sentence: str) -> bool:
    """Return True when a sentence begins with the subject and says what it is or does."""
    text = _BEFORE_SUBJECT.sub("", sentence)
    begins = re.match(
        rf"{re.escape(subject)}(?:e?s)?\b[*_`”\"]*(?:\s*\([^)]*\))?", text, re.IGNORECASE
    )
    return begins is not None and _DEFINES.match(text[begins.end() :]) is not None


def measure_coverage(question: QuestionTerms, held: frozenset[str]) -> float:
    """Return the share of the question's terms that are held, by weight."""
    return sum([w for term, w in question.weights.items() if term in held]) / question.total


def _measure_share(wanted: frozenset[str], held: frozenset[str]) -> float:
    return len(wanted & held) / len(wanted) if wanted else 1.0


def compute_meaning_features(
    question: QuestionTerms, sentences: Sequence[Candidate], embedder: Embedder
) -> Vectors:
    """Compute one row per sentence, one column per name in `MEANING`."""
    if not sentences:
        return np.zeros((0, len(MEANING)), dtype=np.float32)
    vectors = embed_sentences(
        embedder,
        [question.text, *(_format_for_embedding(one) for one in sentences)],
        ["", *(one.source.hit.chunk.document_id for one in sentences)],
    )
    cosine = vectors[1:] @ vectors[0]
    has_offer = [bool(find_offers(question.kind, question.text, one.text)) for one in sentences]
    columns = [
        cosine,
        cosine - cosine.max(),
        _find_best_neighbours(sentences, cosine),
        cosine * has_offer,
    ]
    return np.column_stack(columns).astype(np.float32)


def _find_best_neighbours(sentences: Sequence[Candidate], cosine: Vectors) -> list[float]:
    """Return for each sentence the better cosine of its neighbours, if they are in the list."""
    at = {(one.source.number, one.order): float(cosine[i]) for i, one in enumerate(sentences)}
    return [
        max(at.get((one.source.number, one.order + step), 0.0) for step in (-1, 1))
        for one in sentences
    ]


def _format_for_embedding(one: Candidate) -> str:
    """Return the text to embed: the sentence, and for a row of a table its header too."""
    text = " ".join((*one.header, one.text)).replace("|", " ") if one.header else one.text
    return text[:_MAX_CHARS_EMBEDDED]


def _compute_word_features(question: QuestionTerms, sentences: Sequence[Candidate]) -> Vectors:
    """Compute how near each word of the question is to a word of the sentence: mean and least.

    A word without a near one ("wine" in a sentence on the café's rooms) shows that the sentence is
    on the same subject but does not answer.
    """
    asked = [
        word
        for word in dict.fromkeys(WORD.findall(question.text))
        if word.casefold() not in STOP_WORDS and extract_terms(word)
    ]
    offered = list(dict.fromkeys(word for one in sentences for word in one.analyzed.words))
    if not asked or not offered:
        return np.zeros((len(sentences), 2), dtype=np.float32)
    vectors = load_word_vectors().embed([*(word.casefold() for word in asked), *offered])
    wanted, held = vectors[: len(asked)], vectors[len(asked) :]
    near = held @ wanted.T
    at = {word: place for place, word in enumerate(offered)}
    stems = [frozenset(extract_terms(word)) for word in asked]
    weights = np.array([max(question.weights.get(t, 0.0) for t in some) for some in stems])
    weights = (weights / (weights.sum() or 1.0)).astype(np.float32)
    # The words of all sentences in one array, which is cut where the next sentence begins.
    spoken = [place for place, one in enumerate(sentences) if one.analyzed.words]
    rows = np.array([at[w] for place in spoken for w in sentences[place].analyzed.words])
    starts = np.cumsum([0, *(len(sentences[place].analyzed.words) for place in spoken[:-1])])
    best = np.zeros((len(sentences), len(asked)), dtype=np.float32)
    best[spoken] = np.maximum.reduceat(near[rows], starts)
    here = [
        [not some.isdisjoint(one.analyzed.context_terms) for some in stems] for one in sentences
    ]
    best[np.array(here)] = 1.0
    return np.column_stack([best @ weights, best.min(axis=1)])
