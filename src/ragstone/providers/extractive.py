"""The answerer that needs no model server: it quotes the sentences that answer the question.

It never writes a word that is not in a source, and says so when no sentence answers. The same
question over the same documents gives the same answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragstone.plugins import PartContext
from ragstone.sentences import sentence_spans
from ragstone.stages import Embedder
from ragstone.stores.analyze import terms
from ragstone.types import NO_ANSWER, Prompt, Source

# Weight of meaning against shared terms, and the bar an answer must pass: see docs/concepts.
MEANING = 0.6
ENOUGH = 0.38
# A further sentence is worth adding when it is nearly as good as the best.
NEARLY = 0.9
MOST_SENTENCES = 3
_SOURCES_READ = 5
_SENTENCES_READ = 48
_FEWEST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence of a source and how well it answers."""

    source: Source
    start: int
    end: int
    score: float = 0.0

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class ExtractiveProvider:
    """Picks the best sentences of the first sources, each with its marker."""

    name: ClassVar[str] = "extractive"
    embedder: Embedder

    @property
    def model(self) -> str:
        return self.embedder.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        chosen = choose(self._scored(prompt.question, prompt.sources))
        if not chosen:
            yield NO_ANSWER
        for number, candidate in enumerate(chosen):
            quoted = " ".join(candidate.text.split())
            yield f"{' ' if number else ''}{quoted} [Source {candidate.source.number}]"

    def _scored(self, question: str, sources: Sequence[Source]) -> list[Candidate]:
        candidates = [
            Candidate(source, start, end)
            for source in sources[:_SOURCES_READ]
            for start, end in sentence_spans(source.text)
            if len(source.text[start:end].split()) >= _FEWEST_WORDS
        ][:_SENTENCES_READ]
        if not candidates:
            return []
        vectors = self.embedder.embed([question, *(candidate.text for candidate in candidates)])
        meaning = np.clip(vectors[1:] @ vectors[0], 0.0, 1.0).tolist()
        wanted = set(terms(question))
        return [
            Candidate(
                one.source, one.start, one.end,
                MEANING * similar + (1 - MEANING) * coverage(wanted, one),
            )
            for one, similar in zip(candidates, meaning, strict=True)
        ]  # fmt: skip


def coverage(wanted: set[str], candidate: Candidate) -> float:
    """The share of the question's terms in a sentence; those in its headings count half."""
    if not wanted:
        return 0.0
    here = set(terms(candidate.text))
    above = set(terms(" ".join(candidate.source.hit.chunk.heading_path))) - here
    return (len(wanted & here) + 0.5 * len(wanted & above)) / len(wanted)


def choose(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best sentence and those nearly as good, best first; none when the best is not enough."""
    ranked = sorted(candidates, key=lambda one: (-one.score, one.source.number, one.start))
    if not ranked or ranked[0].score < ENOUGH:
        return []
    chosen: list[Candidate] = []
    for candidate in ranked:
        new = all(candidate.text != other.text for other in chosen)
        if candidate.score >= NEARLY * ranked[0].score and new:
            chosen.append(candidate)
    return chosen[:MOST_SENTENCES]


def build(context: PartContext) -> ExtractiveProvider:
    return ExtractiveProvider(context.embedder)
