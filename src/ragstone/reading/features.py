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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.models.embedder import load_word_vectors
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.kinds import CHECKABLE, Kind, detect_kind, find_offers
from ragstone.reading.layout import LEAD_IN, CleanText, Span, clean_for_reading
from ragstone.reading.question import Question, parse_question
from ragstone.reading.units import Unit, has_instructions, split_units
from ragstone.types import Source

SOURCES_READ = 10
# A longer sentence is a listing, and the cost grows with the length.
_MAX_CHARS_EMBEDDED = 160
_MIN_WORDS = 2
_ENDS = re.compile(r"[.!?…:;]['\"”’)\]]*$")
_WORD = re.compile(r"[^\W_]+(?:[.\-'’][^\W_]+)*")
_POINTS_BACK = re.compile(
    r"^(?:\d+(?:\.\d+)*\.? )?(?:it|its|this|that|these|those|they|their|he|his|she|her|such|the latter|after that|"  # noqa: E501
    r"otherwise|however|but|so|then|there|for each|es|er|sie|dies\w*|danach)\b",
    re.IGNORECASE,
)


# The number of a clause answers nothing, but looks like an amount.
_NUMBERING = re.compile(r"^(?:§\s*)?\d{1,3}(?:\.\d{1,3})+\.?\s+")


@dataclass(frozen=True, slots=True)
class ReadableText:
    """Hold a passage as the reading model reads it, and where each of its units stands in it."""

    text: str
    units: tuple[Span, ...]


@dataclass(frozen=True, eq=False)
class Passage:
    """Hold a source as it is read: its clean text, and the terms around it."""

    source: Source
    clean: CleanText

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(extract_terms(self.source.hit.chunk.contextual_text))

    @cached_property
    def title_terms(self) -> frozenset[str]:
        """Return the terms of the headings over the passage and of the document's name."""
        chunk = self.source.hit.chunk
        names = (*chunk.heading_path, chunk.context, chunk.document_name)
        return frozenset(extract_terms(" \n ".join(names)))

    @property
    def heading(self) -> str:
        """Return what names the passage: for a table its title and caption, then the headings."""
        chunk = self.source.hit.chunk
        names = (chunk.context, " > ".join(chunk.heading_path[-2:]))
        return "\n".join(one for one in names if one)

    @cached_property
    def units(self) -> list[Unit]:
        return split_units(self.clean.text, self.source.hit.chunk.table_header)

    @cached_property
    def readable(self) -> ReadableText:
        """Return the text for the reading model: headings, sentences, rows under their heads."""
        pieces = [f"{self.heading}\n"] if self.heading else []
        size = sum(map(len, pieces))
        places: list[Span] = []
        position = 0
        for unit in self.units:
            between = "\n" if unit.header else self.clean.text[position : unit.start]
            said = _NUMBERING.sub("", unit.sentence)
            pieces += [between, said]
            places.append((size + len(between), size + len(between) + len(said)))
            size = places[-1][1]
            position = unit.end
        return ReadableText("".join(pieces), tuple(places))


@dataclass(frozen=True, eq=False)
class Candidate:
    """Hold a sentence of a passage, with the text around it. Offsets are into the clean text."""

    passage: Passage
    order: int
    start: int
    end: int
    before: str = ""
    after: str = ""
    header: tuple[str, ...] = ()
    """The cells of the table's first row, when the sentence is one of its rows."""

    @property
    def source(self) -> Source:
        return self.passage.source

    @property
    def text(self) -> str:
        return self.passage.clean.text[self.start : self.end]

    @cached_property
    def terms(self) -> frozenset[str]:
        """Return the terms of the sentence; a table row has those of its header too."""
        return frozenset(extract_terms(" \n ".join((self.text, *self.header))))

    @cached_property
    def context_terms(self) -> frozenset[str]:
        """Return the terms of the sentence, its neighbours and the headings over it."""
        around = frozenset(extract_terms(f"{self.before} \n {self.after}"))
        return self.terms | around | self.passage.title_terms

    @cached_property
    def words(self) -> list[str]:
        return [word for word in _WORD.findall(self.text.casefold()) if word not in STOP_WORDS]

    @property
    def is_sentence(self) -> bool:
        return bool(_ENDS.search(self.text)) or bool(self.header)

    @property
    def points_back(self) -> bool:
        """Return True when it can only be understood after the sentence before it."""
        return bool(_POINTS_BACK.match(self.text))


def list_candidates(question: str, sources: Sequence[Source]) -> list[Candidate]:
    """List every sentence of the first sources once, if it says more than the question."""
    found: list[Candidate] = []
    seen: set[str] = set()
    asked = set(extract_terms(question))
    for source in sources[:SOURCES_READ]:
        passage = Passage(source, clean_for_reading(source.text))
        for candidate in _split_passage(passage):
            key = " ".join(candidate.text.split()).casefold()
            # A line that instructs a model does not answer a reader.
            if (
                key not in seen
                and not candidate.terms <= asked
                and not has_instructions(candidate.text)
            ):
                seen.add(key)
                found.append(candidate)
    return found


def _split_passage(passage: Passage) -> list[Candidate]:
    found: list[Candidate] = []
    parts = passage.units
    for order, unit in enumerate(parts):
        # A heading or a question (of a list of such) is context, and answers nothing itself.
        if len(unit.text.split()) < _MIN_WORDS or unit.text.startswith("#"):
            continue
        if unit.text.endswith("?") and not unit.header:
            continue
        before = parts[order - 1].text if order else ""
        after = parts[order + 1].text if order + 1 < len(parts) else ""
        found.append(Candidate(passage, order, unit.start, unit.end, before, after, unit.header))
    return found


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

    @property
    def text(self) -> str:
        return self.question.core

    @property
    def total(self) -> float:
        return sum(self.weights.values()) or 1.0


def weigh_terms(text: str, sentences: Sequence[Candidate]) -> QuestionTerms:
    """Weigh the terms of a question by the sentences that may answer it."""
    question = parse_question(text)
    text = question.core
    asked = extract_terms(text)
    holds = Counter(term for one in sentences for term in one.terms)
    count = len(sentences)
    weights = {term: math.log(1 + (count + 1) / (holds[term] + 0.5)) for term in set(asked)}
    words = _WORD.findall(text)
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
    anywhere = measure_coverage(question, held.union(*(one.terms for one in passages.values())))
    rows = [
        [*_compute_cheap_row(question, one, one.source.hit.score / best), anywhere]
        for one in sentences
    ]
    plain = np.array(rows, dtype=np.float32).reshape(len(sentences), -1)
    return np.hstack([plain, _compute_word_features(question, sentences)])


def _compute_cheap_row(
    question: QuestionTerms, one: Candidate, share_of_best: float
) -> list[float]:
    length = len(one.text.split())
    offers = find_offers(question.kind, question.text, one.text)
    checkable = question.kind in CHECKABLE
    asked = question.weights.keys()
    sequence = extract_terms(one.text)
    pairs = question.pairs & set(itertools.pairwise(sequence))
    around = measure_coverage(question, one.context_terms)
    numbers = frozenset(name for name in question.names if name[0].isdigit())
    return [
        measure_coverage(question, one.terms),
        around,
        measure_coverage(question, one.passage.terms),
        _measure_share(question.names, one.context_terms),
        _measure_share(question.names, one.passage.terms),
        len(pairs) / len(question.pairs) if question.pairs else 0.0,
        float(bool(offers)),
        float(checkable and not offers),
        min(len(one.terms - asked), 8) / 8,
        math.log(1 + length),
        float(length < 6),
        float(not one.is_sentence),
        float(bool(one.header)),
        float(one.points_back),
        float(one.order == 0),
        1.0 / one.source.number,
        one.source.hit.scores.similarity or 0.0,
        1.0 - share_of_best,
        around * bool(offers),
        around * (checkable and not offers),
        float(bool(LEAD_IN.search(one.text))),
        float(bool(question.question.subject) and is_definition(question.question.subject, one)),
        measure_coverage(question, one.passage.title_terms),
        1.0 - _measure_share(numbers, one.context_terms | one.passage.terms),
        float(question.question.kind == "how_to" and bool(_INSTRUCTS.search(one.text))),
        float(bool(_REFERS.search(one.text))),
    ]


# Says where the answer is, and not what it is.
_REFERS = re.compile(
    r"^(?:please )?(?:see|refer to|consult|visit|read) |\b(?:please )?refer to (?:the|our|this)\b"
    r"|\bfor (?:more|further|additional|details|instructions|information)\b.{0,60}"
    r"\b(?:see|refer|visit|read)\b|\b(?:see|learn more|read more) (?:about|in|at|here)\b",
    re.IGNORECASE,
)


# A step, a command or a lead-in to one.
_INSTRUCTS = re.compile(
    r"^\d{1,3}[.)] |`[^`]+ [^`]+`|^\s*\$ |:$|\b(?:run|use|using|click|press|select|choose|open|"
    r"enter|type|call|send|turn|set|add|create|remove|install) (?:the|a|an|on|off|your|`)",
    re.IGNORECASE,
)


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


def is_definition(subject: str, one: Candidate) -> bool:
    """Return True when a sentence begins with the subject and says what it is or does."""
    text = _BEFORE_SUBJECT.sub("", one.text)
    begins = re.match(
        rf"{re.escape(subject)}(?:e?s)?\b[*_`”\"]*(?:\s*\([^)]*\))?", text, re.IGNORECASE
    )
    return begins is not None and _DEFINES.match(text[begins.end() :]) is not None


def measure_coverage(question: QuestionTerms, held: frozenset[str]) -> float:
    """Return the share of the question's terms that are held, by weight."""
    return sum(w for term, w in question.weights.items() if term in held) / question.total


def _measure_share(wanted: frozenset[str], held: frozenset[str]) -> float:
    return len(wanted & held) / len(wanted) if wanted else 1.0


def compute_meaning_features(
    question: QuestionTerms, sentences: Sequence[Candidate], embedder: Embedder
) -> Vectors:
    """Compute one row per sentence, one column per name in `MEANING`."""
    if not sentences:
        return np.zeros((0, len(MEANING)), dtype=np.float32)
    vectors = embedder.embed([question.text, *(_format_for_embedding(one) for one in sentences)])
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
        for word in dict.fromkeys(_WORD.findall(question.text))
        if word.casefold() not in STOP_WORDS and extract_terms(word)
    ]
    offered = list(dict.fromkeys(word for one in sentences for word in one.words))
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
    spoken = [place for place, one in enumerate(sentences) if one.words]
    rows = np.array([at[word] for place in spoken for word in sentences[place].words])
    starts = np.cumsum([0, *(len(sentences[place].words) for place in spoken[:-1])])
    best = np.zeros((len(sentences), len(asked)), dtype=np.float32)
    best[spoken] = np.maximum.reduceat(near[rows], starts)
    here = [[not some.isdisjoint(one.context_terms) for some in stems] for one in sentences]
    best[np.array(here)] = 1.0
    return np.column_stack([best @ weights, best.min(axis=1)])
