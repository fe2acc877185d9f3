"""Refuse requests for help to do grave harm, by rules: text → None, or the reason for a refusal.

The rules look for the grammar of a wish to do harm, not for words: documents about explosives,
overdoses and harassment are what nurses, lawyers and historians ask about. They know English,
German, French and Spanish, judge questions only, and do not stop somebody who wants to get past
them (figures: docs/guides/moderate.md).
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache
from importlib import resources
from typing import ClassVar

from ragstone.plugins import PartContext
from ragstone.protocols import Moderated

_MAX_CHARS = 100_000
_FRAGMENT = re.compile(r"<(\w+)>")
# What is quoted was said by somebody else, if there are words of one's own around it.
_QUOTED = re.compile(r"\"[^\"\n]{3,300}\"|“[^”\n]{3,300}”|„[^“”\n]{3,300}[“”]|«[^»\n]{3,300}»")
_MIN_OWN_WORDS = 3


class RulesModerator:
    """Judge questions by the patterns of `moderation.toml`."""

    name = "rules"
    judges: ClassVar[tuple[Moderated, ...]] = ("question",)
    """Answers pass: they quote documents, which may speak of anything."""

    async def objection(self, kind: Moderated, text: str) -> str | None:
        if kind not in self.judges:
            return None
        category = find_harm(text)
        return None if category is None else _load_rules()[category][0]


def find_harm(text: str) -> str | None:
    """Return the category of harm that a text asks for, or None."""
    plain = simplify(remove_quotations(text[:_MAX_CHARS]))
    for category, (_, pattern) in _load_rules().items():
        if pattern.search(plain):
            return category
    return None


def remove_quotations(text: str) -> str:
    """Remove what is quoted, unless nearly everything is."""
    own = _QUOTED.sub(" ", text)
    return own if len(own.split()) >= _MIN_OWN_WORDS else text


def simplify(text: str) -> str:
    """Return a text in small letters, without accents and with single spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold().replace("’", "'"))
    bare = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return " ".join(bare.split())


@cache
def _load_rules() -> dict[str, tuple[str, re.Pattern[str]]]:
    """Return the reason and the pattern of each category."""
    table = tomllib.loads((resources.files("ragstone.query") / "moderation.toml").read_text())
    fragments = {name: text.replace("\n", "") for name, text in table["fragments"].items()}

    def build(pattern: str) -> str:
        expanded = _FRAGMENT.sub(lambda found: fragments[found[1]], pattern)
        return expanded.replace(" _", r" (?:[\w'-]+ ){0,3}")

    return {
        one["name"]: (
            one["reason"],
            re.compile("|".join(f"(?:{build(p)})" for p in one["patterns"])),
        )
        for one in table["categories"]
    }


def build(context: PartContext) -> RulesModerator:
    return RulesModerator()
