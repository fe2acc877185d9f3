"""What a model can do for a question before the search: make it stand alone, widen it, imagine its
answer. Each function asks once and returns what can be used; an unusable reply is an error, and
the caller goes on with the plain question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from ragstone.errors import UnusableReplyError
from ragstone.index.analyze import terms
from ragstone.prompts import render
from ragstone.protocols import Chat
from ragstone.query.understand.rules import spoken_words
from ragstone.types import Expansion, Intent, Message

# Enough of a conversation to know what "it" is.
_TURNS_SHOWN = 6
_MOST_CHARS = 1000


class Standalone(BaseModel):
    question: str = Field(min_length=1)


class Wider(BaseModel):
    rewrite: str = ""
    variants: list[str] = []
    sub_questions: list[str] = []


class Hypothetical(BaseModel):
    passage: str = Field(min_length=1)


class JudgedIntent(BaseModel):
    intent: Intent
    confidence: float = Field(0.75, ge=0, le=1)


async def make_standalone(chat: Chat, question: str, history: Sequence[Message]) -> str:
    conversation = "\n".join(
        f"{message.role}: {message.content[:_MOST_CHARS]}" for message in history[-_TURNS_SHOWN:]
    )
    prompt = render("standalone", conversation=conversation, question=question)
    reply = Standalone.model_validate(await ask_json(chat, prompt, Standalone))
    return _tidy(reply.question) or question


async def widen(chat: Chat, question: str, *, variants: int) -> list[Expansion]:
    """A clear rewrite, other wordings and sub-questions; none that repeats the question."""
    prompt = render("expand", question=question, count=str(variants))
    reply = Wider.model_validate(await ask_json(chat, prompt, Wider))
    found = [Expansion("rewrite", _tidy(reply.rewrite))]
    found += [Expansion("variant", _tidy(text)) for text in reply.variants[:variants]]
    found += [Expansion("sub-question", _tidy(text)) for text in reply.sub_questions[:4]]
    seen = {question.casefold()}
    kept = []
    for expansion in found:
        if expansion.text and expansion.text.casefold() not in seen:
            seen.add(expansion.text.casefold())
            kept.append(expansion)
    return kept


async def imagine(chat: Chat, question: str) -> Expansion:
    """A hypothetical answer; its meaning is searched for, not its words (Gao et al. 2022)."""
    prompt = render("hypothetical", question=question)
    reply = Hypothetical.model_validate(await ask_json(chat, prompt, Hypothetical))
    return Expansion("hypothetical", _tidy(reply.passage))


async def judge_intent(chat: Chat, text: str) -> JudgedIntent:
    return JudgedIntent.model_validate(
        await ask_json(chat, render("intent", message=text), JudgedIntent)
    )


async def ask_json(chat: Chat, prompt: str, shape: type[BaseModel]) -> Mapping[str, Any]:
    """One reply as a JSON object; small models wrap it in prose or a code fence."""
    reply = await chat.complete([Message("user", prompt)], schema=shape.model_json_schema())
    try:
        shape.model_validate(value := read_json(reply))
    except (ValueError, ValidationError) as error:
        raise UnusableReplyError(
            f"The model's reply is not the {shape.__name__} that was asked for.",
            hint="A larger model, or one with structured output, keeps to the format.",
        ) from error
    return value


def read_json(reply: str) -> dict[str, Any]:
    """The first JSON object in a text."""
    for match in re.finditer(r"\{", reply):
        try:
            value, _ = json.JSONDecoder().raw_decode(reply, match.start())
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            return value
    raise ValueError("there is no JSON object in the reply")


def _tidy(text: str) -> str:
    return " ".join(text.split())[:_MOST_CHARS]


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
