"""The answerer that needs no model server: it quotes the sentences that answer the question.

It never writes a word that is not in a source, and says so when no sentence is likely to answer.
The same question over the same documents gives the same answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ragstone.models.remember import RememberedVectors
from ragstone.plugins import PartContext
from ragstone.providers.extractive.features import (
    Candidate,
    candidates,
    cheap_features,
    meaning_features,
    take_apart,
)
from ragstone.providers.extractive.model import Weights, probability, shares, shipped_weights
from ragstone.query.ground.markers import neutral
from ragstone.query.ground.tables import in_words
from ragstone.stages import Embedder, Vectors
from ragstone.types import NO_ANSWER, Prompt, Source

MOST_SENTENCES = 3
# Sentences whose meaning is looked at; the cheap features put the answer among the first 8 for
# 97 of 100 questions (scripts/fit_extractive.py prints it).
SENTENCES_EMBEDDED = 8


@dataclass(frozen=True, slots=True)
class Choice:
    """The sentences that were chosen, and how probable it is that they answer."""

    sentences: tuple[Candidate, ...]
    probability: float


@dataclass(frozen=True, slots=True)
class ExtractiveProvider:
    """Quotes the best sentences of the first sources, each with its marker."""

    name: ClassVar[str] = "extractive"
    embedder: Embedder
    weights: Weights = field(default_factory=shipped_weights)

    @property
    def model(self) -> str:
        return self.embedder.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        choice = choose(prompt.question, prompt.sources, self.embedder, self.weights)
        if choice.probability < self.weights.threshold:
            yield NO_ANSWER
            return
        for number, sentence in enumerate(choice.sentences):
            yield f"{' ' if number else ''}{quoted(sentence)} [Source {sentence.source.number}]"


def choose(
    question: str, sources: Sequence[Source], embedder: Embedder, weights: Weights
) -> Choice:
    """The sentences that answer, in reading order; none when there is nothing to choose from."""
    found = candidates(question, sources)
    if not found:
        return Choice((), 0.0)
    asked = take_apart(question, found)
    cheap = cheap_features(asked, found)
    first = np.argsort(-(cheap @ weights.cheap), kind="stable")[:SENTENCES_EMBEDDED]
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


def in_reading_order(picked: Sequence[Candidate]) -> list[Candidate]:
    """Sources as their best sentence ranks; within one, the order of the text.

    A sentence that points back ("It ends on …") brings the one before it.
    """
    numbers = list(dict.fromkeys(one.source.number for one in picked))
    ordered: list[Candidate] = []
    for number in numbers:
        of_source = sorted((o for o in picked if o.source.number == number), key=lambda o: o.start)
        for one in of_source:
            previous = ordered[-1] if ordered else None
            follows = previous is not None and previous.source.number == number
            if one.points_back and one.before and not (follows and previous.text == one.before):  # type: ignore[union-attr]
                ordered.append(_before(one))
            ordered.append(one)
    return ordered


def _before(one: Candidate) -> Candidate:
    start = one.source.text.rindex(one.before, 0, one.start)
    return replace(one, start=start, end=start + len(one.before), before="", after=one.text)


def quoted(one: Candidate) -> str:
    """A sentence on one line; the row of a table as its cells under their headings.

    What looks like a marker inside a document must not become one.
    """
    text = in_words(one.header, one.text) if one.header else " ".join(one.text.split())
    return neutral(text)


def build(context: PartContext) -> ExtractiveProvider:
    return ExtractiveProvider(RememberedVectors(context.embedder))
