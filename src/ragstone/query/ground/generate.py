"""The answer as it is written: from the provider, or from the next rung when that one fails.

prompt → pieces of text, markers whole, and at the end the draft. A provider that is down, slow,
breaks off or talks nonsense never costs the answer: the fallback quotes the sources instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from ragstone.characters import storable
from ragstone.errors import ProviderError
from ragstone.query.check.abstain import is_nonsense, is_refusal
from ragstone.query.ground.cite import statements
from ragstone.query.ground.markers import MarkerStream, Notation
from ragstone.query.ladder import Ladder
from ragstone.stages import Embedder, Provider
from ragstone.trace import Span, Trace
from ragstone.types import Prompt, Usage


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
