"""The first step of a question: what is wanted, does it stand alone, which way does it go, and
what else should be searched for. A query in → the same query, resolved, or a reply at once."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from ragstone.index.analyze import language_of, terms
from ragstone.models.cache import remembered
from ragstone.plugins import PartContext
from ragstone.protocols import Chat, Embedder
from ragstone.query.evidence import Detected, Understood
from ragstone.query.fallback import Fallbacks
from ragstone.query.understand.intent import (
    Exemplars,
    detect_with_model,
    detect_without_model,
    load_exemplars,
)
from ragstone.query.understand.rewrite import (
    imagine,
    make_standalone,
    widen,
)
from ragstone.settings import UnderstandSettings
from ragstone.text import spoken_words
from ragstone.trace import QueryRun, Span
from ragstone.types import SMALL_TALK, Expansion, Intent, Message, Query, Route

# Words that ask for a comparison, in the languages of the exemplars.
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


def route(text: str, intent: Intent) -> Route:
    """The first that fits; a question that only names a summary is still one about it."""
    if intent in SMALL_TALK:
        return "conversational"
    if intent == "summarize" or (_SUMMARIZES.search(text) and intent != "compare"):
        return "summarize"
    if intent == "compare" or _COMPARES.search(text) or asks_twice(text):
        return "complex"
    return "conversational" if intent == "follow_up" else "simple"


def asks_twice(text: str) -> bool:
    marks = text.count("?") + text.count("？")
    return marks > 1 or _SECOND_QUESTION.search(text) is not None


_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_CODES = {
    "en": "english", "de": "german", "es": "spanish", "fr": "french", "it": "italian",
    "pt": "portuguese", "nl": "dutch", "ru": "russian",
}  # fmt: skip


def reply_to(text: str, intent: Intent) -> str:
    replies = _tables("replies")[intent]
    return str(replies.get(_language(text), replies["english"]))


def _language(text: str) -> str:
    if _CYRILLIC.search(text):
        return "russian"
    said = spoken_words(text)
    for code, utterances in _utterances():
        if any(said[: len(words)] == words for words in utterances):
            return _CODES[code]
    return language_of(text) or "english"


@cache
def _utterances() -> list[tuple[str, list[tuple[str, ...]]]]:
    """What the exemplars hold of each language, so that "danke" is known to be German."""
    return [
        (code, [spoken_words(text) for table in _tables("exemplars").values()
                for text in table.get(code, ()) if spoken_words(text)])
        for code in _CODES
    ]  # fmt: skip


@cache
def _tables(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))


# Beginnings that only make sense after something was said.
_CONTINUES = re.compile(
    r"^(?:and|but|so|also|or|then|what about|how about|what else|tell me more|go on|why|more|"
    r"how so|elaborate|(?:can you )?(?:elaborate|explain (?:that|this|it))|"
    r"und|aber|oder|auch|mehr|warum|wieso|was ist mit|erzähl mir mehr|"
    r"y|pero|o|más|por qué|cuéntame más|et|mais|ou|plus|pourquoi|dis men plus|"
    r"e|ma|perché|dimmi di più|mas|por quê|en|maar|meer|waarom|"
    r"а|и|но|или|почему|подробнее|расскажи подробнее)\b",
    re.IGNORECASE,
)
# What asks for more of the same and adds nothing to search for.
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
    """Does a text lean on what was said before? Never without a conversation."""
    if last_question(history) is None:
        return False
    words = spoken_words(text)
    if _CONTINUES.match(" ".join(words)):
        return True
    points_back = any(word in _POINTS_BACK for word in words)
    named = _names(text)
    return points_back and len(named) <= 1 and len(set(terms(text))) <= 6


def standalone(text: str, history: Sequence[Message]) -> str:
    """The text with what it leaves out taken from the last question."""
    before = last_question(history)
    if before is None:
        return text
    if _MORE_OF_THE_SAME.fullmatch(" ".join(spoken_words(text))):
        return before
    fresh = list(dict.fromkeys(terms(text)))
    numbers, old_numbers = _NUMBER.findall(text), _NUMBER.findall(before)
    if numbers and old_numbers and len(fresh) <= len(numbers):
        # "and in 2023?" after "What was the revenue in 2022?": the same question, another year.
        return _NUMBER.sub(lambda match: _swapped(match[0], old_numbers, numbers), before)
    if len(fresh) < _FEW_TERMS and not numbers and not _names(text):
        return before if not fresh else f"{before.rstrip('?!. ')} ({' '.join(fresh)})?"
    missing = [word for word in _content_words(before) if not set(terms(word)) & set(fresh)]
    return f"{text.rstrip()} ({' '.join(missing)})" if missing else text


def last_question(history: Sequence[Message]) -> str | None:
    """The last thing the user asked that stands by itself; its own follow-ups are resolved."""
    asked = [message.content for message in history if message.role == "user"]
    resolved: str | None = None
    for number, text in enumerate(asked):
        earlier = [Message("user", resolved)] if resolved else []
        leans = number > 0 and bool(_CONTINUES.match(" ".join(spoken_words(text))))
        resolved = standalone(text, earlier) if leans and earlier else text
    return resolved


def _swapped(number: str, old: Sequence[str], new: Sequence[str]) -> str:
    return new[0] if number == old[-1] else number


def _content_words(text: str) -> list[str]:
    found = [word for word in re.findall(r"[\w’'-]+", text) if terms(word)]
    return list(dict.fromkeys(found))


def _names(text: str) -> list[str]:
    """Capitalised words that do not open the sentence."""
    words = re.findall(r"[\w’'-]+", text)
    return [word for word in words[1:] if word[:1].isupper()]


@dataclass(frozen=True, slots=True)
class IntentUnderstander:
    """Intent, follow-up, route, expansions. `exemplars` are loaded at the first question."""

    embedder: Embedder
    exemplars: Callable[[], Exemplars]
    options: UnderstandSettings
    chat: Chat | None
    fallbacks: Fallbacks

    async def understand(self, query: Query, run: QueryRun) -> Understood:
        with run.span("understand.intent") as span:
            detected = await self._detected(query, run, span)
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
            resolved = await self._standalone(resolved, run)
        if self.options.expand == "always" or (
            self.options.expand == "complex" and resolved.route == "complex"
        ):
            resolved = await self._expanded(resolved, run)
        return Understood(resolved, detected)

    async def _detected(self, query: Query, run: QueryRun, span: Span) -> Detected:
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
                self.fallbacks.use("without_llm_steps", run, span, error)
        return detected

    async def _standalone(self, query: Query, run: QueryRun) -> Query:
        with run.span("understand.follow_up") as span:
            text = standalone(query.text, query.history)
            if self.chat is None:
                span.note("No model for inner calls: the missing nouns were carried over.")
            else:
                try:
                    text = await make_standalone(self.chat, query.text, query.history)
                except Exception as error:  # noqa: BLE001  carrying nouns over needs no model
                    self.fallbacks.use("without_llm_steps", run, span, error)
            span.count(standalone=text != query.text)
        way = route(text, "question")
        return replace(query, text=text, route="conversational" if way == "simple" else way)

    async def _expanded(self, query: Query, run: QueryRun) -> Query:
        with run.span("understand.expand") as span:
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
                    self.fallbacks.use("without_llm_steps", run, span, result)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    found.extend(result)
            span.count(expansions=len(found), kinds=[expansion.kind for expansion in found])
        return replace(query, expansions=tuple(found))


async def _listed(one: Awaitable[Expansion]) -> list[Expansion]:
    return [await one]


def build(context: PartContext) -> IntentUnderstander:
    settings = context.settings

    @cache
    def exemplars() -> Exemplars:
        return load_exemplars(
            context.reads_with,
            own_file=settings.understand.exemplars,
            cache=settings.data.directory / "cache",
        )

    reading = remembered(context.reads_with)
    return IntentUnderstander(
        reading, exemplars, settings.understand, context.chat, context.fallbacks
    )
