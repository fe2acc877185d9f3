"""The first step of a question: what is wanted, does it stand alone, which way does it go, and
what else should be searched for. A query in → the same query, resolved, or a reply at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ragstone.query.ladder import Ladder
from ragstone.query.understand.exemplars import Exemplars
from ragstone.query.understand.followup import is_follow_up, standalone
from ragstone.query.understand.intent import Detected, detect_with_model, detect_without_model
from ragstone.query.understand.reply import reply_to
from ragstone.query.understand.rewrite import imagine, make_standalone, widen
from ragstone.query.understand.route import route
from ragstone.settings import UnderstandSettings
from ragstone.stages import Chat, Embedder
from ragstone.trace import Span, Trace
from ragstone.types import SMALL_TALK, Expansion, Query


@dataclass(frozen=True, slots=True)
class Understood:
    """A query that can be searched for; or, with a `reply`, one that needs no search."""

    query: Query
    detected: Detected
    reply: str | None = None


@dataclass(frozen=True, slots=True)
class Understander:
    """Intent, follow-up, route, expansions. `exemplars` are loaded at the first question."""

    embedder: Embedder
    exemplars: Callable[[], Exemplars]
    options: UnderstandSettings
    chat: Chat | None
    ladder: Ladder

    async def understand(self, query: Query, trace: Trace) -> Understood:
        with trace.span("understand.intent") as span:
            detected = await self._detected(query, trace, span)
            way = route(query.text, detected.intent)
            span.count(
                detected_intent=detected.intent,
                intent_confidence=round(detected.confidence, 4),
                layer=detected.layer,
                route=way,
            )
        if detected.intent in SMALL_TALK:
            return Understood(query, detected, reply_to(query.text, detected.intent))
        resolved = replace(query, asked=query.asked or query.text, route=way)
        if detected.intent == "follow_up":
            resolved = await self._standalone(resolved, trace)
        if self.options.expand == "always" or (
            self.options.expand == "complex" and resolved.route == "complex"
        ):
            resolved = await self._expanded(resolved, trace)
        return Understood(resolved, detected)

    async def _detected(self, query: Query, trace: Trace, span: Span) -> Detected:
        if not self.options.intent_enabled:
            return Detected("question", 1.0, 0)
        if is_follow_up(query.text, query.history):
            return Detected("follow_up", 1.0, 0)
        try:
            detected, unsure = detect_without_model(
                query.text,
                self.embedder,
                self.exemplars(),
                threshold=self.options.intent_confidence,
            )
        except Exception as error:  # noqa: BLE001  an embedder may fail; a question is never lost
            span.note(f"The intent could not be told ({type(error).__name__}); a question it is.")
            return Detected("question", 0.5, 1)
        if detected.intent == "follow_up" and not query.history:
            detected = Detected("question", detected.confidence, 1)
        if unsure and self.chat is not None:
            try:
                return await detect_with_model(self.chat, query.text)
            except Exception as error:  # noqa: BLE001  whatever a provider raises, layer 1 stands
                self.ladder.step_down("without_llm_steps", trace, span, error)
        return detected

    async def _standalone(self, query: Query, trace: Trace) -> Query:
        with trace.span("understand.follow_up") as span:
            text = standalone(query.text, query.history)
            if self.chat is None:
                span.note("No model for inner calls: the missing nouns were carried over.")
            else:
                try:
                    text = await make_standalone(self.chat, query.text, query.history)
                except Exception as error:  # noqa: BLE001  carrying nouns over needs no model
                    self.ladder.step_down("without_llm_steps", trace, span, error)
            span.count(standalone=text != query.text)
        way = route(text, "question")
        return replace(query, text=text, route="conversational" if way == "simple" else way)

    async def _expanded(self, query: Query, trace: Trace) -> Query:
        with trace.span("understand.expand") as span:
            if self.chat is None:
                span.count(expansions=0)
                span.note("No model for inner calls: the question was searched for as it stands.")
                return query
            calls = [widen(self.chat, query.text, variants=self.options.variants)]
            if self.options.hyde:
                calls.append(_listed(imagine(self.chat, query.text)))
            found: list[Expansion] = []
            for result in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(result, Exception):
                    self.ladder.step_down("without_llm_steps", trace, span, result)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    found.extend(result)
            span.count(expansions=len(found), kinds=[expansion.kind for expansion in found])
        return replace(query, expansions=tuple(found))


async def _listed(one: Awaitable[Expansion]) -> list[Expansion]:
    return [await one]
