"""How well a sentence answers a question, as numbers a linear model can weigh.

question and sources → candidates (sentences, table rows with their header) → features. The cheap
ones (terms, kind, place, words) are computed for every sentence; its meaning costs about 4 CPU ms,
so it is computed only for those that the cheap ones put in front.
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

from ragstone.index.analyze import STOP_WORDS, terms
from ragstone.models.embedder import shipped_words
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.units import (
    CHECKABLE,
    Kind,
    offers,
    question_kind,
    reads_like_instructions,
    units,
)
from ragstone.types import Source

SOURCES_READ = 6
# Of a sentence; what is longer is a listing, and cost grows with the length.
_CHARS_EMBEDDED = 160
_FEWEST_WORDS = 2
_ENDS = re.compile(r"[.!?…:;]['\"”’)\]]*$")
_WORD = re.compile(r"[^\W_]+(?:[.\-'’][^\W_]+)*")
_POINTS_BACK = re.compile(
    r"^(?:\d+(?:\.\d+)*\.? )?(?:it|its|this|that|these|those|they|their|he|his|she|her|such|the latter|after that|"  # noqa: E501
    r"otherwise|however|but|so|then|there|for each|es|er|sie|dies\w*|danach)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Candidate:
    """A sentence of a source, with what stands around it."""

    source: Source
    order: int
    start: int
    end: int
    before: str = ""
    after: str = ""
    header: tuple[str, ...] = ()
    """The cells of the table's first row, when the sentence is one of its rows."""

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @cached_property
    def terms(self) -> frozenset[str]:
        """Of the sentence; a row of a table says nothing without its header."""
        return frozenset(terms(" \n ".join((self.text, *self.header))))

    @cached_property
    def context_terms(self) -> frozenset[str]:
        """Of the sentence, its neighbours and the headings over it."""
        around = (self.before, self.after, *self.source.hit.chunk.heading_path)
        return self.terms | frozenset(terms(" \n ".join(around)))

    @cached_property
    def words(self) -> list[str]:
        return [word for word in _WORD.findall(self.text.casefold()) if word not in STOP_WORDS]

    @property
    def is_sentence(self) -> bool:
        return bool(_ENDS.search(self.text)) or bool(self.header)

    @property
    def points_back(self) -> bool:
        """Whether it can only be understood after the sentence before it."""
        return bool(_POINTS_BACK.match(self.text))


def candidates(question: str, sources: Sequence[Source]) -> list[Candidate]:
    """Every sentence of the first sources, once, if it says more than the question does."""
    found: list[Candidate] = []
    seen: set[str] = set()
    asked = set(terms(question))
    for source in sources[:SOURCES_READ]:
        for candidate in _of_source(source):
            key = " ".join(candidate.text.split()).casefold()
            # A line that speaks to a model is no answer to a reader.
            if (
                key not in seen
                and not candidate.terms <= asked
                and not reads_like_instructions(candidate.text)
            ):
                seen.add(key)
                found.append(candidate)
    return found


def _of_source(source: Source) -> list[Candidate]:
    found: list[Candidate] = []
    parts = units(source.text)
    for order, unit in enumerate(parts):
        if len(unit.text.split()) < _FEWEST_WORDS or unit.text.startswith("#"):
            continue
        before = parts[order - 1].text if order else ""
        after = parts[order + 1].text if order + 1 < len(parts) else ""
        found.append(Candidate(source, order, unit.start, unit.end, before, after, unit.header))
    return found


@dataclass(frozen=True)
class Question:
    """A question, taken apart once."""

    text: str
    weights: dict[str, float]
    """Its terms, the heavier the fewer of the sentences hold them."""
    kind: Kind
    names: frozenset[str]
    """Terms that must be there: capitalised words inside the question, and numbers."""
    pairs: frozenset[tuple[str, str]]

    @property
    def total(self) -> float:
        return sum(self.weights.values()) or 1.0


def take_apart(text: str, sentences: Sequence[Candidate]) -> Question:
    asked = terms(text)
    holds = Counter(term for one in sentences for term in one.terms)
    count = len(sentences)
    weights = {term: math.log(1 + (count + 1) / (holds[term] + 0.5)) for term in set(asked)}
    words = _WORD.findall(text)
    named = [word for place, word in enumerate(words)
             if word[0].isdigit() or (place and word[0].isupper())]  # fmt: skip
    return Question(
        text,
        weights,
        question_kind(text),
        frozenset(term for word in named for term in terms(word)),
        frozenset(itertools.pairwise(asked)),
    )


CHEAP = (
    "coverage", "coverage_around", "coverage_source", "names", "names_source", "pairs", "offers",
    "offers_nothing", "fresh", "length", "very_short", "no_sentence", "row", "points_back",
    "first", "rank", "similarity", "fused_gap", "offers_in_context", "nothing_in_context",
    "coverage_anywhere", "alignment", "alignment_least",
)  # fmt: skip
MEANING = (
    "cosine", "cosine_lead", "cosine_around", "offers_in_meaning",
)  # fmt: skip
FEATURES = CHEAP + MEANING


def cheap_features(question: Question, sentences: Sequence[Candidate]) -> Vectors:
    """One row per sentence, one column per name in `CHEAP`."""
    best = max((one.source.hit.score for one in sentences), default=0.0) or 1.0
    in_source = {one.source.number: frozenset(terms(one.source.hit.chunk.contextual_text))
                 for one in sentences}  # fmt: skip
    anywhere = covered(question, frozenset().union(*in_source.values()))
    rows = [
        [
            *_cheap_row(question, one, in_source[one.source.number], one.source.hit.score / best),
            anywhere,
        ]
        for one in sentences
    ]
    plain = np.array(rows, dtype=np.float32).reshape(len(sentences), -1)
    return np.hstack([plain, _word_features(question, sentences)])


def _cheap_row(
    question: Question, one: Candidate, in_source: frozenset[str], share_of_best: float
) -> list[float]:
    length = len(one.text.split())
    shown = offers(question.kind, question.text, one.text)
    checkable = question.kind in CHECKABLE
    asked = question.weights.keys()
    sequence = terms(one.text)
    pairs = question.pairs & set(itertools.pairwise(sequence))
    around = covered(question, one.context_terms)
    return [
        covered(question, one.terms),
        around,
        covered(question, in_source),
        _share(question.names, one.context_terms),
        _share(question.names, in_source),
        len(pairs) / len(question.pairs) if question.pairs else 0.0,
        float(bool(shown)),
        float(checkable and not shown),
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
        around * bool(shown),
        around * (checkable and not shown),
    ]


def covered(question: Question, held: frozenset[str]) -> float:
    """The weight of the question's terms that are held, as a share."""
    return sum(w for term, w in question.weights.items() if term in held) / question.total


def _share(wanted: frozenset[str], held: frozenset[str]) -> float:
    return len(wanted & held) / len(wanted) if wanted else 1.0


def meaning_features(
    question: Question, sentences: Sequence[Candidate], embedder: Embedder
) -> Vectors:
    """One row per sentence, one column per name in `MEANING`."""
    if not sentences:
        return np.zeros((0, len(MEANING)), dtype=np.float32)
    vectors = embedder.embed([question.text, *(_in_context(one) for one in sentences)])
    cosine = vectors[1:] @ vectors[0]
    shown = [bool(offers(question.kind, question.text, one.text)) for one in sentences]
    columns = [cosine, cosine - cosine.max(), _around(sentences, cosine), cosine * shown]
    return np.column_stack(columns).astype(np.float32)


def _around(sentences: Sequence[Candidate], cosine: Vectors) -> list[float]:
    """The best meaning match of the sentence before or after, where that was looked at too."""
    at = {(one.source.number, one.order): float(cosine[i]) for i, one in enumerate(sentences)}
    return [
        max(at.get((one.source.number, one.order + step), 0.0) for step in (-1, 1))
        for one in sentences
    ]


def _in_context(one: Candidate) -> str:
    """What is embedded: the sentence, and for a row of a table its header too."""
    text = " ".join((*one.header, one.text)).replace("|", " ") if one.header else one.text
    return text[:_CHARS_EMBEDDED]


def _word_features(question: Question, sentences: Sequence[Candidate]) -> Vectors:
    """How near the nearest word of a sentence is to each word of the question: mean and least.

    A word that is missing and has no near one ("wine" in a sentence on the café's rooms) is what
    tells a question on the same subject from one that is answered.
    """
    asked = [w for w in dict.fromkeys(_WORD.findall(question.text))
             if w.casefold() not in STOP_WORDS and terms(w)]  # fmt: skip
    offered = list(dict.fromkeys(word for one in sentences for word in one.words))
    if not asked or not offered:
        return np.zeros((len(sentences), 2), dtype=np.float32)
    vectors = shipped_words()([*(word.casefold() for word in asked), *offered])
    wanted, held = vectors[: len(asked)], vectors[len(asked) :]
    near = held @ wanted.T
    at = {word: place for place, word in enumerate(offered)}
    stems = [frozenset(terms(word)) for word in asked]
    weights = np.array([max(question.weights.get(t, 0.0) for t in some) for some in stems])
    weights = (weights / (weights.sum() or 1.0)).astype(np.float32)
    # Sentence after sentence in one array, cut where the next one begins.
    spoken = [place for place, one in enumerate(sentences) if one.words]
    rows = np.array([at[word] for place in spoken for word in sentences[place].words])
    starts = np.cumsum([0, *(len(sentences[place].words) for place in spoken[:-1])])
    best = np.zeros((len(sentences), len(asked)), dtype=np.float32)
    best[spoken] = np.maximum.reduceat(near[rows], starts)
    here = [[not some.isdisjoint(one.context_terms) for some in stems] for one in sentences]
    best[np.array(here)] = 1.0
    return np.column_stack([best @ weights, best.min(axis=1)])
