"""Layer 0 of the intent router: small talk that is said word for word, and nothing beside it."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from importlib import resources

from ragstone.protocols import Embedder
from ragstone.types import Intent

# English text has 3 to 5 letters to a token of the shipped embedder, German and Spanish 2.5,
# Russian 1.0: below this its similarities mean little.
FEWEST_LETTERS_PER_TOKEN = 1.5


def knows_script(embedder: Embedder, text: str) -> bool:
    letters = sum(char.isalnum() for char in text)
    return letters >= FEWEST_LETTERS_PER_TOKEN * len(embedder.token_starts(text))


_WORD = re.compile(r"\w+", re.UNICODE)
_APOSTROPHES = re.compile(r"['’`´]")
# When an utterance holds several: "hi, thanks, bye" ends a conversation.
_ORDER: tuple[Intent, ...] = ("help", "farewell", "gratitude", "chitchat", "greeting")


def spoken_words(text: str) -> tuple[str, ...]:
    """Words without case, apostrophes and punctuation."""
    plain = _APOSTROPHES.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return tuple(_WORD.findall(plain))


def hard_rule(text: str) -> Intent | None:
    """The small talk that a text consists of; None as soon as one word is left over."""
    words, phrases = spoken_words(text), _phrases()
    found: set[Intent] = set()
    at = 0
    while at < len(words):
        length = next(
            (n for n in range(min(_longest(), len(words) - at), 0, -1)
             if words[at : at + n] in phrases),
            0,
        )  # fmt: skip
        if not length:
            return None
        meant = phrases[words[at : at + length]]
        if meant is not None:
            found.add(meant)
        at += length
    return next((intent for intent in _ORDER if intent in found), None)


@cache
def _phrases() -> dict[tuple[str, ...], Intent | None]:
    """Every phrase with what it means; fillers mean nothing."""
    text = resources.files(__package__).joinpath("phrases.toml").read_text("utf-8")
    tables: dict[str, list[str]] = tomllib.loads(text)
    known: dict[tuple[str, ...], Intent | None] = {
        spoken_words(phrase): None for phrase in tables["filler"]
    }
    for intent in reversed(_ORDER):
        known.update({spoken_words(phrase): intent for phrase in tables[intent]})
    return known


@cache
def _longest() -> int:
    return max(map(len, _phrases()))
