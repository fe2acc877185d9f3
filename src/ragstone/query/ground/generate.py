"""The answer as it is written: from the provider, or from the next rung when that one fails.

prompt → pieces of text, markers whole, and at the end the draft. A provider that is down, slow,
breaks off or talks nonsense never costs the answer: the fallback quotes the sources instead.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from ragstone.errors import ProviderError
from ragstone.index.analyze import STOP_WORDS, terms
from ragstone.protocols import Embedder, Provider
from ragstone.query.fallback import Ladder
from ragstone.query.ground.cite import statements
from ragstone.query.ground.markers import MarkerStream, Notation
from ragstone.text import sentence_spans, storable, words
from ragstone.trace import Span, Trace
from ragstone.types import NO_ANSWER, Prompt, Source, Usage

_DOCUMENTS = (
    r"(?:(?:provided|given|available|above|supplied|numbered) )*"
    r"(?:documents?|sources?|excerpts?|context|passages?|texts?|information)"
)
_REFUSAL = re.compile(
    rf"\b(?:the|these|those|any of the) {_DOCUMENTS}(?: provided| given| above)?"
    r" (?:do(?:es)?|did) (?:not|n['’]t) (?:\w+ )?"
    r"(?:contain|mention|provide|include|say|specify|state|hold|have|give|answer|address|cover)\b"
    rf"|\b(?:not|n['’]t|never) (?:\w+ )?(?:mentioned|specified|stated|given|provided|included|"
    rf"found|available|answered) (?:in|by|from) (?:the|these|any of the) {_DOCUMENTS}"
    r"|\bthere is no (?:information|mention|answer|data)\b"
    r"|\bno (?:information|mention|answer)\b[^.]{0,60}\b(?:is|was|can be) (?:found|given)\b"
    r"|\bI (?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|am unable to|'m unable to) "
    r"(?:know|answer|find|have (?:enough|any|the|that|sufficient)|determine|tell|say)\b"
    r"|\b(?:enough|sufficient) information\b|\bkeine (?:Angaben?|Informationen)\b",
    re.IGNORECASE,
)
# A refusal is short; an answer that ends with "the sources do not say why" is an answer.
_MOST_SENTENCES_OF_A_REFUSAL = 2
# Below both of these nothing binds an answer to its question and sources. Answers of SmolLM2 to
# the sample questions, poor as they are, share a fifth of their terms or more.
_SHARED_TERMS = 0.15
_SIMILAR = 0.3
_MOST_SOURCES_COMPARED = 3
_FEWEST_WORDS = 3
_REPEATS_FROM_WORDS = 40
_FRESH_WORDS = 0.12


def is_refusal(text: str) -> bool:
    """Whether an answer says, in whatever words, that the documents do not answer."""
    if not text.strip() or NO_ANSWER in text:
        return True
    if len(sentence_spans(text)) > _MOST_SENTENCES_OF_A_REFUSAL:
        return False
    return bool(_REFUSAL.search(text))


def is_nonsense(
    question: str, text: str, sources: Sequence[Source], embedder: Embedder | None
) -> bool:
    """Whether an answer has nothing in common with its question and sources, or goes in circles."""
    said = words(text)
    if len(said) >= _REPEATS_FROM_WORDS and len(set(said)) < _FRESH_WORDS * len(said):
        return True
    own = {word for word in said if word not in STOP_WORDS}
    if not said or not sources:
        return not said
    if len(own) < _FEWEST_WORDS:
        return False  # "Yes." is short, not nonsense
    known = set(words(question)).union(*(words(source.text) for source in sources))
    stems = set(terms(question)).union(*(terms(source.text) for source in sources))
    if sum(word in known or bool(stems & set(terms(word))) for word in own) >= (
        _SHARED_TERMS * len(own)
    ):
        return False
    if embedder is None:
        return True
    others = [question, *(source.text for source in sources[:_MOST_SOURCES_COMPARED])]
    vectors = embedder.embed([text, *others])
    return bool((vectors[1:] @ vectors[0]).max() < _SIMILAR)


@dataclass(slots=True)
class Draft:
    """An answer as it was written, not yet checked."""

    provider: Provider
    text: str = ""
    usage: list[Usage] = field(default_factory=list)
    stepped_in: bool = False
    """Whether the fallback wrote it."""


@dataclass(frozen=True, slots=True)
class Generator:
    """Writes with the provider, and with the fallback when the provider cannot."""

    provider: Provider
    fallback: Provider | None
    ladder: Ladder
    embedder: Embedder | None = None
    """Tells what has to do with the question from what has not."""

    async def write(
        self, prompt: Prompt, notation: Notation, trace: Trace
    ) -> AsyncIterator[str | Draft]:
        # Who failed in this query already is not asked again.
        failed = "extractive_answer" in trace.degraded
        draft = Draft(self.provider)
        if failed and self.fallback is not None:
            draft = Draft(self.fallback, stepped_in=True)
        with trace.span("ground.generate") as span:
            try:
                async for piece in _written(draft, prompt, notation, span):
                    yield piece
                await span.aside(self._refuse_nonsense, draft, prompt, notation)
            except Exception as error:  # whatever a provider raises, the next rung answers
                # Without sources there is nothing to quote: no provider is able to answer.
                if self.fallback is None or not prompt.sources:
                    raise
                self.ladder.step_down("extractive_answer", trace, span, error)
                shown, draft = bool(draft.text), Draft(self.fallback, stepped_in=True)
                if shown:
                    yield "\n\n"
                async for piece in _written(draft, prompt, notation, span):
                    yield piece
            _figures(span, draft)
        yield draft

    def _refuse_nonsense(self, draft: Draft, prompt: Prompt, notation: Notation) -> None:
        if self.fallback is None or draft.stepped_in or not draft.text.strip():
            return
        if is_refusal(draft.text):
            return
        own = " ".join(one.text for one in statements(draft.text, notation))
        if is_nonsense(prompt.question, own, prompt.sources, self.embedder):
            raise ProviderError(
                f"What {draft.provider.name} wrote has nothing to do with the question.",
                hint="Try a larger model.",
            )


async def _written(
    draft: Draft, prompt: Prompt, notation: Notation, span: Span
) -> AsyncIterator[str]:
    stream = MarkerStream(notation)
    async for piece in draft.provider.stream(prompt):
        if isinstance(piece, Usage):
            draft.usage.append(piece)
        elif ready := stream.feed(storable(piece)):
            draft.text += ready
            yield ready
    if rest := stream.close():
        draft.text += rest
        yield rest
    for marker in stream.dangling:
        span.note(f"The marker {marker} points to no source and was removed.")


def _figures(span: Span, draft: Draft) -> None:
    span.count(provider=draft.provider.name, model=draft.provider.model, chars=len(draft.text))
    if draft.usage:
        costs = [one.cost_usd for one in draft.usage if one.cost_usd is not None]
        span.count(
            input_tokens=sum(one.input_tokens for one in draft.usage),
            output_tokens=sum(one.output_tokens for one in draft.usage),
            cost_usd=round(sum(costs), 6) if costs else None,
        )
