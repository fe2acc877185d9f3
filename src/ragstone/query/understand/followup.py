"""A follow-up and the conversation before it → a question that stands by itself.

With a model it is asked to; without one the nouns that are missing are carried over from the last
question, and a changed year or number takes the place of the old one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstone.query.understand.rules import spoken_words
from ragstone.stores.analyze import terms
from ragstone.types import Message

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
