"""Which sentences of the sources answer a question, and how probable it is that they do.

question and sources → a choice. The extractive answerer quotes it; for every other provider its
probability says what the evidence is worth, before and after the answer is written.
"""

from __future__ import annotations

import tomllib
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ragstone.models.cache import remembered
from ragstone.plugins import PartContext
from ragstone.protocols import Embedder, Vectors
from ragstone.query.ground.cite import neutral
from ragstone.reading.features import (
    CHEAP,
    FEATURES,
    SOURCES_READ,
    Candidate,
    candidates,
    cheap_features,
    meaning_features,
    take_apart,
)
from ragstone.reading.units import in_words
from ragstone.types import NO_ANSWER, Prompt, Source

# What the answer model sees beside the features of the best sentence.
OVERALL = ("share", "lead", "cosine_max", "coverage_around_max", "similarity_max")
_LARGEST_LEAD = 4.0


@dataclass(frozen=True, slots=True)
class Weights:
    """One weight per feature name; a name that is missing weighs nothing."""

    cheap: NDArray[np.float64]
    rank: NDArray[np.float64]
    answer: NDArray[np.float64]
    bias: float
    threshold: float
    """An answer less probable than this is not given."""
    enough: float
    """Sentences are added until their share of the ranking's probability reaches this."""


@cache
def shipped_weights() -> Weights:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return Weights(
        cheap=_row(table["cheap"], CHEAP),
        rank=_row(table["rank"], FEATURES),
        answer=_row(table["answer"], FEATURES + OVERALL),
        bias=float(table["bias"]),
        threshold=float(table["threshold"]),
        enough=float(table["enough"]),
    )


def _row(table: Mapping[str, float], names: Sequence[str]) -> NDArray[np.float64]:
    return np.array([table.get(name, 0.0) for name in names], dtype=np.float64)


def shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of a ranking as probabilities that add up to 1."""
    raised = np.exp(scores - scores.max())
    total: NDArray[np.float64] = raised / raised.sum()
    return total


def answer_features(rows: Vectors, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The features of the best sentence, and what can be said of all of them together."""
    order = np.argsort(-scores, kind="stable")
    best = rows[order[0]]
    lead = scores[order[0]] - scores[order[1]] if len(order) > 1 else _LARGEST_LEAD
    return np.concatenate([
        best,
        [
            shares(scores).max(),
            min(lead, _LARGEST_LEAD),
            rows[:, FEATURES.index("cosine")].max(),
            rows[:, FEATURES.index("coverage_around")].max(),
            rows[:, FEATURES.index("similarity")].max(),
        ],
    ]).astype(np.float64)  # fmt: skip


def probability(weights: Weights, rows: Vectors, scores: NDArray[np.float64]) -> float:
    """How probable it is that the best sentence answers the question."""
    logit = float(answer_features(rows, scores) @ weights.answer) + weights.bias
    return float(1.0 / (1.0 + np.exp(-logit)))


MOST_SENTENCES = 3
# Sentences whose meaning is looked at: at most so many, and none to which the cheap features give
# less than this share. bench/fit_extractive.py prints how often the answer is among them.
SENTENCES_EMBEDDED = 8
SHARE_EMBEDDED = 0.003
_CHOICES_KEPT = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """The sentences that were chosen, and how probable it is that they answer."""

    sentences: tuple[Candidate, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class SentenceChooser:
    """Chooses, and remembers the last choices: the evidence is graded before it is quoted."""

    embedder: Embedder
    weights: Weights = field(default_factory=shipped_weights)
    measures: bool = False
    """Whether to measure the similarity of the sources itself: another model found them, and the
    weights know only this one's similarities."""
    _kept: OrderedDict[tuple[str, ...], Choice] = field(default_factory=OrderedDict)

    def probability(self, question: str, sources: Sequence[Source]) -> float:
        """Estimate how probable it is that the sources hold the answer."""
        return self.choose(question, sources).probability

    def choose(self, question: str, sources: Sequence[Source]) -> Choice:
        key = (question, *(f"{source.hit.chunk.id}\0{source.text}" for source in sources))
        choice = self._kept.get(key)
        if choice is None:
            if self.measures:
                sources = measured(question, sources, self.embedder)
            choice = choose(question, sources, self.embedder, self.weights)
            self._kept[key] = choice
            while len(self._kept) > _CHOICES_KEPT:
                self._kept.popitem(last=False)
        return choice


def measured(question: str, sources: Sequence[Source], embedder: Embedder) -> list[Source]:
    """The sources with similarities by this embedder; those that are not read keep theirs."""
    read = sources[:SOURCES_READ]
    vectors = embedder.embed([question, *(s.hit.chunk.contextual_text for s in read)])
    cosines = (vectors[1:] @ vectors[0]).tolist()
    found = [
        replace(source, hit=source.hit.judged(similarity=cosine))
        for source, cosine in zip(read, cosines, strict=True)
    ]
    return [*found, *sources[SOURCES_READ:]]


def choose(
    question: str, sources: Sequence[Source], embedder: Embedder, weights: Weights
) -> Choice:
    """The sentences that answer, in reading order; none when there is nothing to choose from."""
    found = candidates(question, sources)
    if not found:
        return Choice((), 0.0)
    asked = take_apart(question, found)
    cheap = cheap_features(asked, found)
    first = in_front(cheap @ weights.cheap)
    front = [found[place] for place in first]
    rows: Vectors = np.hstack([cheap[first], meaning_features(asked, front, embedder)])
    scores = rows @ weights.rank
    share = shares(scores)
    chosen: list[int] = []
    held = 0.0
    for place in np.argsort(-scores, kind="stable"):
        chosen.append(int(place))
        held += float(share[place])
        if held >= weights.enough or len(chosen) == MOST_SENTENCES:
            break
    picked = [front[place] for place in chosen]
    return Choice(tuple(in_reading_order(picked)), probability(weights, rows, scores))


def in_front(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """The places of the sentences whose meaning is worth a look, best first."""
    order = np.argsort(-scores, kind="stable")[:SENTENCES_EMBEDDED]
    # The best one always: among hundreds of like lines the share of each is next to nothing.
    worth = int((shares(scores)[order] >= SHARE_EMBEDDED).sum())
    return order[: max(1, worth)]


def in_reading_order(picked: Sequence[Candidate]) -> list[Candidate]:
    """Sources as their best sentence ranks; within one, the order of the text.

    A sentence that points back ("It ends on …") brings the one before it.
    """
    numbers = list(dict.fromkeys(one.source.number for one in picked))
    ordered: list[Candidate] = []
    for number in numbers:
        of_source = sorted((o for o in picked if o.source.number == number), key=lambda o: o.start)
        said = ""
        for one in of_source:
            if one.points_back and one.before and one.before != said:
                ordered.append(_before(one))
            ordered.append(one)
            said = one.text
    return ordered


def _before(one: Candidate) -> Candidate:
    start = one.source.text.rindex(one.before, 0, one.start)
    return replace(one, start=start, end=start + len(one.before), before="", after=one.text)


@dataclass(frozen=True, slots=True)
class ExtractiveProvider:
    """Quotes the best sentences of the first sources, each with its marker."""

    name: ClassVar[str] = "extractive"
    reads_messages: ClassVar[bool] = False
    chooser: SentenceChooser

    @property
    def model(self) -> str:
        return self.chooser.embedder.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        choice = self.chooser.choose(prompt.question, prompt.sources)
        if choice.probability < self.chooser.weights.threshold:
            yield NO_ANSWER
            return
        for number, sentence in enumerate(choice.sentences):
            yield f"{' ' if number else ''}{quoted(sentence)} [Source {sentence.source.number}]"


def quoted(one: Candidate) -> str:
    """A sentence on one line; the row of a table as its cells under their headings.

    What looks like a marker inside a document must not become one.
    """
    text = in_words(one.header, one.text) if one.header else " ".join(one.text.split())
    return neutral(text)


def build(context: PartContext) -> ExtractiveProvider:
    embedder = remembered(context.reads_with)
    # A service that searches in our place gives scores of its own, and no similarities.
    others = context.reader is not None or bool(context.settings.retrieve.chunkenizer_url)
    return ExtractiveProvider(SentenceChooser(embedder, measures=others))
