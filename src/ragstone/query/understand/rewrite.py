"""Rewrite a question with a model before the search: complete it, expand it, imagine its answer.

Each function asks once. An unusable reply raises `UnusableReplyError`; the caller then goes on with
the question as it is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from ragstone.admission import leave_place
from ragstone.errors import UnusableReplyError
from ragstone.index.analyze import STOP_WORDS, extract_terms
from ragstone.prompts import render
from ragstone.protocols import Chat
from ragstone.types import Expansion, Intent, Message, Source

# Enough of a conversation to know what "it" is.
_TURNS_SHOWN = 6
_MAX_CHARS = 1000


class StandaloneReply(BaseModel):
    question: str = Field(min_length=1)


class ExpandReply(BaseModel):
    rewrite: str = ""
    variants: list[str] = []
    sub_questions: list[str] = []


class HypotheticalReply(BaseModel):
    passage: str = Field(min_length=1)


class IntentReply(BaseModel):
    intent: Intent
    confidence: float = Field(0.75, ge=0, le=1)


async def make_standalone(chat: Chat, question: str, history: Sequence[Message]) -> str:
    """Add to a question what it leaves out of the conversation."""
    conversation = "\n".join(
        f"{message.role}: {message.content[:_MAX_CHARS]}" for message in history[-_TURNS_SHOWN:]
    )
    prompt = render("standalone", conversation=conversation, question=question)
    reply = StandaloneReply.model_validate(await ask_json(chat, prompt, StandaloneReply))
    return _tidy_text(reply.question) or question


async def expand_question(chat: Chat, question: str, *, variants: int) -> list[Expansion]:
    """Return a clear rewrite, other wordings and sub-questions; none repeats the question."""
    prompt = render("expand", question=question, count=str(variants))
    reply = ExpandReply.model_validate(await ask_json(chat, prompt, ExpandReply))
    found = [Expansion("rewrite", _tidy_text(reply.rewrite))]
    found += [Expansion("variant", _tidy_text(text)) for text in reply.variants[:variants]]
    found += [Expansion("sub-question", _tidy_text(text)) for text in reply.sub_questions[:4]]
    seen = {question.casefold()}
    kept = []
    for expansion in found:
        if expansion.text and expansion.text.casefold() not in seen:
            seen.add(expansion.text.casefold())
            kept.append(expansion)
    return kept


async def imagine_answer(chat: Chat, question: str) -> list[Expansion]:
    """Write a hypothetical answer, to search by its meaning (HyDE, Gao et al. 2022)."""
    prompt = render("hypothetical", question=question)
    reply = HypotheticalReply.model_validate(await ask_json(chat, prompt, HypotheticalReply))
    return [Expansion("hypothetical", _tidy_text(reply.passage))]


async def judge_intent(chat: Chat, text: str) -> IntentReply:
    return IntentReply.model_validate(
        await ask_json(chat, render("intent", message=text), IntentReply)
    )


async def ask_json(chat: Chat, prompt: str, shape: type[BaseModel]) -> Mapping[str, Any]:
    """Ask once and return the JSON object of the reply, also from inside prose or a code fence."""
    async with leave_place():
        reply = await chat.complete([Message("user", prompt)], schema=shape.model_json_schema())
    try:
        shape.model_validate(value := parse_json_object(reply))
    except (ValueError, ValidationError) as error:
        raise UnusableReplyError(
            f"The reply of the model does not fit the schema {shape.__name__}.",
            hint="Use a larger model, or one with structured output.",
        ) from error
    return value


def parse_json_object(reply: str) -> dict[str, Any]:
    """Return the first JSON object in a text."""
    for match in re.finditer(r"\{", reply):
        try:
            value, _ = json.JSONDecoder().raw_decode(reply, match.start())
        except json.JSONDecodeError:
            continue
        if isinstance(value, dict):
            return value
    raise ValueError("there is no JSON object in the reply")


def _tidy_text(text: str) -> str:
    return " ".join(text.split())[:_MAX_CHARS]


_FEEDBACK_SOURCES = 3
_FEEDBACK_TERMS = 6


def find_feedback_terms(question: str, sources: Sequence[Source]) -> list[str]:
    """Return words that the first sources share and the question lacks (relevance feedback)."""
    asked = set(extract_terms(question))
    counts: Counter[str] = Counter()
    for source in sources[:_FEEDBACK_SOURCES]:
        words = {word.strip(".,;:!?()'’\"").casefold() for word in source.text.split()}
        counts.update(
            word
            for word in words
            if len(word) > 3
            and word.isalpha()
            and word not in STOP_WORDS
            and not asked & set(extract_terms(word))
        )
    return sorted(counts, key=lambda word: (-counts[word], word))[:_FEEDBACK_TERMS]
