"""Choose the sentences of the sources that answer a question, and estimate how probable that is.

question and sources → a choice. The extractive provider quotes it; for every other provider its
probability grades the evidence.
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

from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext
from ragstone.protocols import Embedder, Vectors
from ragstone.reading.features import (
    CHEAP,
    FEATURES,
    SOURCES_READ,
    Candidate,
    compute_cheap_features,
    compute_meaning_features,
    list_candidates,
    parse_question,
)
from ragstone.reading.units import describe_row, escape_markers
from ragstone.types import NO_ANSWER, Prompt, Source

# Features of the whole ranking, beside those of the best sentence.
OVERALL = ("share", "lead", "cosine_max", "coverage_around_max", "similarity_max")
MAX_SENTENCES = 3
# Only these sentences are embedded: at most so many, and none with less than this share by the
# cheap features. bench/fit_extractive.py prints how often the answer is among them.
SENTENCES_EMBEDDED = 8
SHARE_EMBEDDED = 0.003
_MAX_LEAD = 4.0
_MAX_CHOICES = 64


@dataclass(frozen=True, slots=True)
class Weights:
    """Hold one weight per feature name; a missing name weighs nothing."""

    cheap: NDArray[np.float64]
    rank: NDArray[np.float64]
    answer: NDArray[np.float64]
    bias: float
    threshold: float
    """A less probable answer is not given."""
    enough: float
    """Sentences are added until their share of the ranking's probability reaches this."""


@cache
def load_weights() -> Weights:
    text = resources.files(__package__).joinpath("weights.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return Weights(
        cheap=_read_row(table["cheap"], CHEAP),
        rank=_read_row(table["rank"], FEATURES),
        answer=_read_row(table["answer"], FEATURES + OVERALL),
        bias=float(table["bias"]),
        threshold=float(table["threshold"]),
        enough=float(table["enough"]),
    )


def _read_row(table: Mapping[str, float], names: Sequence[str]) -> NDArray[np.float64]:
    return np.array([table.get(name, 0.0) for name in names], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold the chosen sentences, and how probable it is that they answer."""

    sentences: tuple[Candidate, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class SentenceChooser:
    """Choose sentences, and keep the last choices: the evidence is graded before it is quoted."""

    embedder: Embedder
    weights: Weights = field(default_factory=load_weights)
    measures_similarity: bool = False
    """Measure the similarity of the sources here: another model found them, and the weights were
    fitted to the similarities of `embedder`."""
    _choices: OrderedDict[tuple[str, ...], Choice] = field(default_factory=OrderedDict)

    def estimate_probability(self, question: str, sources: Sequence[Source]) -> float:
        """Estimate how probable it is that the sources hold the answer."""
        return self.choose(question, sources).probability

    def choose(self, question: str, sources: Sequence[Source]) -> Choice:
        """Return the choice for a question, computed at most once while it is kept."""
        key = (question, *(f"{source.hit.chunk.id}\0{source.text}" for source in sources))
        choice = self._choices.get(key)
        if choice is None:
            if self.measures_similarity:
                sources = add_similarities(question, sources, self.embedder)
            choice = choose_sentences(question, sources, self.embedder, self.weights)
            self._choices[key] = choice
            while len(self._choices) > _MAX_CHOICES:
                self._choices.popitem(last=False)
        return choice


@dataclass(frozen=True, slots=True)
class ExtractiveProvider:
    """Quote the best sentences of the first sources, each with its marker."""

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
        for position, one in enumerate(choice.sentences):
            space = " " if position else ""
            yield f"{space}{format_quotation(one)} [Source {one.source.number}]"


def build(context: PartContext) -> ExtractiveProvider:
    embedder = add_vector_cache(context.reads_with)
    # A service that searches in our place gives scores of its own, and no similarities.
    found_elsewhere = context.reader is not None or bool(context.settings.retrieve.chunkenizer_url)
    return ExtractiveProvider(SentenceChooser(embedder, measures_similarity=found_elsewhere))


def format_quotation(one: Candidate) -> str:
    """Return a sentence on one line, a table row as its cells under their headings.

    Text of a document that looks like a marker must not become one.
    """
    text = describe_row(one.header, one.text) if one.header else " ".join(one.text.split())
    return escape_markers(text)


def choose_sentences(
    question: str, sources: Sequence[Source], embedder: Embedder, weights: Weights
) -> Choice:
    """Return the sentences that answer, in reading order; none if there are no candidates."""
    candidates = list_candidates(question, sources)
    if not candidates:
        return Choice((), 0.0)
    parsed = parse_question(question, candidates)
    cheap = compute_cheap_features(parsed, candidates)
    first = select_front(cheap @ weights.cheap)
    front = [candidates[place] for place in first]
    rows: Vectors = np.hstack([cheap[first], compute_meaning_features(parsed, front, embedder)])
    scores = rows @ weights.rank
    shares = compute_shares(scores)
    chosen: list[Candidate] = []
    total = 0.0
    for place in np.argsort(-scores, kind="stable"):
        chosen.append(front[place])
        total += float(shares[place])
        if total >= weights.enough or len(chosen) == MAX_SENTENCES:
            break
    return Choice(tuple(sort_in_reading_order(chosen)), estimate_probability(weights, rows, scores))


def add_similarities(question: str, sources: Sequence[Source], embedder: Embedder) -> list[Source]:
    """Add similarities by this embedder to the sources that are read; others keep theirs."""
    read = sources[:SOURCES_READ]
    vectors = embedder.embed([question, *(s.hit.chunk.contextual_text for s in read)])
    cosines = (vectors[1:] @ vectors[0]).tolist()
    measured = [
        replace(source, hit=source.hit.with_scores(similarity=cosine))
        for source, cosine in zip(read, cosines, strict=True)
    ]
    return [*measured, *sources[SOURCES_READ:]]


def select_front(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the places of the sentences that are worth embedding, best first."""
    order = np.argsort(-scores, kind="stable")[:SENTENCES_EMBEDDED]
    # Always the best one: among hundreds of similar lines the share of each is near zero.
    count = int((compute_shares(scores)[order] >= SHARE_EMBEDDED).sum())
    return order[: max(1, count)]


def compute_shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn the scores of a ranking into probabilities that add up to 1."""
    raised = np.exp(scores - scores.max())
    shares: NDArray[np.float64] = raised / raised.sum()
    return shares


def estimate_probability(weights: Weights, rows: Vectors, scores: NDArray[np.float64]) -> float:
    """Estimate how probable it is that the best sentence answers the question."""
    logit = float(compute_answer_features(rows, scores) @ weights.answer) + weights.bias
    return float(1.0 / (1.0 + np.exp(-logit)))


def compute_answer_features(rows: Vectors, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Join the features of the best sentence with those of the whole ranking (`OVERALL`)."""
    order = np.argsort(-scores, kind="stable")
    lead = scores[order[0]] - scores[order[1]] if len(order) > 1 else _MAX_LEAD
    overall = [
        compute_shares(scores).max(),
        min(lead, _MAX_LEAD),
        rows[:, FEATURES.index("cosine")].max(),
        rows[:, FEATURES.index("coverage_around")].max(),
        rows[:, FEATURES.index("similarity")].max(),
    ]
    return np.concatenate([rows[order[0]], overall]).astype(np.float64)


def sort_in_reading_order(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Order sources by their best sentence; within a source, follow the text.

    A sentence that points back ("It ends on …") brings the one before it.
    """
    numbers = list(dict.fromkeys(one.source.number for one in chosen))
    ordered: list[Candidate] = []
    for number in numbers:
        of_source = sorted((o for o in chosen if o.source.number == number), key=lambda o: o.start)
        previous = ""
        for one in of_source:
            if one.points_back and one.before and one.before != previous:
                ordered.append(_get_previous(one))
            ordered.append(one)
            previous = one.text
    return ordered


def _get_previous(one: Candidate) -> Candidate:
    start = one.source.text.rindex(one.before, 0, one.start)
    return replace(one, start=start, end=start + len(one.before), before="", after=one.text)
