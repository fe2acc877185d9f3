"""Understand a query: detect its intent, complete a follow-up, choose a route, expand it.

query → the same query, ready to be searched; or, for small talk, a reply. A follow-up is completed
from the conversation by a model, or without one by carrying nouns over.
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
from ragstone.index.analyze import detect_language, extract_terms
from ragstone.models.cache import add_vector_cache
from ragstone.plugins import PartContext
from ragstone.protocols import Chat, Embedder
from ragstone.query.understand.intent import (
    Exemplars,
    detect_with_model,
    detect_without_model,
    load_exemplars,
)
from ragstone.query.understand.rewrite import expand_question, imagine_answer, make_standalone
from ragstone.settings import UnderstandSettings
from ragstone.text import normalize_words
from ragstone.trace import QueryRun, Span
from ragstone.types import SMALL_TALK, Expansion, Intent, Message, Query, Route


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
            detected = await self._detect(query, run, span)
            route = choose_route(query.text, detected.intent)
            span.count(
                detected_intent=detected.intent,
                intent_confidence=round(detected.confidence, 4),
                layer=detected.layer,
                route=route,
            )
        if detected.intent in SMALL_TALK:
            return UnderstoodQuery(query, detected, get_reply(query.text, detected.intent))
        resolved = replace(query, original_text=query.original_text or query.text, route=route)
        if detected.intent == "follow_up":
            resolved = await self._complete(resolved, run)
        if self.options.expand == "always" or (
            self.options.expand == "complex" and resolved.route == "complex"
        ):
            resolved = await self._expand(resolved, run)
        return UnderstoodQuery(resolved, detected)

    async def _detect(self, query: Query, run: QueryRun, span: Span) -> DetectedIntent:
        if not self.options.intent_enabled:
            return DetectedIntent("question", 1.0, 0)
        if is_follow_up(query.text, query.history):
            return DetectedIntent("follow_up", 1.0, 0)
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
        if detected.intent == "follow_up" and not query.history:
            detected = DetectedIntent("question", detected.confidence, 1)
        if unsure and self.chat is not None:
            try:
                return await detect_with_model(self.chat, query.text)
            except Exception as error:  # noqa: BLE001  whatever a provider raises, layer 1 stands
                self.fallbacks.use("without_llm_steps", run, span, error)
        return detected

    async def _complete(self, query: Query, run: QueryRun) -> Query:
        with run.span("understand.follow_up") as span:
            text = complete_from_history(query.text, query.history)
            if self.chat is None:
                span.note("Without a model the missing nouns were carried over.")
            else:
                try:
                    text = await make_standalone(self.chat, query.text, query.history)
                except Exception as error:  # noqa: BLE001  carrying nouns over needs no model
                    self.fallbacks.use("without_llm_steps", run, span, error)
            span.count(standalone=text != query.text)
        route = choose_route(text, "question")
        return replace(query, text=text, route="conversational" if route == "simple" else route)

    async def _expand(self, query: Query, run: QueryRun) -> Query:
        with run.span("understand.expand") as span:
            if self.chat is None:
                span.count(expansions=0)
                span.note("Without a model the question was searched as it is.")
                return query
            calls: list[Awaitable[list[Expansion]]] = [
                expand_question(self.chat, query.text, variants=self.options.variants)
            ]
            if self.options.hyde:
                calls.append(imagine_answer(self.chat, query.text))
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


_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_CODES = {
    "en": "english", "de": "german", "es": "spanish", "fr": "french", "it": "italian",
    "pt": "portuguese", "nl": "dutch", "ru": "russian",
}  # fmt: skip


def get_reply(text: str, intent: Intent) -> str:
    """Return the reply to small talk, in the language of the text."""
    replies = _load_tables("replies")[intent]
    return str(replies.get(_detect_language(text), replies["english"]))


def _detect_language(text: str) -> str:
    if _CYRILLIC.search(text):
        return "russian"
    words = normalize_words(text)
    for code, utterances in _load_utterances():
        if any(words[: len(one)] == one for one in utterances):
            return _CODES[code]
    return detect_language(text) or "english"


@cache
def _load_utterances() -> list[tuple[str, list[tuple[str, ...]]]]:
    """Load the exemplars of each language, so that "danke" is known to be German."""
    return [
        (
            code,
            [
                words
                for table in _load_tables("exemplars").values()
                for text in table.get(code, ())
                if (words := normalize_words(text))
            ],
        )
        for code in _CODES
    ]


@cache
def _load_tables(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


# Beginnings that only make sense after an earlier question.
_CONTINUES = re.compile(
    r"^(?:and|but|so|also|or|then|what about|how about|what else|tell me more|go on|why|more|"
    r"how so|elaborate|(?:can you )?(?:elaborate|explain (?:that|this|it))|"
    r"und|aber|oder|auch|mehr|warum|wieso|was ist mit|erzähl mir mehr|"
    r"y|pero|o|más|por qué|cuéntame más|et|mais|ou|plus|pourquoi|dis men plus|"
    r"e|ma|perché|dimmi di più|mas|por quê|en|maar|meer|waarom|"
    r"а|и|но|или|почему|подробнее|расскажи подробнее)\b",
    re.IGNORECASE,
)
# Requests for more of the same, which add nothing to search for.
_MORE_OF_THE_SAME = re.compile(
    r"(?:please |can you |could you )*(?:tell me more|go on|more(?: details?)?|elaborate|what else|"
    r"give me more details|explain|continue|erzähl mir mehr|mehr(?: details)?|cuéntame más|más|"
    r"dis men plus|dimmi di più|расскажи подробнее|подробнее)"
    r"(?: (?:about|on|davon|sobre|de) (?:that|this|it|das|eso|cela))?"
    r"(?: (?:that|this|it|please|bitte))?"
)
_POINTS_BACK = frozenset(
    """
    it its this that these those they them their he him his she her hers there then one ones former
    latter same er ihn ihm sie es ihr ihnen dies dieser diese dieses jener davon dazu daran dort
    eso esto ese esta ella ellos ello allí él lui elle ils elles cela ça celui celle y
    questo quello lui lei loro isso isto ele ela eles dit deze hij zij
    он она оно они его её их ему этот эта это тот та то там
    """.split()  # noqa: SIM905  a list of words reads better as text
)
_NUMBER = re.compile(r"\b\d{1,4}\b")
_FEW_TERMS = 2


def is_follow_up(text: str, history: Sequence[Message]) -> bool:
    """Return True when a text depends on the conversation before it."""
    if find_last_question(history) is None:
        return False
    words = normalize_words(text)
    if _CONTINUES.match(" ".join(words)):
        return True
    points_back = any(word in _POINTS_BACK for word in words)
    named = _list_names(text)
    return points_back and len(named) <= 1 and len(set(extract_terms(text))) <= 6


def complete_from_history(text: str, history: Sequence[Message]) -> str:
    """Add to a text what it leaves out, from the last question."""
    before = find_last_question(history)
    if before is None:
        return text
    if _MORE_OF_THE_SAME.fullmatch(" ".join(normalize_words(text))):
        return before
    fresh = list(dict.fromkeys(extract_terms(text)))
    numbers, old_numbers = _NUMBER.findall(text), _NUMBER.findall(before)
    if numbers and old_numbers and len(fresh) <= len(numbers):
        # "and in 2023?" after "What was the revenue in 2022?": the same question, another year.
        return _NUMBER.sub(
            lambda match: numbers[0] if match[0] == old_numbers[-1] else match[0], before
        )
    if len(fresh) < _FEW_TERMS and not numbers and not _list_names(text):
        return before if not fresh else f"{before.rstrip('?!. ')} ({' '.join(fresh)})?"
    missing = [
        word for word in _list_content_words(before) if not set(extract_terms(word)) & set(fresh)
    ]
    return f"{text.rstrip()} ({' '.join(missing)})" if missing else text


def find_last_question(history: Sequence[Message]) -> str | None:
    """Return the last question of the user, completed if it was itself a follow-up."""
    last: str | None = None
    for message in history:
        if message.role != "user":
            continue
        text = message.content
        if last and _CONTINUES.match(" ".join(normalize_words(text))):
            text = complete_from_history(text, [Message("user", last)])
        last = text
    return last


def _list_content_words(text: str) -> list[str]:
    found = [word for word in re.findall(r"[\w’'-]+", text) if extract_terms(word)]
    return list(dict.fromkeys(found))


def _list_names(text: str) -> list[str]:
    """List capitalised words that do not open the sentence."""
    words = re.findall(r"[\w’'-]+", text)
    return [word for word in words[1:] if word[:1].isupper()]
