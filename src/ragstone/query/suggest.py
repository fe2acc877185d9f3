"""Suggestions while typing: questions that were answered before, and headings of the documents.

prefix, past questions, headings → a few texts, those that begin with it first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text to offer, and where it is from."""

    text: str
    kind: Literal["history", "heading"]
    collection: str


def suggest(
    prefix: str,
    asked: Sequence[tuple[str, str]],
    headings: Iterable[tuple[str, str]],
    *,
    limit: int,
) -> list[Suggestion]:
    """`asked` (newest first) and `headings` are pairs of text and collection.

    A past question comes before a heading, a text that begins with the prefix before one that has
    it inside, and what was asked more often before the rest. Without a prefix: what is asked most.
    """
    wanted = " ".join(prefix.casefold().split())
    times = Counter(_same(text) for text, _ in asked)
    ranked: list[tuple[tuple[int, int, int, int], Suggestion]] = []
    seen: set[str] = set()
    offered = [
        *(Suggestion(text, "history", collection) for text, collection in asked),
        *(Suggestion(text, "heading", collection) for text, collection in headings),
    ]
    for place, one in enumerate(offered):
        match = _match(wanted, one.text)
        if match is None or _same(one.text) in seen:
            continue
        seen.add(_same(one.text))
        is_heading = one.kind == "heading"
        rank = (match, int(is_heading), 0 if is_heading else -times[_same(one.text)], place)
        ranked.append((rank, one))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])[:limit]]


def _match(wanted: str, text: str) -> int | None:
    """0: it begins with the prefix; 1: one of its words does; None: neither."""
    spoken = " ".join(text.casefold().split())
    if spoken.startswith(wanted):
        return 0
    return 1 if f" {wanted}" in spoken else None


def _same(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip("?!. ")
