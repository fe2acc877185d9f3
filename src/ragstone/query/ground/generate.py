"""Write the answer: with the provider, or with the fallback when the provider fails.

query and sources → pieces of text with whole markers, and at the end the draft.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ragstone.calls import Usage
from ragstone.errors import InputError, ProviderError
from ragstone.evidence import Draft, Evidence
from ragstone.fallback import Fallbacks
from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext
from ragstone.protocols import Embedder, Provider
from ragstone.query.ground.cite import MarkerStream, Notation, split_statements
from ragstone.query.ground.prompt import SourceOrder, build_prompt, fit_prompt, make_fence
from ragstone.query.ground.quote import QuotingProvider
from ragstone.text import find_sentence_spans, remove_unstorable, split_words
from ragstone.trace import QueryRun, Span
from ragstone.types import NO_ANSWER, Message, Prompt, Query, Source

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
_MAX_REFUSAL_SENTENCES = 2
# Below both of these an answer has nothing to do with its question and sources. Even the poor
# answers of SmolLM2 to the sample questions share a fifth of their terms or more.
_MIN_SHARED_TERMS = 0.15
_MIN_SIMILARITY = 0.3
_MAX_SOURCES_COMPARED = 3
_MIN_WORDS = 3
# The tokens of a prompt are estimated, so a shorter one may be too long as well.
_MAX_SHORTENED = 3
_REPEATS_FROM_WORDS = 40
_MIN_FRESH_WORDS = 0.12


def is_refusal(text: str) -> bool:
    """Return True when an answer says, in any words, that the documents do not answer."""
    if not text.strip() or NO_ANSWER in text:
        return True
    if len(find_sentence_spans(text)) > _MAX_REFUSAL_SENTENCES:
        return False
    return bool(_REFUSAL.search(text))


def is_nonsense(
    question: str, text: str, sources: Sequence[Source], embedder: Embedder | None
) -> bool:
    """Return True when an answer shares nothing with question and sources, or repeats itself."""
    said = split_words(text)
    if len(said) >= _REPEATS_FROM_WORDS and len(set(said)) < _MIN_FRESH_WORDS * len(said):
        return True
    own = {word for word in said if word not in STOP_WORDS}
    if not said or not sources:
        return not said
    if len(own) < _MIN_WORDS:
        return False  # "Yes." is short, not nonsense
    known = set(split_words(question)).union(*(split_words(source.text) for source in sources))
    stems = set(extract_terms(question)).union(*(extract_terms(source.text) for source in sources))
    if sum(word in known or bool(stems & set(extract_terms(word))) for word in own) >= (
        _MIN_SHARED_TERMS * len(own)
    ):
        return False
    if embedder is None:
        return True
    others = [question, *(source.text for source in sources[:_MAX_SOURCES_COMPARED])]
    vectors = embedder.embed([text, *others])
    return bool((vectors[1:] @ vectors[0]).max() < _MIN_SIMILARITY)


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
    """Compares an answer with question and sources, to detect nonsense."""
    order: SourceOrder = "best_first"
    chats_without_sources: bool = False
    """Let the model answer without documents when nothing is found; else nothing is asked."""
    fence: str = make_fence(0)

    async def write(
        self, query: Query, evidence: Evidence, run: QueryRun
    ) -> AsyncGenerator[str | Draft, None]:
        """Yield pieces of text with whole markers, and at the end the draft."""
        wants_chat = query.mode == "plain"
        sources = evidence.sources
        notation = Notation(sources, query.citation_style)
        stream: MarkerStream | PlainText = PlainText()
        with run.span("ground.generate") as span:
            query = query if sources else self._use_chat(query, run, span)
            for provider in self._list_providers(query, sources, run):
                if isinstance(provider, QuotingProvider):
                    draft = await provider.quote(query, evidence)
                    draft.is_fallback = provider is self.fallback
                    yield draft.text
                    break
                draft = self._start_draft(provider, query)
                stream = PlainText() if draft.is_plain else MarkerStream(notation)
                try:
                    pieces, first, note = await self._start_stream(provider, query, sources)
                    async with closing_iterator(pieces):
                        async for piece in _read_stream(pieces, first, stream, draft, span):
                            yield piece
                    if note:
                        span.note(note)
                    question = Prompt(query.text, sources)
                    await span.run_in_background(self._refuse_nonsense, draft, question, notation)
                    break
                except Exception as error:  # whatever a provider raises, the fallback answers
                    # A plain chat has nothing to quote: no provider is able to answer.
                    if self.fallback is None or draft.is_fallback or wants_chat:
                        raise
                    self.fallbacks.use("extractive_answer", run, span, error)
                    if draft.text:
                        yield "\n\n"
            _count_figures(span, draft, stream.dangling)
        yield draft

    def _start_draft(self, provider: Provider, query: Query) -> Draft:
        is_fallback = provider is self.fallback
        return Draft(
            provider.name,
            provider.model,
            is_fallback=is_fallback,
            is_plain=query.mode == "plain" and not is_fallback,
        )

    async def _start_stream(
        self, provider: Provider, query: Query, sources: tuple[Source, ...]
    ) -> tuple[AsyncIterator[str | Usage], str | Usage | None, str]:
        """Ask a provider; return its stream, the first piece, and a note on what was left out.

        What its server finds too long is shortened and sent again.
        """
        prompt, note = self._build_prompt(provider, query, sources)
        for tries_left in reversed(range(_MAX_SHORTENED + 1)):
            pieces = aiter(provider.stream(prompt))
            try:
                return pieces, await anext(pieces, None), note
            except BaseException as error:
                await close_iterator(pieces)
                is_too_long = isinstance(error, ProviderError) and error.reason == "context_length"
                if not (tries_left and is_too_long):
                    raise
                shorter, note = self._build_prompt(provider, query, sources)
                if shorter.messages == prompt.messages:
                    raise
                prompt = shorter
        raise AssertionError("the last try returns or raises")

    def _build_prompt(
        self, provider: Provider, query: Query, sources: tuple[Source, ...]
    ) -> tuple[Prompt, str]:
        """Build a prompt that the model has room for, and a note on what was left out."""
        build = partial(build_prompt, order=self.order, fence=self.fence)
        measure_excess = getattr(provider, "measure_excess", None)
        if measure_excess is None:
            return build(query, sources), ""
        return fit_prompt(build, query, sources, measure_excess)

    def _use_chat(self, query: Query, run: QueryRun, span: Span) -> Query:
        """Turn a question that nothing was found for into a plain chat, if that is wanted."""
        if query.mode == "plain":
            _refuse_plain_chat(self.provider)
            return query
        if not self.chats_without_sources or query.outline is not None or self.fallback is None:
            return query
        self.fallbacks.use("plain_chat", run, span)
        question = Message("user", query.original_text or query.text)
        return replace(query, mode="plain", history=(*query.history, question))

    def _list_providers(
        self, query: Query, sources: tuple[Source, ...], run: QueryRun
    ) -> Iterator[Provider]:
        # A provider that failed in this query already is not asked again. Without sources there is
        # nothing that a model may say: the fallback abstains, which costs no call.
        has_failed = "extractive_answer" in run.degraded
        may_write = bool(sources) or query.mode == "plain"
        if self.fallback is None or (may_write and not has_failed):
            yield self.provider
        if self.fallback is not None:
            yield self.fallback

    def _refuse_nonsense(self, draft: Draft, prompt: Prompt, notation: Notation) -> None:
        if self.fallback is None or draft.is_fallback or not draft.text.strip():
            return
        if is_refusal(draft.text):
            return
        own = " ".join(one.text for one in split_statements(draft.text, notation))
        if is_nonsense(prompt.question, own, prompt.sources, self.embedder):
            raise ProviderError(
                f"The answer of {draft.provider} has nothing to do with the question.",
                hint="Try a larger model.",
            )


async def _read_stream(
    pieces: AsyncIterator[str | Usage],
    piece: str | Usage | None,
    stream: MarkerStream | PlainText,
    draft: Draft,
    span: Span,
) -> AsyncIterator[str]:
    """Yield what may be shown, and collect it in the draft; `piece` is the first one."""
    while piece is not None:
        if isinstance(piece, Usage):
            span.count_usage(piece)
            draft.stop_reason = piece.stop_reason
        elif ready := stream.feed(remove_unstorable(piece)):
            draft.text += ready
            yield ready
        piece = await anext(pieces, None)
    if rest := stream.close():
        draft.text += rest
        yield rest


class PlainText:
    """Pass text on as it comes: in a chat without documents nothing is a marker."""

    dangling: tuple[str, ...] = ()

    def feed(self, piece: str) -> str:
        return piece

    def close(self) -> str:
        return ""


@asynccontextmanager
async def closing_iterator(pieces: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Close an iterator at the end."""
    try:
        yield pieces
    finally:
        await close_iterator(pieces)


async def close_iterator(pieces: AsyncIterator[object]) -> None:
    """Close an iterator if it can be closed: that of a plug-in may have no `aclose`."""
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await close()


def _refuse_plain_chat(provider: Provider) -> None:
    if isinstance(provider, QuotingProvider):
        raise InputError(
            "A chat without documents needs a model; the provider 'extractive' only quotes.",
            hint="Set LLM_PROVIDER to a model provider, or leave rag_enabled on.",
        )


def _count_figures(span: Span, draft: Draft, dangling: Sequence[str]) -> None:
    if draft.stop_reason == "length":
        span.note("The answer ends at the token limit of the model. LLM_MAX_TOKENS sets it.")
    elif draft.stop_reason == "blocked":
        span.note("A content filter of the service ended the answer.")
    for marker in dangling:
        span.note(f"The marker {marker} names no existing source and was removed.")
    span.count(
        provider=draft.provider,
        model=draft.model,
        chars=len(draft.text),
        stop_reason=draft.stop_reason,
    )


def build(context: PartContext) -> PromptAnswerer:
    assert context.provider is not None
    quoting = context.quoting
    if quoting is context.provider or context.settings.provider.strict:
        quoting = None
    return PromptAnswerer(
        context.provider,
        quoting,
        context.fallbacks,
        add_vector_cache(context.reads_with),
        context.settings.ground.order,
        context.settings.retrieve.fallback == "chat",
        make_fence(context.catalog.identity()),
    )
