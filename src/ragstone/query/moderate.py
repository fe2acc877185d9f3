"""Moderation: a plug-in's word on what is asked and on what is answered.

A question that is refused is an error before any work is done. An answer that is refused is
replaced by a sentence that says so; where answers are judged, nothing of one goes out before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from ragstone.errors import ProviderError, RefusedError
from ragstone.protocols import Moderated, Moderator
from ragstone.query.fallback import Ladder
from ragstone.settings.services import ModerateSettings
from ragstone.trace import Trace
from ragstone.types import Answer, Event, Finished, Message, Token

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Moderation:
    """Asks the moderator, where there is one, and acts on what it says."""

    moderator: Moderator | None
    options: ModerateSettings
    ladder: Ladder

    async def question(self, messages: Iterable[Message], trace: Trace) -> None:
        """Refuse what a user says in a request: the question, and what was said before it."""
        if self.moderator is None or not self.options.questions:
            return
        said = "\n\n".join(message.content for message in messages if message.role == "user")
        objection = await self._objection("question", said, trace)
        if objection is not None:
            raise RefusedError(f"The question is refused: {objection}", hint="Ask something else.")

    async def judged(
        self, events: AsyncGenerator[Event, None], trace: Trace
    ) -> AsyncGenerator[Event, None]:
        """The events of an answer; its words come in one piece, after they were judged."""
        async with aclosing(events):
            async for event in events:
                for passed in await self.passed(event, trace):
                    yield passed

    async def passed(self, event: Event, trace: Trace) -> Sequence[Event]:
        """What goes out of one event: with the last one all the words, when they were judged."""
        if self.moderator is None or not self.options.answers:
            return (event,)
        if isinstance(event, Finished):
            answer = await self._judged(event.answer, trace)
            return Token(answer.text, verified=True), Finished(answer)
        return () if isinstance(event, Token) else (event,)

    async def _judged(self, answer: Answer, trace: Trace) -> Answer:
        """The answer, or that it is withheld and why."""
        try:
            objection = await self._objection("answer", answer.text, trace)
        except ProviderError:
            objection = "It could not be judged."
        judged = _with_last_span(answer, trace)
        return judged if objection is None else withheld(judged, objection)

    async def _objection(self, kind: Moderated, text: str, trace: Trace) -> str | None:
        assert self.moderator is not None
        with trace.span(f"moderate.{kind}") as span:
            try:
                async with asyncio.timeout(self.options.timeout_s):
                    objection = await self.moderator.objection(kind, text)
            except Exception as error:  # whatever a plug-in raises
                if self.options.when_it_fails == "refuse":
                    raise ProviderError(
                        f"The {kind} could not be judged ({type(error).__name__}).",
                        hint="Nothing goes out that was not judged. Ask again later.",
                    ) from error
                self.ladder.step_down("without_moderation", trace, span, error)
                return None
            span.count(moderator=self.moderator.name, refused=objection is not None)
        if objection is not None:
            log.warning("refused", extra={"kind": kind, "request_id": trace.request_id})
        return objection


def withheld(answer: Answer, objection: str) -> Answer:
    """An answer without its words, and without what repeats them."""
    return replace(
        answer,
        text=f"This answer is withheld: {objection}",
        status="refused",
        citations=(),
        claims=(),
        highlights=(),
        is_grounded=False,
        groundedness_score=0.0,
        confidence=0.0,
        citation_precision=0.0,
        citation_recall=0.0,
    )


def _with_last_span(answer: Answer, trace: Trace) -> Answer:
    """The answer was finished before it was judged: its record goes on by one stage."""
    span = trace.spans[-1]
    degraded = tuple(dict.fromkeys((*answer.degraded, *trace.degraded)))
    spans = [*answer.trace.get("spans", ()), span.as_dict()]
    record = {
        **answer.trace, "spans": spans, "degraded": list(degraded),
        "total_ms": round(trace.elapsed_ms(), 3),
    }  # fmt: skip
    return replace(answer, degraded=degraded, notes=(*answer.notes, *span.notes), trace=record)
