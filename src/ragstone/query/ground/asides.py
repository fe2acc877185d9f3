"""Tell the sentences of an answer that claim something from the talk around them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragstone.index.analyze import extract_terms
from ragstone.query.ground.links import IMAGE_REMOVED, LINK_REMOVED

_MIN_TERMS = 2
# Phrases around an answer of a chat model; nothing in them could be cited.
_SMALL_TALK = re.compile(
    r"^(?:sure|certainly|of course|here(?:'s| is| are)|i hope|let me know|please let)"
    r"[^.:]*[:!.,]?$",
    re.IGNORECASE,
)
# A sentence that ends with one of these was cut off.
_UNFINISHED = re.compile(
    r"(?:[,(–—-]|\b(?:a|an|the|of|and|or|to|in|on|at|by|for|from|with|is|are|was|were|be|that|which|"
    r"as|than|their|its|his|her|this|when|where|if|because|while|after|before))$",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\(?\d{1,3}[.)]$|#{1,6}\s|\*\*[^*\n]+\*\*:?$|.*[:：][*_\s]*$", re.DOTALL)
_LOOP_WORDS, _LOOP_TIMES = 6, 3


_FINISHED = re.compile(r"[.!?…:;。！？]\W*$")


def is_aside(text: str, words: Sequence[str], *, is_last: bool, is_cut_off: bool = False) -> bool:
    """Return True for a heading, a lead-in, a loop, and an end that breaks off.

    `is_cut_off`: the model's limit of tokens ended the text, not the model.
    """
    broken = is_last and bool(
        _UNFINISHED.search(text) or (is_cut_off and not _FINISHED.search(text))
    )
    return broken or bool(_HEADING.match(text)) or _has_loop(words)


def _has_loop(words: Sequence[str]) -> bool:
    """Return True when the same words come three times in a row."""
    for size in range(2, _LOOP_WORDS + 1):
        for at in range(len(words) - size * _LOOP_TIMES + 1):
            run = words[at : at + size]
            if len(set(run)) > 1 and all(
                words[at + size * turn : at + size * (turn + 1)] == run
                for turn in range(1, _LOOP_TIMES)
            ):
                return True
    return False


# What a model says about its sources, and not about what they say.
_ABOUT_SOURCES = re.compile(
    r"^(?:however,? |unfortunately,? )?(?:the|this|these) (?:provided |given )?"
    r"(?:passage|document|text|source|context|excerpt|information)s? "
    r"(?:does|do|did) ?(?:not|n['’]t)\b",
    re.IGNORECASE,
)


def says_something(text: str, *, is_labelled: bool = False) -> bool:
    """Return True for a sentence that a document could support: no question, no small talk.

    After a label, "Bakers may not." is enough.
    """
    text = text.replace(IMAGE_REMOVED, "").replace(LINK_REMOVED, "").strip()
    enough = is_labelled or len(extract_terms(text)) >= _MIN_TERMS
    enough = enough or any(c.isdigit() for c in text)
    talk = _SMALL_TALK.match(text) or _ABOUT_SOURCES.match(text)
    return enough and not text.endswith("?") and not talk
