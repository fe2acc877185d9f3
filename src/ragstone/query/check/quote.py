"""Quotations: what an answer puts in quotation marks must stand in a source, letter for letter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_QUOTED = re.compile(r"“([^“”]{3,})”|„([^“”„]{3,})[“”]|\"([^\"]{3,})\"|«([^«»]{3,})»")


def quotations(text: str) -> list[str]:
    """What stands in quotation marks and is long enough to be one: two words or more."""
    found = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(text))
    return [quoted for quoted in found if len(quoted.split()) >= 2]


def missing_quotations(claim: str, texts: Iterable[str]) -> list[str]:
    """Quotations that no text holds, letter for letter up to white space and Unicode form."""
    plain = [_plain(text) for text in texts]
    return [q for q in quotations(claim) if not any(_plain(q) in text for text in plain)]


def _plain(text: str) -> str:
    flat = unicodedata.normalize("NFKC", text).translate(_SAME_SIGNS)
    return " ".join(flat.split()).strip(" .,;:!?")


_SAME_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "−": "-", "\xad": None}
)
