"""Tell small talk from questions: whole messages word for word, or by the classifier.

message → its kind of small talk and how probable that is, or None.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ragstone.index.analyze import detect_language
from ragstone.reading.classifier import HEADS, load_classifier
from ragstone.text import normalize_words
from ragstone.types import SMALL_TALK, Intent

# Small talk is short. A longer message asks something, or is a text to be read.
_MAX_CHARS = 200
_PART_END = re.compile(r"[,.;:!?…–—，。！？、\n]+")
# Of several in one message the first here counts: "hi, thanks, bye" is a farewell.
_PRIORITY = ("help", "farewell", "gratitude", "chitchat", "greeting", "acknowledgement")


@dataclass(frozen=True, slots=True)
class SmallTalk:
    """The kind of small talk that a message is, how probable that is, and its language."""

    kind: str
    probability: float = 1.0
    language: str = ""

    @property
    def intent(self) -> Intent:
        intents: dict[str, Intent] = {intent: intent for intent in SMALL_TALK}
        return intents.get(self.kind, "chitchat")


def match_small_talk(text: str) -> SmallTalk | None:
    """Return the small talk that a message consists of, word for word."""
    if len(text) > _MAX_CHARS:
        return None
    known = _load_greetings()
    whole = normalize_words(text)
    parts = [whole] if whole in known else [normalize_words(part) for part in _PART_END.split(text)]
    found = [known.get(part) for part in parts if part]
    talks = [talk for talk in found if talk is not None]
    if not talks or len(talks) < len(found):
        return None
    return min(talks, key=lambda talk: _PRIORITY.index(talk.kind))


def drop_small_talk(text: str) -> str:
    """Return a message without the greeting or thanks that it begins with."""
    while (part := _PART_END.search(text[:_MAX_CHARS])) is not None:
        talk, rest = match_small_talk(text[: part.start()]), text[part.end() :].strip()
        if not rest or talk is None or talk.kind == "acknowledgement":
            break
        text = rest
    return text


def classify_small_talk(text: str) -> SmallTalk | None:
    """Return the likeliest kind of small talk and its probability; None for a long message."""
    if len(text) > _MAX_CHARS or not text.strip():
        return None
    found = load_classifier().score("intent", [text])[0]
    kind = HEADS["intent"][1 + int(found[1:].argmax())]
    return SmallTalk(kind, float(1 - found[0]), detect_language(text) or "english")


def get_reply(text: str) -> str:
    """Return the reply to small talk, in the language of the message."""
    talk = match_small_talk(text) or classify_small_talk(text) or SmallTalk("chitchat")
    replies = _load_table("replies")[talk.kind]
    return str(replies.get(talk.language, replies["english"]))


@cache
def _load_greetings() -> dict[tuple[str, ...], SmallTalk]:
    return {
        normalize_words(phrase): SmallTalk(kind, 1.0, language)
        for language, kinds in reversed(_load_table("greetings").items())
        for kind, phrases in kinds.items()
        for phrase in phrases
    }


@cache
def _load_table(name: str) -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text("utf-8"))
