"""Whether two sentences say yes and no to the same thing: negation and opposites.

A negation counts where its scope, the next words that carry meaning, stands in the other sentence
without one: "ends without notice" does not deny "ends in June".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ragstone.query.check.overlap import word_overlap, words
from ragstone.stores.analyze import STOP_WORDS

Kind: TypeAlias = Literal["number", "unit", "date", "name", "negation", "opposite", "word"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One point on which a claim is not what its evidence says."""

    kind: Kind
    reason: str
    contradicts: bool
    """The evidence says something else; otherwise it says nothing of it."""


_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|isn|aren|wasn|weren|don|doesn|"
    r"didn|won|wouldn|can|couldn|shouldn|mustn|hasn|haven|hadn)(?:['’]t)\b"
    r"|\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|nicht|kein\w*|nie|niemals|"
    r"ohne)\b",
    re.IGNORECASE,
)
_OPPOSITES = [
    ("increase", "decrease"), ("rise", "fall"), ("rises", "falls"), ("raised", "lowered"),
    ("increased", "decreased"), ("increases", "decreases"), ("higher", "lower"), ("more", "less"),
    ("more", "fewer"), ("above", "below"), ("before", "after"), ("first", "last"),
    ("open", "closed"), ("opens", "closes"), ("allowed", "forbidden"), ("always", "never"),
    ("maximum", "minimum"), ("largest", "smallest"), ("highest", "lowest"), ("north", "south"),
    ("east", "west"), ("northern", "southern"), ("eastern", "western"), ("all", "none"),
    ("accepted", "rejected"), ("approved", "rejected"), ("gain", "loss"), ("won", "lost"),
    ("early", "late"), ("earlier", "later"), ("old", "new"), ("older", "newer"), ("hot", "cold"),
    ("inside", "outside"), ("positive", "negative"), ("begins", "ends"), ("began", "ended"),
    ("start", "end"), ("most", "least"), ("best", "worst"), ("up", "down"), ("left", "right"),
    ("male", "female"), ("true", "false"), ("win", "lose"), ("buy", "sell"), ("long", "short"),
    ("longer", "shorter"), ("strong", "weak"), ("stronger", "weaker"), ("enabled", "disabled"),
    ("included", "excluded"), ("with", "without"), ("possible", "impossible"), ("legal", "illegal"),
    ("upper", "lower"), ("major", "minor"), ("larger", "smaller"), ("greater", "smaller"),
    ("faster", "slower"), ("promotes", "inhibits"), ("promote", "inhibit"), ("public", "private"),
]  # fmt: skip
_OPPOSITE_OF: dict[str, set[str]] = {}
for _one, _other in _OPPOSITES:
    _OPPOSITE_OF.setdefault(_one, set()).add(_other)
    _OPPOSITE_OF.setdefault(_other, set()).add(_one)


# Two sentences with this much in common are the same sentence, so every "not" counts.
_NEARLY_THE_SAME = 0.8
_SCOPE_WORDS = 2
_SKIPPED = STOP_WORDS | {"any", "be", "been", "being", "yet", "only", "also", "more", "than"}


def polarity_disagreements(claim: str, evidence: str) -> Iterator[Disagreement]:
    mine, theirs = negated(claim), negated(evidence)
    claim_words, evidence_words = words(claim), words(evidence)
    denied = (mine & set(evidence_words)) - theirs or (theirs & set(claim_words)) - mine
    # A "not" that only the evidence has is about something that the claim leaves out.
    more = len(_NEGATION.findall(claim)) > len(_NEGATION.findall(evidence))
    same = word_overlap(claim, evidence) >= _NEARLY_THE_SAME
    if denied or (same and more):
        at = f" of {min(denied)!r}" if denied else ""
        yield Disagreement("negation", f"One of the two says not{at}.", contradicts=True)
    only_mine, only_theirs = set(claim_words) - set(evidence_words), set(evidence_words)
    for word in sorted(only_mine):
        opposite = sorted(_OPPOSITE_OF.get(word, set()) & (only_theirs - set(claim_words)))
        if opposite:
            yield Disagreement("opposite", f"The source says {opposite[0]}, not {word}.", True)


def negated(text: str) -> set[str]:
    """The words that a negation in the text is about."""
    found: set[str] = set()
    for match in _NEGATION.finditer(text):
        following = [word for word in words(text[match.end() :][:80]) if word not in _SKIPPED]
        found.update(following[:_SCOPE_WORDS])
    return found
