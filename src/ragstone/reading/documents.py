"""Tell requests about documents as a whole from questions: "Summarize the lease" asks for all of
one.

text → the kind of request, and the words that say what it is about. Which documents are meant is
decided by the catalog.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, cast

from ragstone.reading.classifier import classify_route

# A longer message is a question with its context.
_MAX_CHARS = 300
_MIN_PROBABILITY = 0.5
# A word makes the request when the request is so much less probable without it.
_MIN_DROP = 0.1
_WORD = re.compile(r"\w[\w.'’-]*\w|\w")
RequestKind: TypeAlias = Literal["summarize", "overview", "list", "compare"]


def find_request(text: str) -> RequestKind | None:
    """Return what a text asks for about documents as a whole; None for a question."""
    label = _find_label(text)
    # "What's the difference between a gate and a door?" wants an answer, not two documents.
    if label == "compare" and text.rstrip().endswith(("?", "？")):
        return None
    return None if label in ("ask", "compose") else cast("RequestKind", label)


def needs_model(text: str) -> bool:
    """Return True when a text asks to write, rewrite or translate something."""
    return _find_label(text) == "compose"


def find_subject(text: str) -> str:
    """Return what a request is about: its words without those that make it a request."""
    label, probability = classify_route(text)
    spans = [match.span() for match in _WORD.finditer(text)]
    kept = []
    for start, end in spans:
        without, rest = classify_route(text[:start] + text[end:])
        if without == label and rest > probability - _MIN_DROP:
            kept.append((start, end))
    return text[kept[0][0] : kept[-1][1]] if kept else ""


def _find_label(text: str) -> str:
    plain = " ".join(text.split())
    if len(plain) > _MAX_CHARS:
        return "ask"
    label, probability = classify_route(plain)
    return label if probability >= _MIN_PROBABILITY else "ask"
