"""Understand a query: detect its intent, list its readings, choose a route, expand it.

query → the same query, ready to be searched, with a reply if it looks like small talk. What a
follow-up means is decided by the documents: it gets several readings, each a whole question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from ragstone.evidence import DetectedIntent, UnderstoodQuery
from ragstone.fallback import Fallbacks
from ragstone.plugins import PartContext
from ragstone.protocols import Chat, MeteredChat
from ragstone.query.understand.readings import list_readings
from ragstone.query.understand.rewrite import (
    expand_question,
    imagine_answer,
    judge_intent,
    make_standalone,
)
from ragstone.query.understand.small_talk import classify_small_talk, get_reply, match_small_talk
from ragstone.reading.classifier import asks_two_questions, classify_route
from ragstone.reading.documents import find_request
from ragstone.settings import UnderstandSettings
from ragstone.text import find_sentence_spans
from ragstone.trace import QueryRun, Span
from ragstone.types import SMALL_TALK, Expansion, Intent, Query, Reading, Route

# Inside a conversation a few words more often ask than remark ("all of them").
_SURE_REMARK = 0.9
_MIN_PART_WORDS = 3


@dataclass(frozen=True, slots=True)
class IntentUnderstander:
    """Detects intent, follow-up and route with the classifier, and expands with a model."""

    options: UnderstandSettings
    chat: Chat | None
    fallbacks: Fallbacks

    async def understand(self, query: Query, run: QueryRun) -> UnderstoodQuery:
        with run.span("understand.intent") as span:
            query = replace(query, original_text=query.original_text or query.text)
            readings: tuple[Reading, ...] = (Reading(query.text),)
            if self.options.intent_enabled and not query.as_typed:
                readings = list_readings(query.text, query.history)
            detected = await self._detect(query, readings, run, span)
            route = choose_route(query.text, detected.intent)
            span.count(
                detected_intent=detected.intent,
                intent_confidence=round(detected.confidence, 4),
                layer=detected.layer,
                route=route,
            )
        query = replace(query, route=route)
        if detected.intent in SMALL_TALK:
            return UnderstoodQuery(add_parts(query), detected, get_reply(query.text))
        if detected.intent == "follow_up":
            return UnderstoodQuery(await self._complete(query, readings, run), detected)
        expand = self.options.expand
        if expand == "always" or (expand == "complex" and query.route == "complex"):
            query = await self._expand(query, run)
        return UnderstoodQuery(add_parts(replace(query, readings=readings)), detected)

    async def _detect(
        self, query: Query, readings: tuple[Reading, ...], run: QueryRun, span: Span
    ) -> DetectedIntent:
        exact = match_small_talk(query.text) if self.options.intent_enabled else None
        if exact is not None or not self.options.intent_enabled:
            return DetectedIntent("question" if exact is None else exact.intent, 1.0, 0)
        threshold, talk = self.options.intent_confidence, classify_small_talk(query.text)
        probability = 0.0 if talk is None else talk.probability
        is_later = len(readings) > 1 or readings[0].kind == "more"
        if talk is not None and probability >= (
            max(threshold, _SURE_REMARK) if is_later else threshold
        ):
            return DetectedIntent(talk.intent, probability, 1)
        if readings[0].kind != "typed":  # it makes no sense alone
            return DetectedIntent("follow_up", 1 - probability, 1)
        if probability > 1 - threshold and self.chat is not None and run.asks_model:
            try:
                judged = await judge_intent(MeteredChat(self.chat, span), query.text)
                return DetectedIntent(judged.intent, judged.confidence, 2)
            except Exception as error:  # noqa: BLE001  whatever a provider raises, layer 1 stands
                self.fallbacks.use("without_llm_steps", run, span, error)
        route, sure = classify_route(query.text)
        if route in ("summarize", "compare") and sure >= threshold:
            return DetectedIntent("summarize" if route == "summarize" else "compare", sure, 1)
        return DetectedIntent("question", 1 - probability, 1)

    async def _complete(self, query: Query, readings: tuple[Reading, ...], run: QueryRun) -> Query:
        """Add the model's whole question to the readings."""
        with run.span("understand.follow_up") as span:
            if self.chat is not None and run.asks_model and readings[0].kind != "more":
                try:
                    text = await make_standalone(
                        MeteredChat(self.chat, span), query.text, query.history
                    )
                except Exception as error:  # noqa: BLE001  the other readings need no model
                    self.fallbacks.use("without_llm_steps", run, span, error)
                else:
                    # It knows the conversation: no second guess is needed.
                    readings = (Reading(text, "model"), readings[0], readings[-1])
            span.count(readings=len(readings), kinds=[reading.kind for reading in readings])
        return resolve_reading(replace(query, readings=readings), readings[0])

    async def _expand(self, query: Query, run: QueryRun) -> Query:
        with run.span("understand.expand") as span:
            if self.chat is None or not run.asks_model:
                span.count(expansions=0)
                span.note("Without a model the question was searched as it is.")
                return query
            chat = MeteredChat(self.chat, span)
            calls: list[Awaitable[list[Expansion]]] = [
                expand_question(chat, query.text, variants=self.options.variants)
            ]
            if self.options.hyde:
                calls.append(imagine_answer(chat, query.text))
            found: list[Expansion] = []
            for result in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(result, Exception):
                    self.fallbacks.use("without_llm_steps", run, span, result)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    found.extend(result)
            span.count(expansions=len(found), kinds=[expansion.kind for expansion in found])
        return replace(query, expansions=tuple(found))


def build(context: PartContext) -> IntentUnderstander:
    return IntentUnderstander(context.settings.understand, context.chat, context.fallbacks)


def choose_route(text: str, intent: Intent) -> Route:
    """Return the route of a question, by its text and its intent."""
    if intent in SMALL_TALK:
        return "conversational"
    if intent == "summarize" or find_request(text) in ("summarize", "overview"):
        return "summarize"
    if intent == "compare" or classify_route(text)[0] == "compare" or asks_two_questions(text):
        return "complex"
    return "conversational" if intent == "follow_up" else "simple"


def resolve_reading(query: Query, reading: Reading) -> Query:
    """Return a query as it is to be searched in one of its readings."""
    route = choose_route(reading.text, "follow_up")
    return add_parts(replace(query, text=reading.text, route=route, expansions=()))


def add_parts(query: Query) -> Query:
    """Also search each question of a message that asks several, unless a model expanded it."""
    if query.expansions or not asks_two_questions(query.text):
        return query
    sentences = [query.text[start:end] for start, end in find_sentence_spans(query.text)]
    parts = sentences if len(sentences) > 1 else query.text.split(", ")
    if len(parts) < 2 or any(len(part.split()) < _MIN_PART_WORDS for part in parts):
        return query
    return replace(query, expansions=tuple(Expansion("sub-question", part) for part in parts))
