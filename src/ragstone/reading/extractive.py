"""The answerer that needs no model server: it quotes the sentences that answer the question.

It never writes a word that is not in a source, and says so when no sentence is likely to answer.
The same question over the same documents gives the same answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import ClassVar

from ragstone.models.cache import remembered
from ragstone.plugins import PartContext
from ragstone.query.ground.markers import neutral
from ragstone.reading.choose import SentenceChooser
from ragstone.reading.features import Candidate
from ragstone.reading.units import in_words
from ragstone.types import NO_ANSWER, Prompt


@dataclass(frozen=True, slots=True)
class ExtractiveProvider:
    """Quotes the best sentences of the first sources, each with its marker."""

    name: ClassVar[str] = "extractive"
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
