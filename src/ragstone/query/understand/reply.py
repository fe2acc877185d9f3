"""The answer to what needs no documents, in the language it was said in."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from ragstone.query.understand.rules import spoken_words
from ragstone.stores.analyze import language_of
from ragstone.types import Intent

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
