"""Tell requests about documents as a whole from questions: "Summarize the lease" asks for all of
one.

text → the kind of request, and the words that say what it is about. Which documents are meant is
decided by the catalog.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, cast

import numpy as np

from ragstone.index.analyze import extract_terms
from ragstone.reading.classifier import HEADS, classify_route, load_classifier

# A longer message is a question with its context.
_MAX_CHARS = 300
_MIN_PROBABILITY, _MIN_PROBABILITY_ASKED, _CERTAIN = 0.5, 0.7, 0.85
# A word makes the request when the odds that it's a question rise so much without it (logarithm).
_MIN_RISE = 2.0
# A word that alone asks for an overview, such as "documents", names no kind of documents.
_OVERVIEW, _MAX_GENERAL = HEADS["route"].index("overview"), 0.1
# A word, or one character where words are not set apart by spaces.
_WORD = re.compile(r"[\u3040-\u9fff]|[^\W\u3040-\u9fff]+")
RequestKind: TypeAlias = Literal["summarize", "overview", "list", "compare"]


def find_request(text: str) -> RequestKind | None:
    """Return what a text asks for about documents as a whole; None for a question."""
    label, probability = _classify(text)
    is_question = text.rstrip().endswith(("?", "？"))
    # "What's the difference between a gate and a door?" wants an answer, not two documents.
    if label in ("ask", "compose") or (label == "compare" and is_question):
        return None
    least = _MIN_PROBABILITY_ASKED if is_question else _MIN_PROBABILITY
    return cast("RequestKind", label) if probability >= least else None


def is_certain(text: str) -> bool:
    """Return True when a request can't be a question as well."""
    return find_request(text) is not None and _classify(text)[1] >= _CERTAIN


def needs_model(text: str) -> bool:
    """Return True when a text asks to write, rewrite or translate something."""
    label, probability = _classify(text)
    return label == "compose" and probability >= _MIN_PROBABILITY


def find_subject(text: str) -> str:
    """Return what a request is about: its content words, without those that make it a request."""
    text = text[:_MAX_CHARS]
    kind = find_request(text)
    spans = [match.span() for match in _WORD.finditer(text)]
    without = [text[:start] + text[end:] for start, end in spans]
    scores = load_classifier().score("route", [text, *without, *(text[a:b] for a, b in spans)])
    asks = scores[:, 0].clip(1e-6, 1 - 1e-6)
    odds = np.log(asks / (1 - asks))
    kept = []
    for at, (start, end) in enumerate(spans, 1):
        if kind in ("list", "compare"):
            is_subject = at > 1 and scores[len(spans) + at, _OVERVIEW] < _MAX_GENERAL
        else:
            is_subject = odds[at] - odds[0] < _MIN_RISE
        if is_subject and extract_terms(text[start:end]):
            kept.append((start, end))
    return text[kept[0][0] : kept[-1][1]] if kept else ""


def _classify(text: str) -> tuple[str, float]:
    plain = " ".join(text.split())
    return classify_route(plain) if len(plain) <= _MAX_CHARS else ("ask", 1.0)
