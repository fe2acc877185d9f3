"""Answers that are none: a refusal in a model's own words, and talk that has nothing to do with
the question or its sources.

Both are told without a model. A refusal is an abstention; nonsense costs a provider its turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstone.query.check.overlap import words
from ragstone.sentences import sentence_spans
from ragstone.stages import Embedder
from ragstone.stores.analyze import STOP_WORDS, terms
from ragstone.types import NO_ANSWER, Source

_DOCUMENTS = (
    r"(?:(?:provided|given|available|above|supplied|numbered) )*"
    r"(?:documents?|sources?|excerpts?|context|passages?|texts?|information)"
)
_REFUSAL = re.compile(
    rf"\b(?:the|these|those|any of the) {_DOCUMENTS}(?: provided| given| above)?"
    r" (?:do(?:es)?|did) (?:not|n['’]t) (?:\w+ )?"
    r"(?:contain|mention|provide|include|say|specify|state|hold|have|give|answer|address|cover)\b"
    rf"|\b(?:not|n['’]t|never) (?:\w+ )?(?:mentioned|specified|stated|given|provided|included|"
    rf"found|available|answered) (?:in|by|from) (?:the|these|any of the) {_DOCUMENTS}"
    r"|\bthere is no (?:information|mention|answer|data)\b"
    r"|\bno (?:information|mention|answer)\b[^.]{0,60}\b(?:is|was|can be) (?:found|given)\b"
    r"|\bI (?:do not|don['’]t|cannot|can['’]t|could not|couldn['’]t|am unable to|'m unable to) "
    r"(?:know|answer|find|have (?:enough|any|the|that|sufficient)|determine|tell|say)\b"
    r"|\b(?:enough|sufficient) information\b|\bkeine (?:Angaben?|Informationen)\b",
    re.IGNORECASE,
)
# A refusal is short; an answer that ends with "the sources do not say why" is an answer.
_MOST_SENTENCES_OF_A_REFUSAL = 2
# Below both of these nothing binds an answer to its question and sources. Answers of SmolLM2 to
# the sample questions, poor as they are, share a fifth of their terms or more.
_SHARED_TERMS = 0.15
_SIMILAR = 0.3
_MOST_SOURCES_COMPARED = 3
_FEWEST_WORDS = 3
_REPEATS_FROM_WORDS = 40
_FRESH_WORDS = 0.12


def is_refusal(text: str) -> bool:
    """Whether an answer says, in whatever words, that the documents do not answer."""
    if not text.strip() or NO_ANSWER in text:
        return True
    if len(sentence_spans(text)) > _MOST_SENTENCES_OF_A_REFUSAL:
        return False
    return bool(_REFUSAL.search(text))


def is_nonsense(
    question: str, text: str, sources: Sequence[Source], embedder: Embedder | None
) -> bool:
    """Whether an answer has nothing in common with its question and sources, or goes in circles."""
    said = words(text)
    if len(said) >= _REPEATS_FROM_WORDS and len(set(said)) < _FRESH_WORDS * len(said):
        return True
    own = {word for word in said if word not in STOP_WORDS}
    if not said or not sources:
        return not said
    if len(own) < _FEWEST_WORDS:
        return False  # "Yes." is short, not nonsense
    known = set(words(question)).union(*(words(source.text) for source in sources))
    stems = set(terms(question)).union(*(terms(source.text) for source in sources))
    if sum(word in known or bool(stems & set(terms(word))) for word in own) >= (
        _SHARED_TERMS * len(own)
    ):
        return False
    if embedder is None:
        return True
    others = [question, *(source.text for source in sources[:_MOST_SOURCES_COMPARED])]
    vectors = embedder.embed([text, *others])
    return bool((vectors[1:] @ vectors[0]).max() < _SIMILAR)
