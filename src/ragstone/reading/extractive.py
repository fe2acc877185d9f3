"""Answer without a model: quote what the chooser chose, each unit with its marker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ragstone.index.analyze import extract_terms
from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext
from ragstone.reading.choose import AnswerChooser, Choice, PartChoice
from ragstone.reading.documents import needs_model
from ragstone.reading.question import parse_question
from ragstone.reading.outline import NEEDS_MODEL, write_outline
from ragstone.reading.write import AnswerUnit, build_units
from ragstone.threads import run_in_thread
from ragstone.types import NEAREST, NO_ANSWER, Prompt


@dataclass(frozen=True, slots=True)
class ExtractiveProvider:
    """Quote the best units of the sources, each with its marker."""

    name: ClassVar[str] = "extractive"
    reads_messages: ClassVar[bool] = False
    chooser: AnswerChooser

    @property
    def model(self) -> str:
        return self.chooser.embedder.name

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        if (outline := prompt.outline) is not None:
            # Sentences are embedded: other questions go on meanwhile.
            embedder = self.chooser.embedder
            yield await run_in_thread(
                "models", lambda: "".join(write_outline(outline, prompt.sources, embedder))
            )
            return
        if needs_model(prompt.question):
            yield f"{NO_ANSWER}\n\n{NEEDS_MODEL}"
            return
        choice = self.chooser.choose(prompt.question, prompt.sources)
        for piece in self.write(choice):
            yield piece

    def write(self, choice: Choice) -> Iterator[str]:
        """Yield the pieces of the answer: units, or that the documents do not answer."""
        weights = self.chooser.weights
        if choice.probability < weights.threshold:
            yield NO_ANSWER
            if choice.probability >= weights.near:
                nearest = _build_units(max(choice.parts, key=lambda part: part.probability))
                yield f"\n\n{NEAREST}\n\n{nearest[0].format()}"
            return
        if len(choice.parts) == 1:
            yield self._write_part(choice.parts[0])
            return
        said: set[str] = set()
        pieces: list[str] = []
        compares = parse_question(choice.parts[0].question).kind == "difference"
        for part in choice.parts:
            fresh = tuple(one for one in part.sentences if one.text not in said)
            if compares and part is choice.parts[0]:
                if fresh and names_both(part.question, fresh[0].text):
                    pieces.append(self._write_part(replace(part, sentences=fresh[:1])))
                    said.add(fresh[0].text)
            elif part.probability < weights.near or not part.sentences:
                if not compares:
                    pieces.append(f"Not found in the documents: {part.question}")
            # What answers an earlier part may answer this one too: it is said once.
            elif fresh and (compares or part.sentences[0] is fresh[0]):
                pieces.append(self._write_part(replace(part, sentences=fresh)))
                said |= {one.text for one in fresh}
        yield "\n\n".join(pieces)

    def _write_part(self, part: PartChoice) -> str:
        units = _build_units(part)
        text = "\n\n".join(unit.format() for unit in units)
        # On its own line: "No. 7.3 Customer may not …" would read as a number.
        return f"{part.yes_no}.\n\n{text}" if part.yes_no else text


def _build_units(part: PartChoice) -> list[AnswerUnit]:
    return build_units(parse_question(part.question), part.sentences)


def names_both(question: str, sentence: str) -> bool:
    """Return True when a sentence names both things whose difference is asked for."""
    held = set(extract_terms(sentence))
    subjects = [parse_question(one).subject for one in parse_question(question).parts[1:]]
    return all(set(extract_terms(one)) & held for one in subjects if one)


def build(context: PartContext) -> ExtractiveProvider:
    embedder = add_vector_cache(context.reads_with)
    # A service that searches in our place gives scores of its own, and no similarities.
    has_other_scores = context.reads_with is not context.embedder
    found_elsewhere = has_other_scores or bool(context.settings.retrieve.chunkenizer_url)
    return ExtractiveProvider(AnswerChooser(embedder, measures_similarity=found_elsewhere))
