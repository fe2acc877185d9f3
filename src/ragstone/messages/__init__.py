"""Translate messages: a finished English sentence in → the same in another language out.

A catalogue (`de.toml`, `zh.toml`) maps an English text with `{}` for its values to a translation.
Sentences are written in English where they are raised, and are recognised when they are shown, so
that no code depends on a language. What a catalogue does not have stays English.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

# Those with a whole catalogue; the other ones have the sentences that stand in answers.
LANGUAGES = ("en", "de", "zh")
_CODES = {
    "chinese": "zh", "dutch": "nl", "french": "fr", "german": "de", "italian": "it",
    "portuguese": "pt", "spanish": "es",
}  # fmt: skip


def translate(text: str, language: str) -> str:
    """Translate a finished text; return it as it is if the catalogue does not have it."""
    if language == "en" or not text:
        return text
    catalogue = _load_catalogue(language)
    if text in catalogue:
        return catalogue[text]
    for pattern, translated in _load_patterns(language):
        if found := pattern.fullmatch(text):
            return translated.format(*found.groups())
    return text


@cache
def list_translations(text: str) -> tuple[str, ...]:
    """Return a text in every language that has it."""
    return tuple(dict.fromkeys((text, *(translate(text, code) for code in _CODES.values()))))


def translate_outcome(outcome: Mapping[str, Any], language: str) -> dict[str, Any]:
    """Translate why a file could not be read (`error`), and what helps (`hint`)."""
    said = {name: translate(outcome.get(name) or "", language) for name in ("error", "hint")}
    return {**outcome, "error": said["error"] or outcome.get("error"), "hint": said["hint"]}


def translate_format(template: str, *values: object, language: str) -> str:
    """Translate a text with `{}` for its values, and fill them in."""
    if language != "en":
        template = _load_catalogue(language).get(template, template)
    return template.format(*values)


def format_count(number: int, noun: str) -> str:
    """Format a number of things in English: `1 chunk`, `2,000 chunks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def choose_language(wanted: str) -> str:
    """Return the first language with a catalogue in a list such as `de-CH,en;q=0.8` or `de_DE`."""
    for one in wanted.replace("_", "-").lower().split(","):
        code = one.partition(";")[0].strip().partition("-")[0].partition(".")[0]
        if code in LANGUAGES:
            return code
    return "en"


def find_language_code(name: str | None) -> str:
    """Return the code of a language that `detect_language` found; `en` if it has no catalogue."""
    return _CODES.get(name or "", "en")


@cache
def _load_catalogue(language: str) -> dict[str, str]:
    file = resources.files(__package__).joinpath(f"{language}.toml")
    return tomllib.loads(file.read_text("utf-8"))


@cache
def _load_patterns(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the texts that have values as patterns, the most specific first."""
    texts = [one for one in _load_catalogue(language).items() if "{}" in one[0]]
    texts.sort(key=lambda one: -len(one[0]))
    return [
        (re.compile("(.*?)".join(map(re.escape, text.split("{}"))), re.DOTALL), translated)
        for text, translated in texts
        if len(text.replace("{}", "")) > 8
    ]
