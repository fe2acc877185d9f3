"""Find claims that say yes where the source says no of the same thing, or the reverse.

claim and evidence → disagreements. The verifier reads most negations, but passes "Data was lost"
for "No data was lost". Here only clauses in the same words count: what is left without "no",
"never" or "failed to" must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ragstone.index.analyze import extract_terms
from ragstone.query.check.facts import Disagreement
from ragstone.text import find_sentence_spans

_NEGATOR = re.compile(
    r"\b(?P<nobody>nothing|nobody|no[ -]one|none of|none|neither of)\b"
    # not the reply "No, …", the number "No. 5" and the choice "with or without"
    r"|(?<!\bor )\b(?:no(?![.,:]|\s?\d)|not|never|without|cannot|fail(?:s|ed)? to)\b|\w+n['’]t\b",
    re.IGNORECASE,
)
# With these words a clause says neither yes nor no, or only part of it.
_DOUBT = re.compile(
    r"\b(?:not (?:all|every\w*|both|always|necessarily|only|just|exactly|entirely|yet|until)|"
    r"no (?:more|less|fewer|later|earlier|longer|sooner|matter|doubt)|if|unless|until|whether|"
    r"except|almost|nearly|hardly|barely|rarely|seldom|only|could|might|would|should|(?-i:may)|must|"
    r"neither|nor|or (?:no|not|without))\b"
    r"|\?",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[;:]\s+|,\s+(?=(?:and|but|while|whereas|although|though|yet)\b)|\s+but\s+")
# Words that differ between "Some data was lost" and "No data was lost".
_ARTICLES = frozenset({"ani", "all", "some", "something", "somebodi", "someon", "ever"})
_MIN_TERMS = 2


@dataclass(frozen=True, slots=True)
class _Polarity:
    terms: frozenset[str]
    is_negated: bool
    is_universal: bool
    """True for "nothing" and "none of", which deny the rest of every subject."""
    doubts: frozenset[str]
    context: frozenset[str] = frozenset()
    """The terms of the whole sentence and of the one before."""


def find_denials(claim: str, evidence: str) -> Iterator[Disagreement]:
    """Yield a contradiction where the evidence denies a claim in its own words, or the reverse."""
    mine = _read_polarity(claim)
    if mine is None:
        return
    same = [other for other in _read_clauses(evidence) if _is_about_same(mine, other)]
    if same and all(other.is_negated != mine.is_negated for other in same):
        reason = "The source denies this." if not mine.is_negated else "The source says this is so."
        yield Disagreement("denial", reason, contradicts=True)


def _read_clauses(evidence: str) -> Iterator[_Polarity]:
    before: frozenset[str] = frozenset()
    for start, end in find_sentence_spans(evidence):
        sentence = evidence[start:end]
        terms = frozenset(extract_terms(sentence, "english"))
        for clause in dict.fromkeys((sentence, *_CLAUSE.split(sentence))):
            if found := _read_polarity(clause):
                yield replace(found, context=before | terms)
        before = terms


def _read_polarity(clause: str) -> _Polarity | None:
    """Return what a clause says, and whether it denies it; None if it has two negations."""
    found = list(_NEGATOR.finditer(clause))
    if len(found) > 1:
        return None
    rest = _NEGATOR.sub(" ", clause)
    terms = frozenset(extract_terms(rest, "english")) - _ARTICLES
    doubts = frozenset(match[0].casefold() for match in _DOUBT.finditer(clause))
    is_universal = bool(found and found[0]["nobody"])
    return _Polarity(terms, bool(found), is_universal, doubts)


def _is_about_same(mine: _Polarity, other: _Polarity) -> bool:
    """Return True when both say the same but for a negation.

    Who denies may leave out nothing of what the other says: "No data was lost in May" does not deny
    "Data was lost". The other may leave out the subject of "nothing"; where the verb alone is left,
    as in "Nothing was lost", the sentences around must be about the same.
    """
    if mine.doubts != other.doubts:
        return False
    if mine.terms == other.terms:
        return bool(mine.terms)
    denying, saying = (mine, other) if mine.is_negated else (other, mine)
    if not denying.terms or not denying.terms <= saying.terms:
        return False
    return len(denying.terms) >= _MIN_TERMS or (
        denying.is_universal and bool(denying.context & (saying.terms - denying.terms))
    )
