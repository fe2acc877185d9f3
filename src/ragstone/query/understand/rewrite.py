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
from ragstone.prompts import render
from ragstone.protocols import Chat
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
