"""Write the answer: with the provider, or with the fallback when the provider fails.

query and sources → pieces of text with whole markers, and at the end the draft.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from ragstone.errors import InputError, ProviderError
from ragstone.index.analyze import STOP_WORDS, terms
from ragstone.models.cache import remembered
from ragstone.plugins import PartContext
from ragstone.protocols import Embedder, Provider
from ragstone.query.evidence import Draft
from ragstone.query.fallback import Fallbacks
from ragstone.query.ground.cite import MarkerStream, Notation, statements
from ragstone.query.ground.prompt import SourceOrder, build_prompt
from ragstone.text import sentence_spans, storable, words
from ragstone.trace import QueryRun, Span
from ragstone.types import NO_ANSWER, Prompt, Query, Source, Usage

T = TypeVar("T")

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


@dataclass(frozen=True, slots=True)
class PromptAnswerer:
    """Write with the provider, and with the fallback when the provider cannot.

    A provider that is down, slow, breaks off or talks nonsense never costs the answer: the fallback
    quotes the sources instead.
    """

    provider: Provider
    fallback: Provider | None
    fallbacks: Fallbacks
    embedder: Embedder | None = None
    """Tells what has to do with the question from what has not."""
    order: SourceOrder = "best_first"

    async def write(
        self, query: Query, sources: tuple[Source, ...], run: QueryRun
    ) -> AsyncGenerator[str | Draft, None]:
        """Yield pieces of text with whole markers, and at the end the draft."""
        if query.mode == "plain":
            _refuse_plain_chat(self.provider)
        notation = Notation(sources, query.citation_style)
        with run.span("ground.generate") as span:
            for draft in self._drafts(run):
                stream: MarkerStream | PlainText = (
                    PlainText() if query.mode == "plain" else MarkerStream(notation)
                )
                usage: list[Usage] = []
                prompt = self._prompt(draft.provider, query, sources)
                try:
                    async with closing_iterator(draft.provider.stream(prompt)) as pieces:
                        async for piece in pieces:
                            if isinstance(piece, Usage):
                                usage.append(piece)
                            elif ready := stream.feed(storable(piece)):
                                draft.text += ready
                                yield ready
                    if rest := stream.close():
                        draft.text += rest
                        yield rest
                    await span.run_in_background(self._refuse_nonsense, draft, prompt, notation)
                    break
                except Exception as error:  # whatever a provider raises, the fallback answers
                    # Without sources there is nothing to quote: no provider is able to answer.
                    if self.fallback is None or draft.is_fallback or not sources:
                        raise
                    self.fallbacks.use("extractive_answer", run, span, error)
                    if draft.text:
                        yield "\n\n"
                finally:
                    run.usage += usage
            _count_figures(span, draft, usage, stream.dangling)
        yield draft

    def _prompt(self, provider: Provider, query: Query, sources: tuple[Source, ...]) -> Prompt:
        if not getattr(provider, "reads_messages", True):
            return Prompt(query.text, sources)
        return build_prompt(query, sources, order=self.order)

    def _drafts(self, run: QueryRun) -> Iterator[Draft]:
        # A provider that failed in this query already is not asked again.
        if self.fallback is None or "extractive_answer" not in run.degraded:
            yield Draft(self.provider)
        if self.fallback is not None:
            yield Draft(self.fallback, is_fallback=True)

    def _refuse_nonsense(self, draft: Draft, prompt: Prompt, notation: Notation) -> None:
        if self.fallback is None or draft.is_fallback or not draft.text.strip():
            return
        if is_refusal(draft.text):
            return
        own = " ".join(one.text for one in statements(draft.text, notation))
        if is_nonsense(prompt.question, own, prompt.sources, self.embedder):
            raise ProviderError(
                f"What {draft.provider.name} wrote has nothing to do with the question.",
                hint="Try a larger model.",
            )


class PlainText:
    """Pass text on as it comes: in a chat without documents nothing is a marker."""

    dangling: tuple[str, ...] = ()

    def feed(self, piece: str) -> str:
        return piece

    def close(self) -> str:
        return ""


@asynccontextmanager
async def closing_iterator(pieces: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Close an iterator at the end if it can be closed: a plug-in's may be no generator."""
    try:
        yield pieces
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


def _refuse_plain_chat(provider: Provider) -> None:
    if provider.name == "extractive":
        raise InputError(
            "The extractive answerer only quotes documents; a plain chat needs a model.",
            hint="Choose one with LLM_PROVIDER, or leave rag_enabled on.",
        )


def _count_figures(
    span: Span, draft: Draft, usage: Sequence[Usage], dangling: Sequence[str]
) -> None:
    for marker in dangling:
        span.note(f"The marker {marker} points to no source and was removed.")
    span.count(provider=draft.provider.name, model=draft.provider.model, chars=len(draft.text))
    if usage:
        costs = [one.cost_usd for one in usage if one.cost_usd is not None]
        span.count(
            input_tokens=sum(one.input_tokens for one in usage),
            output_tokens=sum(one.output_tokens for one in usage),
            cost_usd=round(sum(costs), 6) if costs else None,
        )


def build(context: PartContext) -> PromptAnswerer:
    assert context.provider is not None
    quoting = context.quoting
    return PromptAnswerer(
        context.provider,
        None if quoting is context.provider else quoting,
        context.fallbacks,
        remembered(context.reads_with),
        context.settings.ground.order,
    )
