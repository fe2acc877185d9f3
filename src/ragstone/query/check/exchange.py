"""One word exchanged: "The gate is red." of "The gate is green.".

Overlap calls such a claim nearly a quotation, and to the embedder the two words are neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragstone.query.check.polarity import Disagreement
from ragstone.stores.analyze import terms

_WORDS = re.compile(r"\w+(?:['’]\w+)*")
# Fewer words fit too many places by chance.
_FEWEST = 4


def exchanged_words(claim: str, evidence: str) -> Iterator[Disagreement]:
    """What a text says in the place of the one word that it does not share with a claim.

    Whether the two mean the same is not known here, so it is no contradiction; but it is no
    support either.
    """
    said, there = _words(claim), _words(evidence)
    if len(said) < _FEWEST:
        return
    found: tuple[str, str] | None = None
    for at in range(len(there) - len(said) + 1):
        pairs = zip(said, there[at:], strict=False)
        other = [(ours, theirs) for ours, theirs in pairs if not _same(ours, theirs)]
        if not other:
            return
        if len(other) == 1 and all(map(terms, other[0])):
            found = other[0]
    if found:
        reason = f"The source says “{found[1]}” where this says “{found[0]}”."
        yield Disagreement("word", reason, contradicts=False)


def _words(text: str) -> list[str]:
    return _WORDS.findall(text)


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() or (terms(one) == terms(other) != [])
