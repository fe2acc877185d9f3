"""Understand a query: detect its intent, complete a follow-up, choose a route, expand it.

query → the same query, ready to be searched, with a reply if it looks like small talk. A follow-up
gets several readings, each a whole question; the documents decide between them.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from ragstone.evidence import DetectedIntent, UnderstoodQuery
from ragstone.fallback import Fallbacks
from ragstone.index.analyze import detect_language
from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext
from ragstone.protocols import Chat, Embedder, MeteredChat
from ragstone.query.understand.follow_up import (
    FROM_MODEL,
    list_exchanges,
    list_readings,
)
from ragstone.query.understand.forms import refers_back
from ragstone.query.understand.intent import (
    Exemplars,
    detect_with_model,
    detect_without_model,
    load_exemplars,
)
from ragstone.query.understand.rewrite import expand_question, imagine_answer, make_standalone
from ragstone.query.understand.small_talk import (
    classify_small_talk,
    detect_talk_language,
    find_small_talk,
    match_small_talk,
)
from ragstone.settings import UnderstandSettings
from ragstone.trace import QueryRun, Span
from ragstone.types import SMALL_TALK, Expansion, Intent, Query, Reading, Route

# Inside a conversation a few words more often ask than remark ("all of them": 0.87).
_SURE_REMARK = 0.9


@dataclass(frozen=True, slots=True)
class IntentUnderstander:
    """Detect intent, follow-up and route, and expand; load exemplars at the first question."""

    embedder: Embedder
    load_exemplars: Callable[[], Exemplars]
    options: UnderstandSettings
    chat: Chat | None
    fallbacks: Fallbacks

    async def understand(self, query: Query, run: QueryRun) -> UnderstoodQuery:
        with run.span("understand.intent") as span:
            query = replace(query, original_text=query.original_text or query.text)
            readings = self._list_readings(query, span)
            if len(readings) == 1 and readings[0].kind == "typed":
                query = replace(query, text=readings[0].text)
            detected = await self._detect(query, readings, run, span)
            route = choose_route(query.text, detected.intent)
            span.count(
                detected_intent=detected.intent,
                intent_confidence=round(detected.confidence, 4),
                layer=detected.layer,
                route=route,
            )
        query = replace(query, route=route)
        reply = get_reply(query.text, detected.intent) if detected.intent in SMALL_TALK else None
        if detected.intent == "follow_up":
            return UnderstoodQuery(await self._complete(query, readings, run), detected)
        if reply is None and (
            self.options.expand == "always"
            or (self.options.expand == "complex" and query.route == "complex")
        ):
            query = await self._expand(query, run)
        return UnderstoodQuery(add_parts(query), detected, reply)

    def _list_readings(self, query: Query, span: Span) -> tuple[Reading, ...]:
        """List what the message may mean in its conversation; one reading if it stands alone."""
        typed = (Reading(query.text),)
        if query.as_typed or not self.options.intent_enabled:
            return typed
        try:
            return list_readings(query.text, list_exchanges(query.history), self._rank_phrases)
        except Exception as error:  # noqa: BLE001  an embedder may fail; a question is never lost
            span.note(f"Follow-ups were not recognised ({type(error).__name__}).")
            return typed

    def _rank_phrases(self, text: str, phrases: Sequence[str]) -> list[float]:
        vectors = self.embedder.embed([text, *phrases])
        similarities: list[float] = (vectors[1:] @ vectors[0]).tolist()
        return similarities

    async def _detect(
        self, query: Query, readings: Sequence[Reading], run: QueryRun, span: Span
    ) -> DetectedIntent:
        if not self.options.intent_enabled:
            return DetectedIntent("question", 1.0, 0)
        if (small_talk := match_small_talk(query.text)) is not None:
            return DetectedIntent(small_talk, 1.0, 0)
        if len(readings) > 1 or readings[0].kind != "typed":
            return self._detect_remark(query.text) or DetectedIntent("follow_up", 1.0, 0)
        try:
            detected, unsure = detect_without_model(
                query.text,
                self.embedder,
                self.load_exemplars(),
                threshold=self.options.intent_confidence,
            )
        except Exception as error:  # noqa: BLE001  an embedder may fail; a question is never lost
            span.note(f"Intent detection failed ({type(error).__name__}); taken as a question.")
            return DetectedIntent("question", 0.5, 1)
        if detected.intent == "follow_up":  # it stands on its own, or there is nothing before it
            detected = DetectedIntent("question", detected.confidence, 1)
        if unsure and self.chat is not None and run.asks_model:
            try:
                return await detect_with_model(MeteredChat(self.chat, span), query.text)
            except Exception as error:  # noqa: BLE001  whatever a provider raises, layer 1 stands
                self.fallbacks.use("without_llm_steps", run, span, error)
        return detected

    def _detect_remark(self, text: str) -> DetectedIntent | None:
        """Tell a remark ("that was really useful") from a follow-up.

        It is searched as it is typed: joined with the last question it would be answered again.
        """
        talk = None if refers_back(text) else classify_small_talk(text)
        if talk is None or talk.probability < max(_SURE_REMARK, self.options.intent_confidence):
            return None
        return DetectedIntent(talk.intent, talk.probability, 1)

    async def _complete(self, query: Query, readings: tuple[Reading, ...], run: QueryRun) -> Query:
        """Add the model's whole question to the readings; the documents decide between them."""
        with run.span("understand.follow_up") as span:
            if self.chat is not None and run.asks_model and readings[0].kind != "more":
                try:
                    text = await make_standalone(
                        MeteredChat(self.chat, span), query.text, query.history
                    )
                except Exception as error:  # noqa: BLE001  the other readings need no model
                    self.fallbacks.use("without_llm_steps", run, span, error)
                else:
                    readings = (*readings, Reading(text, "model", FROM_MODEL))
            readings = tuple({one.text.casefold(): one for one in readings}.values())
            span.count(readings=len(readings), kinds=[one.kind for one in readings])
        likely = max(readings, key=lambda one: one.prior)
        return resolve_reading(replace(query, readings=readings), likely)

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
    settings = context.settings

    @cache
    def load() -> Exemplars:
        return load_exemplars(
            context.reads_with,
            own_file=settings.understand.exemplars,
            cache=settings.data.directory / "cache",
        )

    reading = add_vector_cache(context.reads_with)
    return IntentUnderstander(reading, load, settings.understand, context.chat, context.fallbacks)


# Words of a comparison, in the languages of the exemplars.
_COMPARES = re.compile(
    r"\b(compar\w*|contrast\w*|versus|vs|differ(?:s|ed|ing|ences?|ent)?|distinguish\w*|"
    r"similarit\w+|advantages? (?:of|over)|pros and cons|better than|rather than|"
    r"vergleich\w*|unterschied\w*|unterscheid\w*|gegenüber|diferenci\w*|difieren|"
    r"différenc\w*|diffèr\w*|differenz\w*|confront\w*|diferenç\w*|verschil\w*|vergelijk\w*|"
    r"сравн\w*|разниц\w*|отлича\w*)\b",
    re.IGNORECASE,
)
_SUMMARIZES = re.compile(
    r"\b(summar\w+|sum up|tl;?dr|overview|key (?:points|takeaways)|main points|gist|outline|"
    r"zusammenfass\w*|fass\w* .{0,60}zusammen|überblick|resum\w+|résum\w+|riassum\w+|"
    r"samenvat\w*|vat .{0,60}samen|обобщи\w*|краткое содержание|кратко излож\w*)\b|总结|概括",
    re.IGNORECASE,
)
# "What is X, and who wrote Y?" asks twice with one mark.
_SECOND_QUESTION = re.compile(
    r"[,;]?\s+(?:and|und|y|et|e|en|и)\s+"
    r"(?:what|who|when|where|why|how|which|was|wer|wann|wo|warum|wie|welche\w*|qué|quién|cuándo|"
    r"dónde|cómo|qui|quand|où|comment|pourquoi|che|chi|quando|dove|come|wat|wie|waar|hoe|"
    r"что|кто|когда|где|почему|как)\b",
    re.IGNORECASE,
)


def choose_route(text: str, intent: Intent) -> Route:
    """Return the first route that fits the text or its intent."""
    if intent in SMALL_TALK:
        return "conversational"
    if intent == "summarize" or (_SUMMARIZES.search(text) and intent != "compare"):
        return "summarize"
    if intent == "compare" or _COMPARES.search(text) or has_two_questions(text):
        return "complex"
    return "conversational" if intent == "follow_up" else "simple"


def has_two_questions(text: str) -> bool:
    marks = text.count("?") + text.count("？")
    return marks > 1 or _SECOND_QUESTION.search(text) is not None


def get_reply(text: str, intent: Intent) -> str:
    """Return the reply to small talk, in the language of the text."""
    found = find_small_talk(text) or classify_small_talk(text)
    kind = found.kind if found is not None and found.intent == intent else intent
    replies = _load_tables("replies")[kind]
    language = detect_talk_language(text) or detect_language(text) or "english"
    return str(replies.get(language, replies["english"]))


@cache
def _load_tables(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


def resolve_reading(query: Query, reading: Reading) -> Query:
    """Return a query as it is to be searched in one of its readings."""
    route = choose_route(reading.text, "question")
    route = "conversational" if route == "simple" else route
    return add_parts(replace(query, text=reading.text, route=route))


def add_parts(query: Query) -> Query:
    """Search the parts of a question that asks several things as well, unless a model did that."""
    if query.expansions:
        return query
    parts = ()
    others = tuple(Expansion("sub-question", part) for part in parts if part != query.text)
    return replace(query, expansions=others)
