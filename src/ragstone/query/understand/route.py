"""Which way a question goes: simple, complex, conversational or summarize. No model is asked."""

from __future__ import annotations

import re

from ragstone.types import SMALL_TALK, Intent, Route

# Words that ask for a comparison, in the languages of the exemplars.
_COMPARES = re.compile(
    r"\b(compar\w*|contrast\w*|versus|vs|differ(?:s|ed|ing|ences?|ent)?|distinguish\w*|"
    r"similarit\w+|advantages? (?:of|over)|pros and cons|better than|rather than|"
    r"vergleich\w*|unterschied\w*|unterscheid\w*|gegenüber|diferenci\w*|difieren|"
    r"différenc\w*|diffèr\w*|differenz\w*|confront\w*|diferenç\w*|verschil\w*|vergelijk\w*|"
    r"сравн\w*|разниц\w*|отлича\w*)\b",
    re.IGNORECASE,
)
_SUMMARIZES = re.compile(
    r"\b(summar\w+|sum up|tl;?dr|overview|key (?:points|takeaways)|main points|gist|outline|"
    r"zusammenfass\w*|fass\w* .{0,60}zusammen|überblick|resum\w+|résum\w+|riassum\w+|"
    r"samenvat\w*|vat .{0,60}samen|обобщи\w*|краткое содержание|кратко излож\w*)\b|总结|概括",
    re.IGNORECASE,
)
# "What is X, and who wrote Y?" asks twice with one mark.
_SECOND_QUESTION = re.compile(
    r"[,;]?\s+(?:and|und|y|et|e|en|и)\s+"
    r"(?:what|who|when|where|why|how|which|was|wer|wann|wo|warum|wie|welche\w*|qué|quién|cuándo|"
    r"dónde|cómo|qui|quand|où|comment|pourquoi|che|chi|quando|dove|come|wat|wie|waar|hoe|"
    r"что|кто|когда|где|почему|как)\b",
    re.IGNORECASE,
)


def route(text: str, intent: Intent) -> Route:
    """The first that fits; a question that only names a summary is still one about it."""
    if intent in SMALL_TALK:
        return "conversational"
    if intent == "summarize" or (_SUMMARIZES.search(text) and intent != "compare"):
        return "summarize"
    if intent == "compare" or _COMPARES.search(text) or asks_twice(text):
        return "complex"
    return "conversational" if intent == "follow_up" else "simple"


def asks_twice(text: str) -> bool:
    marks = text.count("?") + text.count("？")
    return marks > 1 or _SECOND_QUESTION.search(text) is not None
